"""Small equivariant networks that feed a sampler. A new net is one new file and one line in `NETS`.

A net of your own is any module with this interface:

    perturbs: tuple[int, ...]     optional: which of its inputs get noise, as indices; all if it is missing
    extra_noise: int              optional: channels of pure noise passed before its inputs, (B, K, n, extra_noise)
    forward(*inputs, mask=None) -> Features
    check_terms(terms, groups)    optional: raises an error for terms that the net cannot read, when a model is built
    feature_fields: tuple[str, ...]  optional: the fields of `Features` that it returns, compared with what the groups
                                  need when a model is built; if it is missing, every call compares them

Perturbed inputs have shape (B, K, ...), one copy for each of K draws; all others have shape (B, ...), so that nothing
is repeated without need. mask is boolean (B, n), True where real, or None; a net's output for real items must not
depend on padding. `Features` holds what elements are computed from: scores, which are permuted with the items; vectors,
which rotate with the input; logits, which a finite group permutes. The net must be exactly equivariant: it must not
break ties by an item's position, nor derive a direction from rounding errors.
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
