"""The exponential kernel against matrices, chunk by chunk along the sorted line.

Between two different chunks `K[r, j] = exp(-k |z_r - z_j|)` has rank one: it factors through the border
between them. So a product with K, or a sum against K, needs the dense kernel inside each chunk only, and one
vector a chunk for what lies on either side of it. With m points a chunk, time falls from O(n^2 k) to
O((m + n / m) n k) for k columns, and nothing n x n is stored.

Shapes: points and weights (rows, n), points descending; rate (rows,); matrices (rows, n, k).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

AT_ONCE = 8
"""Chunks for which the rest of the line is summed over together; more would need more memory."""


class Near(NamedTuple):
    """Distances k |z - z'| and the kernel at them."""

    distance: Tensor
    kernel: Tensor


class Chunk(NamedTuple):
    """One stretch of the line: how its points see each other and, if it is not the whole, the rest."""

    span: slice
    inside: Near  # (rows, m, m): between the chunk's own points
    border: Near | None  # (rows, m, 2): from each own point to the first and to the last of them
    outside: Near | None  # (rows, 2, n): from the first to all points before it, from the last to all after


def chunks(points: Tensor, rate: Tensor, size: int | None = None) -> Iterator[Chunk]:
    """Cut the line into stretches of `size` points.

    By default a quarter of it, within 24 to 96 points, which keeps a CPU in its cache; a GPU, which minds the number of
    launches more than the work in each, gets 128.
    """
    n = points.shape[1]
    size = size or (128 if points.is_cuda else min(max(n // 4, 24), 96))
    rate = rate.view(-1, 1, 1)
    for start in range(0, n, size):
        span = slice(start, min(start + size, n))
        own = points[:, span]
        inside = _near(own, own, rate)
        if n <= size:
            yield Chunk(span, inside, None, None)
            return
        ends = torch.stack([own[:, 0], own[:, -1]], dim=1)
        outside = _near(ends, points, rate)
        outside.kernel[:, 0, span.start :] = 0
        outside.kernel[:, 1, : span.stop] = 0
        yield Chunk(span, inside, _near(own, ends, rate), outside)


def _near(left: Tensor, right: Tensor, rate: Tensor) -> Near:
    distance = (left.unsqueeze(2) - right.unsqueeze(1)).abs_().mul_(rate)
    return Near(distance, torch.exp(-distance))


class Far(NamedTuple):
    """What lies on either side of a chunk, and the way there."""

    border: Tensor  # the kernel (rows, m, 2)
    sides: list[Tensor]  # of each matrix (rows, 2, k): its sums over the points on either side


def _with_sides(
    points: Tensor, rate: Tensor, matrices: Sequence[tuple[Tensor | None, Tensor]]
) -> Iterator[tuple[Chunk, Far | None]]:
    """Every chunk with the sums over what lies beyond it of weights (rows, n), or ones, times a matrix (rows, n, k).

    The matrices are read once for several chunks, since reading them is what these sums cost.
    """
    for some in _groups(chunks(points, rate)):
        ends = [chunk.outside.kernel for chunk in some if chunk.outside is not None]
        if not ends:
            yield from ((chunk, None) for chunk in some)
            continue
        kernel = torch.cat(ends, 1)
        sums = [(kernel if w is None else kernel * w.unsqueeze(1)) @ matrix for w, matrix in matrices]
        for i, chunk in enumerate(some):
            assert chunk.border is not None
            yield chunk, Far(chunk.border.kernel, [total[:, 2 * i : 2 * i + 2] for total in sums])


def _groups(source: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    while some := list(islice(source, AT_ONCE)):
        yield some


def product(points: Tensor, rate: Tensor, matrix: Tensor) -> Tensor:
    """`K @ matrix`."""
    pieces = []
    for chunk, far in _with_sides(points, rate, [(None, matrix)]):
        piece = chunk.inside.kernel @ matrix[:, chunk.span]
        pieces.append(piece if far is None else piece + far.border @ far.sides[0])
    return torch.cat(pieces, dim=1)


class Sums(NamedTuple):
    """Derivatives of `sum_rj a_r K[r, j] b_j M[r, j]`, each (rows, n), with M held fixed."""

    row: Tensor  # with respect to a
    column: Tensor  # with respect to b
    place: Tensor  # with respect to the position k (z_0 - z_r) of each point


def pair_sums(
    points: Tensor, rate: Tensor, a: Tensor, b: Tensor, left: Sequence[Tensor], right: Sequence[Tensor]
) -> Sums:
    """Contract `diag(a) K diag(b)` against `M = sum_i left_i @ right_i^T` without building either.

    The derivative of a distance between tied points is taken in the order in which they stand.
    """
    parts = []
    weighted = [*((b, matrix) for matrix in right), *((a, matrix) for matrix in left)]
    for chunk, far in _with_sides(points, rate, weighted):
        span = chunk.span
        lefts, rights = [matrix[:, span] for matrix in left], [matrix[:, span] for matrix in right]
        moment = _product_sum(lefts, rights) * chunk.inside.kernel
        far_row = far_column = None
        if far is not None:
            far_row = _product_sum(lefts, far.sides[: len(right)]) * far.border
            far_column = _product_sum(rights, far.sides[len(right) :]) * far.border
        parts.append(_sums(moment, far_row, far_column, a[:, span], b[:, span]))
    return _join(parts)


def sums_of(points: Tensor, rate: Tensor, a: Tensor, b: Tensor, moment: Tensor) -> Sums:
    """As `pair_sums`, for a given M (rows, n, n)."""
    (whole,) = chunks(points, rate, size=points.shape[1])
    return _sums(moment * whole.inside.kernel, None, None, a, b)


def _product_sum(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """`sum_i left_i @ right_i^T`."""
    total = torch.bmm(left[0], right[0].transpose(1, 2))
    for left_i, right_i in zip(left[1:], right[1:], strict=True):
        total = torch.baddbmm(total, left_i, right_i.transpose(1, 2))
    return total


def entropy_sums(points: Tensor, rate: Tensor, a: Tensor, b: Tensor, normalised: bool) -> tuple[Tensor, Sums]:
    """`H = -sum_rj P log P` (rows,) of `P = diag(a) K diag(b)`, and its derivatives. Points with a = b = 0 drop out.

    `normalised` says that the columns of P sum to one whatever the points are. Then a term `t_j P[r, j]` in H
    has no derivative, and t = log a + log b is taken out: what is left cancels far less where P is flat.
    """
    log_a, log_b = (torch.where(w > 0, w, 1).log().unsqueeze(2) for w in (a, b))
    if normalised:
        rest, constant = -log_a, -(log_a + log_b).sum((1, 2))
    else:
        rest, constant = log_b + 1, (a.unsqueeze(2) * product(points, rate, b.unsqueeze(2))).sum((1, 2))
    parts = []
    for chunk in chunks(points, rate):
        span = chunk.span
        moment = (log_a[:, span] + rest[:, span].transpose(1, 2) - chunk.inside.distance) * -chunk.inside.kernel
        far_row = far_column = None
        if chunk.border is not None and chunk.outside is not None:
            far_row = _far_entropy(chunk.border, chunk.outside, log_a[:, span], rest, b)
            far_column = _far_entropy(chunk.border, chunk.outside, rest[:, span], log_a, a)
        parts.append(_sums(moment, far_row, far_column, a[:, span], b[:, span]))
    sums = _join(parts)
    return (a * sums.row).sum(1) + constant, sums


def _far_entropy(border: Near, outside: Near, own: Tensor, other: Tensor, weights: Tensor) -> Tensor:
    """`-sum_j K[r, j] weights_j (own_r + other_j - distance)` over the points j on either side, (rows, m, 2)."""
    share = outside.kernel * weights.unsqueeze(1)
    inner = (share * (other.transpose(1, 2) - outside.distance)).sum(2).unsqueeze(1)
    return -border.kernel * ((own - border.distance) * share.sum(2).unsqueeze(1) + inner)


def _sums(moment: Tensor, far_row: Tensor | None, far_column: Tensor | None, a: Tensor, b: Tensor) -> Sums:
    """Row, column and signed sums of one chunk from its own moments M * K and from those of either side."""
    m = moment.shape[1]
    ones = torch.ones(m, m, dtype=moment.dtype, device=moment.device)
    order = ones.tril(-1) - ones.triu(1)
    by_row = moment * b.unsqueeze(1)
    row, slope_row = by_row.sum(2), by_row.mul_(order).sum(2)
    by_column = moment * a.unsqueeze(2)
    column, slope_column = by_column.sum(1), by_column.mul_(order).sum(1).neg_()
    if far_row is not None and far_column is not None:
        row, column = row + far_row.sum(2), column + far_column.sum(2)
        slope_row = slope_row + far_row[..., 0] - far_row[..., 1]
        slope_column = slope_column + far_column[..., 0] - far_column[..., 1]
    return Sums(row, column, -(a * slope_row + b * slope_column))


def _join(parts: list[Sums]) -> Sums:
    return parts[0] if len(parts) == 1 else Sums(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
