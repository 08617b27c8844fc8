"""Seeds that are kept apart: what one purpose draws says nothing of another."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derived(seed: int, purpose: str, count: int = 0) -> int:
    """A seed for one purpose, such as "initialisation", "order" or "draws", and one epoch or step of it.

    >>> derived(0, "order", 1) == derived(0, "order", 1), derived(0, "order") == derived(0, "draws")
    (True, False)
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{count}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed what can only draw from the global generators, such as dropout; afterwards they are as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
