"""Activation functions by name."""

from torch import nn

from probsym.errors import RangeError

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU}


def known_activation(name: str, argument: str = "activation") -> type[nn.Module]:
    """The class of that name, or a complaint that lists the names there are."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise RangeError(f"Expected {argument} to be one of {', '.join(ACTIVATIONS)} (got {name!r})")
    return ACTIVATIONS[name]
