"""The average over draws, and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from probsym.errors import NonFiniteError, RangeError
from probsym.ops.argument_checks import readable
from probsym.ops.precision import at_least_float32
from probsym.samplers.draw import Draw

Outputs = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What `Symmetrized.estimate` returns.

    `mean` and `stderr` have the shape of the output, (B, ...), or are tuples if there are several outputs. The standard
    error is NaN for a single draw and for quasi and stratified draws, and zero if the average is exact. For antithetic
    draws it is computed from the means of pairs, which are independent. `elements` are the elements drawn, by axis,
    (B, K, ...). `weights` (B, K) are their weights in the mean, None if all are equal. `values` are the K outputs
    themselves, (B, K, ...), with `keep_values=True`.

    `losses` holds terms that you may add to your training loss, by name. "entropy" is the entropy of the relaxed
    choices behind straight-through gradients (for permutations: row plus column entropy, mean over real items). It is
    a mean over draws and batch, summed over the axes, and zero if there are no such choices. Losses are computed in
    training; in evaluation they are computed when you first access them.
    """

    mean: Any
    stderr: Any
    samples: int
    elements: Mapping[str, Tensor]
    weights: Tensor | None = None
    values: Any = None
    losses: Mapping[str, Tensor] = field(default_factory=dict)
    chunks: tuple[Draw, ...] = ()

    def samples_for(self, stderr: float) -> int:
        """How many draws would bring every standard error down to `stderr`, judging by these draws."""
        errors = (self.stderr,) if isinstance(self.stderr, Tensor) else self.stderr
        every = torch.cat([error.double().flatten() for error in errors])
        worst = float(every.max()) if len(every) else 0.0
        if math.isnan(worst):
            raise RangeError(
                "Expected an estimate with a standard error (got NaN: one draw, or draws that depend on each other)"
            )
        return draws_for(worst**2 * self.samples, stderr)


