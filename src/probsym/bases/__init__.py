"""Group-agnostic base models f, one file each. A new base is one new file and one line in `BASES`."""

from torch import nn

from probsym.bases.mlp import MLP

BASES: dict[str, type[nn.Module]] = {
    "MLP": MLP,
}

__all__ = ["BASES", "MLP"]
