"""What is computed in the precision of its tensors, whatever autocast says."""

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Turn autocast off. If it is off already, nothing is done, so an exported graph contains no trace of it.

    >>> with torch.autocast("cpu", torch.bfloat16), full_precision(torch.device("cpu")):
    ...     (torch.ones(1, 1) @ torch.ones(1, 1)).dtype
    torch.float32
    """
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which numbers of this one are computed.

    >>> at_least_float32(torch.bfloat16), at_least_float32(torch.float64)
    (torch.float32, torch.float64)
    """
    return dtype if dtype in (torch.float32, torch.float64) else torch.promote_types(dtype, torch.float32)
