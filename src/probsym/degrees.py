"""How fine a quadrature over rotations has to be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from probsym.errors import RangeError
from probsym.ops.argument_checks import check_size
from probsym.samplers import Quadrature
from probsym.symmetrized import Symmetrized


@torch.no_grad()
def quadrature_degree(
    model: Symmetrized, *inputs: Tensor, spread: float, turns: int = 10, most: int = 15, seed: int = 0, **options: Any
) -> int:
    """The smallest degree of a `Quadrature` for which outputs vary by at most `spread` over rotations.

    The base of the model is averaged with rules of increasing degree. Each rule is rotated `turns` times at random,
    which has the same effect as rotating the inputs. The spread is the standard deviation over these rotations, for the
    output where it is largest. With 10 rotations it is known to about a quarter of its size. Degree 3 has 48 elements
    for O(3), degree 7 has 416, and all degrees up to the answer are tried. The options go to the model (`mask`,
    `extra`).

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0, 0] ** 2, "n d -> ", {"d": groups.SO(3)})
    >>> quadrature_degree(model, torch.randn(4, 5, 3), spread=1e-5)
    2
    """
    if not 0 < spread < float("inf"):
        raise RangeError(f"Expected spread to be positive (got {spread})")
    check_size(turns, "turns", least=2)
    deviation = float("nan")
    for degree in range(check_size(most, "most", least=0) + 1):
        averaged = _with_rule(model, degree)
        each = [_flat(averaged(*inputs, seed=seed + turn, **options)) for turn in range(turns)]
        deviation = float(torch.stack(each).double().std(0).max())
        if deviation <= spread:
            return degree
    raise RangeError(f"Expected a spread of {spread} at a degree of at most {most} (got {deviation:.3g})")


def _with_rule(model: Symmetrized, degree: int) -> Symmetrized:
    averaged = Symmetrized(
        model.base,
        str(model.signature),
        model.signature.groups,
        Quadrature(degree),
        chunk=model.chunk,
        residual=model.residual,
        output_keys=model.output_keys,
        mask_argument=model.mask_argument,
    )
    averaged.training = model.training  # `train` would put the base, which is the caller's, into the same mode
    return averaged


def _flat(outputs: Tensor | tuple[Tensor, ...]) -> Tensor:
    return torch.cat([output.flatten() for output in ([outputs] if isinstance(outputs, Tensor) else outputs)])
