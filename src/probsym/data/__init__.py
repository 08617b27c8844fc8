"""Datasets, one file each."""

from probsym.data.decorated_cycles import Graphs, decorated_cycles

__all__ = ["Graphs", "decorated_cycles"]
