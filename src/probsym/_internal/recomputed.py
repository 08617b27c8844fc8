"""Calls that keep nothing inside for the gradient, and are made once more on the way back."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from probsym.ops.transforms import traced

T = TypeVar("T")


def can_recompute(device: torch.device) -> bool:
    """Whether there is a gradient to save memory for, and no compiler, transform or CUDA graph records the calls."""
    if not torch.is_grad_enabled() or traced():
        return False
    return device.type != "cuda" or not torch.cuda.is_current_stream_capturing()


def recomputed(call: Callable[[], T], base: object, inputs: Sequence[Any]) -> T:
    """What `call` returns; its inside is computed again for the gradient, with the same random numbers.

    Buffers of `base`, such as the statistics of norms, change in the first call only. `inputs` tell the device.
    """
    made: Any = checkpoint(
        lambda *_: call(), *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), _Unchanged(base))
    )
    return made


class _Unchanged:
    """Buffers are afterwards what they were before; may be entered again, since there may be several gradients."""

    def __init__(self, base: object) -> None:
        self.buffers = list(base.buffers()) if isinstance(base, nn.Module) else []

    def __enter__(self) -> None:
        self.kept = [buffer.clone() for buffer in self.buffers]

    def __exit__(self, *_: object) -> None:  # also when torch leaves by an exception, having what it needs
        for buffer, before in zip(self.buffers, self.kept, strict=True):
            # not a change that the gradient need know of: in training, norms do not read these
            buffer.data.copy_(before)
