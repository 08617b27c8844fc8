"""Datasets, one file each."""

from probsym.data.acetylacetone import Molecules, acetylacetone
from probsym.data.colour_refinement import wl_classes, wl_colours
from probsym.data.decorated_cycles import decorated_cycles
from probsym.data.exp import exp, exp_splits
from probsym.data.graph8c import all_graphs, graph8c
from probsym.data.graphs import Graphs, SplitIndices
from probsym.data.isomorphism import certificates
from probsym.data.lrgb import pcqm_contact, peptides_func, peptides_struct
from probsym.data.nbody import Particles, nbody
from probsym.data.nbody_chaos import nbody_chaos
from probsym.data.packed import GraphBatch, PackedGraphs
from probsym.data.pattern import pattern
from probsym.data.rows import Rows

__all__ = [
    "GraphBatch",
    "Graphs",
    "Molecules",
    "PackedGraphs",
    "Particles",
    "Rows",
    "SplitIndices",
    "acetylacetone",
    "all_graphs",
    "certificates",
    "decorated_cycles",
    "exp",
    "exp_splits",
    "graph8c",
    "nbody",
    "nbody_chaos",
    "pattern",
    "pcqm_contact",
    "peptides_func",
    "peptides_struct",
    "wl_classes",
    "wl_colours",
]
