"""Modules whose parameters need no gradient for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """No parameter needs a gradient inside; afterwards those do that did.

    Unlike under `torch.no_grad`, a model may still differentiate in its inputs, as for forces.

    >>> layer = nn.Linear(2, 2)
    >>> with frozen(layer):
    ...     layer.weight.requires_grad
    False
    >>> layer.weight.requires_grad
    True
    """
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
