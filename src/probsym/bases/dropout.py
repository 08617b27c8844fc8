"""Dropout inside attention, at the rate that was asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

EXACT = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Ways to attend that drop at any rate; that of cuDNN may round it to sixteenths (pytorch, pull request 174245)."""


def exact_dropout(x: Tensor, rate: float) -> AbstractContextManager[None]:
    """Within it, attention on the device of x drops at this rate and no other; with none, nothing is ruled out."""
    return sdpa_kernel(EXACT) if x.is_cuda and rate > 0 else nullcontext()
