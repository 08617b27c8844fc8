"""Dropout inside attention, at the rate that was asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel


def without_cudnn(x: Tensor, rate: float) -> AbstractContextManager[None]:
    """Within it, attention on the device of x that drops at this rate does not go through cuDNN.

    cuDNN may round the rate to sixteenths (pytorch, pull request 174245), and then what attention gives in training is
    not on average what it gives in evaluation. Otherwise what the caller has allowed stays allowed.
    """
    return sdpa_kernel(_others()) if x.is_cuda and rate > 0 else nullcontext()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _others() -> list[SDPBackend]:
    """All that is allowed now but cuDNN; plain products if that is nothing."""
    allowed = {
        SDPBackend.FLASH_ATTENTION: cuda.flash_sdp_enabled(),
        SDPBackend.EFFICIENT_ATTENTION: cuda.mem_efficient_sdp_enabled(),
        SDPBackend.MATH: cuda.math_sdp_enabled(),
    }
    return [one for one, is_allowed in allowed.items() if is_allowed] or [SDPBackend.MATH]