class Late(Mapping[str, Tensor]):
    """Losses that are computed when the first of them is asked for."""

    def __init__(self, compute: Callable[[], dict[str, Tensor]]) -> None:
        self._compute = compute

    @cached_property
    def _found(self) -> dict[str, Tensor]:
        return self._compute()

    def __getitem__(self, name: str) -> Tensor:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Estimator(nn.Module):
    """A symmetrized model whose call returns an `Estimate`, with the arguments of `Symmetrized.estimate`.

    Use it for training with losses if a wrapper only handles calls of a module:

        estimator = torch.nn.parallel.DistributedDataParallel(model.estimator())
        estimate = estimator(x, mask=mask)
        (task_loss(estimate.mean) + 0.1 * estimate.losses["entropy"]).backward()
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor, **options: Any) -> Estimate:
        estimate: Estimate = self.model.estimate(*inputs, **options)  # type: ignore[operator]
        return estimate


class Average:
    """Sums over draws that may come in chunks: a differentiable mean, and its standard error if asked for.

    For weights w and values y the mean is m = sum w y / sum w, and its squared standard error
    `K / (K - 1) sum w^2 (y - m)^2 / (sum w)^2`, the usual one for equal weights; K counts the weights that are not
    zero. Squares are taken about the first value, so that nothing cancels.

    `block` is how many draws in a row depend on each other. Of 2, a pair counts as one draw, with their mean and the
    sum of their weights; of None, all do, and there is no standard error.
    """

    def __init__(self, statistics: bool, block: int | None = 1) -> None:
        self.statistics, self.block = statistics, block
        self.count = 0
        self.dtypes: list[torch.dtype] = []
        self.weight: Tensor | float = 0.0
        self.sums: list[Tensor] = []
        self.origins: list[Tensor] = []
        self.squares: list[tuple[Tensor, Tensor, Tensor]] = []
        self.exact: Tensor | None = None
        self.dependent: Tensor | None = None
        self.counted: Tensor | int = 0
        self.single: tuple[list[Tensor], Tensor] | None = None  # the first of a pair, until the second comes

    def add(self, values: Sequence[Tensor], draw: Draw) -> None:
        """Add the values (B, K, ...) of a draw."""
        first = not self.sums
        self.dtypes = [y.dtype if y.is_floating_point() else _wide(y.dtype) for y in values]
        precise = [y.to(_wide(y.dtype)) for y in values]
        self.count += draw.count
        self.exact, self.dependent = draw.exact, draw.dependent
        if draw.weights is None:
            self.weight = self.weight + draw.count
            sums = [y.squeeze(1) if draw.count == 1 else y.sum(1) for y in precise]
        else:
            self.weight = self.weight + draw.weights.sum(1)
            sums = [(y * _like(draw.weights.to(y.dtype), y)).sum(1) for y in precise]
        self.sums = sums if first else [a + b for a, b in zip(self.sums, sums, strict=True)]
        if self.statistics and self.block is not None:
            values, weights = [y.detach() for y in precise], None if draw.weights is None else draw.weights.detach()
            if first:
                self.origins = [y[:, :1] for y in values]
            if self.block == 2:
                values, weights = self._pairs(values, weights)
            self.squares, self.counted = self._with_squares(values, weights)

    def _with_squares(
        self, values: Sequence[Tensor], weights: Tensor | None
    ) -> tuple[list[tuple[Tensor, Tensor, Tensor]], Tensor | int]:
        """The sums of squares, and how many draws are in them, with some more."""
        squares = []
        for y, origin in zip(values, self.origins, strict=True):
            off = y - origin
            each = torch.ones(y.shape[:2], dtype=y.dtype, device=y.device) if weights is None else weights
            squared = _like(each.to(y.dtype).square(), y)
            squares.append((squared.sum(1), (squared * off).sum(1), (squared * off.square()).sum(1)))
        if self.squares:
            pairs = zip(self.squares, squares, strict=True)
            squares = [(a + x, b + y, c + z) for (a, b, c), (x, y, z) in pairs]
        return squares, self.counted + (values[0].shape[1] if weights is None else (weights != 0).sum(1))

    def _pairs(self, values: list[Tensor], weights: Tensor | None) -> tuple[list[Tensor], Tensor]:
        """The mean of each pair that is complete now, (B, pairs, ...), and the weight of both; a single one is kept."""
        if weights is None:
            weights = torch.ones(values[0].shape[:2], dtype=values[0].dtype, device=values[0].device)
        if self.single is not None:
            values = [torch.cat([x, y], 1) for x, y in zip(self.single[0], values, strict=True)]
            weights = torch.cat([self.single[1], weights], 1)
        even = weights.shape[1] // 2 * 2
        rest = [y[:, even:] for y in values], weights[:, even:]
        self.single = rest if rest[1].shape[1] else None
        each = weights[:, :even].reshape(len(weights), even // 2, 2)
        total = each.sum(2)
        share = each / torch.where(total == 0, 1, total).unsqueeze(2)
        means = []
        for y in values:
            two = y[:, :even].reshape(len(y), even // 2, 2, *y.shape[2:])
            means.append((_like(share.to(y.dtype), two) * two).sum(2))
        return means, total

    def check(self) -> None:
        """Refuse weights by whose sum nothing can be divided; of a single chunk it may be zero."""
        total = self.weight
        if isinstance(total, Tensor) and readable(total) and not (right := total.isfinite() & (total != 0)).all():
            item = int((~right).nonzero()[0])
            raise NonFiniteError(
                f"Expected weights of draws with a sum that is finite and not zero (got {total[item].item()} in item "
                f"{item})"
            )

    def mean(self) -> list[Tensor]:
        """The mean of each output, (B, ...), in at least float32."""
        if isinstance(self.weight, Tensor):
            return [total / _like(self.weight.to(total.dtype), total) for total in self.sums]
        return [total / self.weight for total in self.sums] if self.weight != 1 else self.sums

    def stderr(self) -> list[Tensor]:
        """The standard error of each output, (B, ...), in at least float32."""
        if self.block is None:
            return [torch.full_like(mean, torch.nan, requires_grad=False) for mean in self.mean()]
        errors = []
        squares, many = (self.squares, self.counted) if self.single is None else self._with_squares(*self.single)
        for mean, origin, (squared_weight, off, square) in zip(self.mean(), self.origins, squares, strict=True):
            m = mean.detach() - origin.squeeze(1)
            spread = (square - 2 * m * off + m.square() * squared_weight).clamp(min=0)
            weight = (
                _like(self.weight.detach().to(mean.dtype), mean) if isinstance(self.weight, Tensor) else self.weight
            )
            count = many.to(mean.dtype) if isinstance(many, Tensor) else mean.new_full((), many)
            ratio = torch.where(count > 1, count / (count - 1), torch.nan)
            error = (_like(ratio, mean) * spread).sqrt() / weight
            if self.dependent is not None:
                error = torch.where(_like(self.dependent, error), torch.nan, error)
            if self.exact is not None:
                error = torch.where(_like(self.exact, error), 0.0, error)
            errors.append(error)
        return errors


def draws_for(variance: float, stderr: float) -> int:
    """How many draws make the standard error of a mean as small as that, by the variance of one draw.

    >>> draws_for(0.04, stderr=0.02)
    100
    """
    if not 0 < stderr < math.inf:
        raise RangeError(f"Expected the standard error to be positive (got {stderr})")
    draws = variance / stderr / stderr
    if not math.isfinite(draws):
        raise RangeError(f"Expected a finite number of draws (got variance {variance}, standard error {stderr})")
    return max(1, math.ceil(draws - 1e-9))


def joint_weights(chunks: Sequence[Draw]) -> Tensor | None:
    """The weights of all draws together, (B, K), summing to one; None if all are equal."""
    parts = [chunk.weights for chunk in chunks if chunk.weights is not None]
    if not parts:
        return None
    weights = torch.cat(parts, 1)
    return weights / weights.sum(1, keepdim=True)


def one_or_all(outputs: Sequence[Tensor]) -> Outputs:
    """A tensor where there is one output, a tuple where there are several."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """In which to average: at least float32, and float64 for whole numbers that float32 would round."""
    if not dtype.is_floating_point and dtype.itemsize > 2:
        return torch.float64
    return at_least_float32(dtype)


def _like(weights: Tensor, y: Tensor) -> Tensor:
    """Weights with as many axes as y."""
    return weights.view(*weights.shape, *(1 for _ in y.shape[weights.dim() :]))
