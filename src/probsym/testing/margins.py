"""Which draws rounding may decide."""

import torch
from torch import Tensor

from probsym.estimate import Estimate
from probsym.ops import Order
from probsym.samplers.draw import Draw
from probsym.signature import Signature


def unclear_draws(signature: Signature, estimate: Estimate) -> Tensor:
    """The draws (B, K) of an estimate whose features name an element by no more than rounding."""
    return torch.cat([_unclear(signature, part) for part in estimate.chunks], 1)


def _unclear(signature: Signature, draw: Draw) -> Tensor:
    elements = next(iter(draw.elements.values()), None)
    if elements is None:
        return torch.zeros(1, draw.count, dtype=torch.bool)
    found = torch.zeros(elements.shape[:2], dtype=torch.bool, device=elements.device)
    for key, z in draw.features.items():
        carrier = draw.carriers[key]
        mask = carrier.mask if isinstance(carrier, Order) else None
        found |= signature.groups[key].linear.close_call(z.detach(), draw.elements[key], mask)
    return found
