"""The exponential kernel on a sorted line, multiplied without building it.

Points z_0 >= z_1 >= ... and a rate k give `K[r, j] = exp(-k |z_r - z_j|)`, symmetric with unit diagonal. Products with
matrices, and sums against them, are in `ops.chunks`.
"""

import torch
from torch import Tensor


class ExponentialKernel:
    """Products with the strictly lower and upper part of K, by doubling: log2 n fused multiply-adds each.

    The lower product obeys `L_r = K[r, r-1] (L_{r-1} + w_{r-1})`. Start from `v_r = K[r, r-1] w_{r-1}`, then add
    `K[r, r-s] v_{r-s}` for s = 1, 2, 4, ...: after each round v_r covers twice as many points. The upper product is the
    mirror image. Every factor is at most 1, so this is stable in any precision; the two triangles are kept apart
    because their difference is the derivative of the kernel.

    All buffers and views are made once: each round reads one buffer and writes the other, in front of the lower and
    behind the upper buffer lie zeros that shifts run into, and the first lower and last upper entry, which no start
    writes, stay zero because every factor on them is.

    Args:
        points: (n, rows), descending along the first axis; one line a column.
        rate: (rows,), positive.
        real: (n, rows) booleans, True first; the kernel is the identity on the rest. None: all real.
    """

    def __init__(self, points: Tensor, rate: Tensor, real: Tensor | None = None) -> None:
        n, rows = points.shape
        shifts = [1 << level for level in range((n - 1).bit_length())]
        pad = shifts[-1] if shifts else 0
        low, low_next, up, up_next = points.new_zeros(4, n + pad, rows)
        self._levels: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for shift in shifts:
            factor = points.new_zeros(n + shift, rows)  # K[r, r - shift] at r, zero outside the triangle
            inside = factor[shift:n]
            torch.exp((points[shift:] - points[:-shift]) * rate, out=inside)
            if real is not None:
                inside.mul_(real[shift:])
            if shift == 1:
                self._neighbour = factor[1:n]
                self._starts = low[pad + 1 :], up[: n - 1]
            behind, ahead = low[pad - shift : pad - shift + n], up[shift : shift + n]
            self._levels.append((low[pad:], factor[:n], behind, low_next[pad:]))
            self._levels.append((up[:n], factor[shift:], ahead, up_next[:n]))
            low, low_next, up, up_next = low_next, low, up_next, up
        self._ends = low[pad:], up[:n]
        self._n = n

    def triangles(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """`(lower @ weights, upper @ weights)` for weights (n, rows); both are overwritten by the next call."""
        if self._n > 1:
            torch.mul(weights[:-1], self._neighbour, out=self._starts[0])
            torch.mul(weights[1:], self._neighbour, out=self._starts[1])
        for value, factor, shifted, out in self._levels:
            torch.addcmul(value, factor, shifted, out=out)
        return self._ends
