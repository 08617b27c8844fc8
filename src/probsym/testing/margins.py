"""Which draws rounding may decide."""

import torch
from torch import Tensor

from probsym.estimate import Estimate
from probsym.groups import E, Group, S
from probsym.groups.planar import PlanarGroup
from probsym.ops.gram_schmidt import TOLERANCE
from probsym.samplers.draw import Draw
from probsym.signature import Signature

CLOSE = {torch.float64: 1e-12, torch.float32: 2e-5}
"""Gaps between scores or logits, relative to the largest, that rounding may close."""
THIN = {torch.float64: 1e-6, torch.float32: 2e-3}
"""What Gram-Schmidt leaves of a vector, relative to all, below which it magnifies rounding too much."""


def unclear_draws(signature: Signature, estimate: Estimate) -> Tensor:
    """The draws (B, K) of an estimate whose features name an element by no more than rounding."""
    return torch.cat([_unclear(signature, part) for part in estimate.parts], 1)


def _unclear(signature: Signature, draw: Draw) -> Tensor:
    elements = next(iter(draw.elements.values()), None)
    if elements is None:
        return torch.zeros(1, draw.count, dtype=torch.bool)
    found = torch.zeros(elements.shape[:2], dtype=torch.bool, device=elements.device)
    for key, z in draw.features.items():
        found |= _close_call(signature.groups[key], z.detach(), draw, key)
    return found


def _close_call(group: Group, z: Tensor, draw: Draw, key: str) -> Tensor:
    if isinstance(group, S):
        order = draw.soft_sorts()[key]
        real = order.sorted_mask()
        z = z.gather(-1, order.index)
        return _too_close(z if real is None else torch.where(real, z, 0), None if real is None else real[..., 1:])
    if isinstance(group, PlanarGroup):
        return _too_close(z.topk(min(2, z.shape[-1])).values, None)
    z = z[..., :-1] if isinstance(group, E) else z
    left = torch.linalg.qr(z).R.diagonal(dim1=-2, dim2=-1).abs()
    share = left / torch.linalg.matrix_norm(z).clamp(min=torch.finfo(z.dtype).tiny).unsqueeze(-1)
    # well below the tolerance a vector is replaced by noise, which moves along
    return ((share < THIN[z.dtype]) & (share > TOLERANCE[z.dtype] / 10)).any(-1)


def _too_close(ordered: Tensor, real: Tensor | None) -> Tensor:
    """Whether neighbours differ, but by no more than rounding; exact ties are decided by noise, which moves along."""
    gap = (ordered[..., :-1] - ordered[..., 1:]).abs()
    close = (gap != 0) & (gap <= CLOSE[ordered.dtype] * ordered.abs().amax(-1, keepdim=True))
    return (close if real is None else close & real).any(-1)
