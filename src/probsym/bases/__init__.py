"""Group-agnostic base models f, one file each. A new base is one new file and one line in `BASES`."""

from torch import nn

from probsym.bases.arrays import Arrays
from probsym.bases.egnn import EGNN
from probsym.bases.encoders import EncoderSettings
from probsym.bases.gcn import GCN
from probsym.bases.gin_id import GINID
from probsym.bases.gnn import GNN
from probsym.bases.mlp import MLP
from probsym.bases.patch_transformer import LoadReport, PatchTransformer
from probsym.bases.sequence_transformer import SequenceTransformer
from probsym.ops.edge_list import EdgeList

BASES: dict[str, type[nn.Module]] = {
    "MLP": MLP,
    "SequenceTransformer": SequenceTransformer,
    "GNN": GNN,
    "EGNN": EGNN,
    "GCN": GCN,
    "GINID": GINID,
    "PatchTransformer": PatchTransformer,
}

__all__ = [
    "BASES",
    "EGNN",
    "GCN",
    "GINID",
    "GNN",
    "MLP",
    "Arrays",
    "EdgeList",
    "EncoderSettings",
    "LoadReport",
    "PatchTransformer",
    "SequenceTransformer",
]
