"""What the tests of several bases share."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probsym.bases import Arrays

TINY: dict[str, Any] = {"family": "vit", "width": 32, "layers": 2, "heads": 4, "feed_forward": 64}
TOLERANCE: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float64: {"rtol": 1e-9, "atol": 1e-10},
}
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def make_inputs(arrays: str, batch: int, n: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """One normal tensor, a leaf, for each input of the notation."""
    shapes = [array.shape(batch, n) for array in Arrays.parse(arrays).inputs]
    return [normal(*shape, dtype=dtype, seed=i).requires_grad_() for i, shape in enumerate(shapes)]


def make_mask(batch: int, n: int) -> Tensor:
    """Rows with holes, the first full, none empty."""
    mask = torch.rand(batch, n, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[0], mask[:, 1] = True, True
    return mask


def fill_padding(arrays: str, inputs: Sequence[Tensor], mask: Tensor, junk: float) -> list[Tensor]:
    """The inputs with `junk` wherever an item is padding."""
    filled = []
    for array, x in zip(Arrays.parse(arrays).inputs, inputs, strict=True):
        y = x.detach().clone()
        for axis in range(1, 1 + array.order):
            shape = [1] * y.dim()
            shape[0], shape[axis] = mask.shape
            y = torch.where(mask.view(shape), y, junk)
        filled.append(y.requires_grad_())
    return filled


def at_real(model: Any, y: Tensor, mask: Tensor | None) -> Tensor:
    """The output of a base that declares its arrays, with zeros wherever an item is padding."""
    if mask is None:
        return y
    for axis in range(1, 1 + model.arrays.output.order):
        shape = [1] * y.dim()
        shape[0], shape[axis] = mask.shape
        y = torch.where(mask.view(shape), y, 0)
    return y


def scrambled(module: nn.Module, scale: float = 0.2) -> nn.Module:
    """The module with random numbers added to every parameter, biases and norms among them."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))
    return module


def gradients(y: Tensor, leaves: Iterable[Tensor]) -> tuple[Any, ...]:
    """Of one fixed linear function of y; zero where y does not depend on a leaf."""
    cotangent = normal(*y.shape, dtype=y.dtype, seed=9)
    return torch.autograd.grad((y * cotangent).sum(), list(leaves), materialize_grads=True)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
