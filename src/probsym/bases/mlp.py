"""MLP: all inputs flattened into one vector, then linear layers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.errors import DtypeError, RangeError, ShapeError
from probsym.ops.argument_checks import check_rate


class MLP(RemembersArguments, nn.Module):
    """Linear layers of the given widths; widths[0] is the total size of all inputs.

    Every input (batch, ...) is flattened after its batch axis and cast to the dtype of the parameters; they are
    concatenated in order. Activation and dropout follow every layer but the last; `output_activation` follows
    the last. The output is (batch, widths[-1]), or (batch, *shape) if a shape of that many numbers is given:
    `shape=()` is one number per batch item.

    >>> model = MLP([3 * 3 + 3 * 2, 16, 3], shape=(3, 1))
    >>> model(torch.ones(5, 3, 2), torch.ones(5, 3, 3, dtype=torch.bool)).shape
    torch.Size([5, 3, 1])
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: str = "relu",
        *,
        shape: Sequence[int] | None = None,
        output_activation: str | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.widths = _sizes(widths, "widths")
        if len(self.widths) < 2:
            raise RangeError(f"Expected widths to hold 2 or more, from input to output (got {list(self.widths)})")
        self.shape = self.widths[-1:] if shape is None else _sizes(shape, "shape")
        if math.prod(self.shape) != self.widths[-1]:
            raise ShapeError(
                f"Expected shape to hold {self.widths[-1]} numbers like the last width "
                f"(got {math.prod(self.shape)}: {self.shape})"
            )
        check_rate(dropout, "dropout")
        between = known_activation(activation)
        layers: list[nn.Module] = [nn.Linear(self.widths[0], self.widths[1])]
        for width, following in zip(self.widths[1:], self.widths[2:], strict=False):
            layers += [between(), *([nn.Dropout(dropout)] if dropout else []), nn.Linear(width, following)]
        if output_activation is not None:
            layers.append(known_activation(output_activation, "output_activation")())
        self.layers = nn.Sequential(*layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Inputs (batch, ...) with widths[0] numbers per batch item in total; returns (batch, *shape)."""
        self._check(inputs)
        dtype = next(self.parameters()).dtype
        batch = inputs[0].shape[0]
        flat = torch.cat([x.reshape(batch, math.prod(x.shape[1:])).to(dtype) for x in inputs], dim=-1)
        return self.layers(flat).reshape(batch, *self.shape)

    def _check(self, inputs: tuple[Tensor, ...]) -> None:
        if not inputs:
            raise ShapeError("Expected at least one input (got none)")
        for i, x in enumerate(inputs):
            if not isinstance(x, Tensor) or x.is_complex():
                kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
                raise DtypeError(f"Expected input {i} to be a tensor of real numbers (got {kind})")
            if x.dim() < 1:
                raise ShapeError(f"Expected input {i} to have a batch axis (got shape ())")
            if x.shape[0] != inputs[0].shape[0]:
                raise ShapeError(
                    f"Expected input {i} to have batch size {inputs[0].shape[0]} like input 0 (got {x.shape[0]})"
                )
        total = sum(math.prod(x.shape[1:]) for x in inputs)
        if total != self.widths[0]:
            shapes = ", ".join(" x ".join(str(size) for size in x.shape[1:]) or "1" for x in inputs)
            raise ShapeError(f"Expected inputs of {self.widths[0]} numbers in all (got {total}: {shapes})")


def _sizes(sizes: Sequence[int], name: str) -> tuple[int, ...]:
    if not isinstance(sizes, Sequence) or not all(type(size) is int for size in sizes):
        raise DtypeError(f"Expected {name} to be a sequence of integers (got {sizes!r})")
    if any(size < 1 for size in sizes):
        raise RangeError(f"Expected {name} to be 1 or more each (got {list(sizes)})")
    return tuple(sizes)
