"""Small equivariant networks that feed a sampler. A new net is one new file and one line in `NETS`.

A net of your own is any module with two attributes and a method or two:

    perturbs: tuple[int, ...]     which of the inputs it reads get noise, as indices into them
    extra_noise: int              how many channels of pure noise it gets before its inputs, (B, K, n, extra_noise)
    forward(*inputs, mask=None) -> Features
    check_terms(terms, groups)    optional: refuses inputs that it cannot read, by their terms, when a model is built

Inputs that are perturbed come as (B, K, ...), one for each of K draws, all others as (B, ...): whatever the draws share
need not be repeated. mask is boolean (B, n), True where real, or None; what a net returns for real items must not
depend on padding. `Features` holds what names the elements: scores follow a permutation of the items, vectors a
rotation of the input, logits a finite group. To be equivariant, the whole of it must hold exactly: break no ties by
an item's place, and take no direction from rounding errors.
"""

from torch import nn

from probsym.nets.deep_sets import DeepSets
from probsym.nets.features import Features
from probsym.nets.gin import GIN
from probsym.nets.lifted import Lifted
from probsym.nets.vn_dgcnn import VNDGCNN
from probsym.ops.masked_batch_norm import MaskedBatchNorm

NETS: dict[str, type[nn.Module]] = {
    "GIN": GIN,
    "DeepSets": DeepSets,
    "VNDGCNN": VNDGCNN,
    "Lifted": Lifted,
}

__all__ = ["GIN", "NETS", "VNDGCNN", "DeepSets", "Features", "Lifted", "MaskedBatchNorm"]
