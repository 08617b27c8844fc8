"""Between arrays over n items and a square grid of tokens: linear maps of patches, and back."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad

from probsym.bases.arrays import Array, Arrays, channels_last
from probsym.errors import RangeError, SignatureError
from probsym.ops.edge_list import EdgeList

SCALE = 0.02
PADDINGS = ("zeros", "reflect", "circular")


class Tokenize(nn.Module):
    """Tokens (batch, grid ** 2, width) from arrays of order 1 and 2, each cut into patches and mapped linearly.

    An array of order 2 is cut into grid x grid patches of side ceil(n / grid). An array of order 1 is cut
    into as many pieces as there are tokens, or, with `diagonal`, is placed on the diagonal of an array of order 2, so
    that the diagonal patches hold it. The linear maps of all arrays are summed, with one bias. Fewer than n items are
    padded with zeros.

    An array of order 2 may come as an `EdgeList`: the tokens are then sums over the edges, and no n x n array is built.

    Args:
        std: initial standard deviation of the maps. If None, they are initialised like convolutions, uniform within
            1 / sqrt(fan-in), where arrays of the same order, or all arrays with `diagonal`, form one convolution.
        padding: how to fill the patches if n items do not: "zeros" pads after the items, "reflect" and "circular" pad
            with the items themselves, on both sides.
    """

    def __init__(
        self,
        arrays: Arrays,
        n: int,
        grid: int,
        width: int,
        diagonal: bool,
        std: float | None = None,
        padding: str = "zeros",
    ) -> None:
        super().__init__()
        if std is not None and not 0 <= std < math.inf:
            raise RangeError(f"Expected token_std to be finite and 0 or more (got {std})")
        if padding not in PADDINGS:
            raise RangeError(f"Expected padding to be one of {', '.join(PADDINGS)} (got {padding!r})")
        self.arrays, self.n, self.grid, self.diagonal, self.padding = arrays, n, grid, diagonal, padding
        self.side, self.piece = -(-n // grid), -(-n // grid**2)
        most = max((self._missing(diagonal or array.order == 2) + 1) // 2 for array in arrays.inputs)
        if padding == "reflect" and most >= n:
            raise RangeError(f"Expected more than {most} items to fill {grid} x {grid} patches by reflection (got {n})")
        bounds = [self._bound(array) for array in arrays.inputs]
        self.weights = nn.ParameterList(
            _started(bound, std, self._cells(array) * array.width, width)
            for array, bound in zip(arrays.inputs, bounds, strict=True)
        )
        self.bias = nn.Parameter(torch.zeros(width) if std is not None else _started(max(bounds), None, width))

    def extra_repr(self) -> str:
        return f"'{self.arrays}', n={self.n}, grid={self.grid}, side={self.side}, padding={self.padding!r}"

    def forward(self, *inputs: Tensor | EdgeList) -> Tensor:
        """Inputs that `arrays` has checked."""
        arrays = zip(self.arrays.inputs, inputs, self.weights, strict=True)
        first, *others = [self._mapped(array, x, weight) for array, x, weight in arrays]
        return sum(others, start=first) + self.bias

    def _mapped(self, array: Array, x: Tensor | EdgeList, weight: Tensor) -> Tensor:
        if isinstance(x, EdgeList):
            return self._from_edges(x, weight)
        x = channels_last(array, x, weight.dtype)
        return self._from_pairs(x, weight) if array.order == 2 else self._from_items(x, weight)

    def _bound(self, array: Array) -> float:
        """The largest number that a convolution over the array, and those beside it, starts with."""
        beside = [
            input_array for input_array in self.arrays.inputs if self.diagonal or input_array.order == array.order
        ]
        cells = self.side**2 if self.diagonal or array.order == 2 else self.piece
        return 1 / math.sqrt(cells * sum(input_array.width for input_array in beside))

    def _missing(self, square: bool) -> int:
        """How many items short of whole patches n is: as rows of a square, or in a row of pieces."""
        return (self.grid * self.side if square else self.grid**2 * self.piece) - self.n

    def _filled(self, x: Tensor, order: int, square: bool) -> Tensor:
        """x (batch, n, ..., channels) with its item axes, as many as the order, as long as the patches are together."""
        missing = self._missing(square)
        short = self.n - x.shape[1] + (missing if self.padding == "zeros" else 0)
        if short:
            x = pad(x, (0, 0, *(0, short) * order))
        if self.padding != "zeros" and missing:
            for axis in range(1, 1 + order):
                x = x.index_select(axis, self._places(missing, x.device))
        return x

    def _places(self, missing: int, device: torch.device) -> Tensor:
        """Which item stands where, with half of the missing ones before the first."""
        places = torch.arange(-(missing // 2), self.n + missing - missing // 2, device=device)
        if self.padding == "circular":
            return places % self.n
        places = places.abs()  # a mirror at each end, which does not repeat the last item
        return torch.where(places < self.n, places, 2 * (self.n - 1) - places)

    def _cells(self, array: Array) -> int:
        if array.order == 2:
            return self.side**2
        return self.side if self.diagonal else self.piece

    def _from_pairs(self, x: Tensor, weight: Tensor) -> Tensor:
        kind, (batch, _, _, channels) = x.device.type, x.shape
        if x.dtype == torch.float32 and torch.is_autocast_enabled(kind):  # as the product would, before x is copied
            x = x.to(torch.get_autocast_dtype(kind))
        x = self._filled(x, 2, square=True)
        x = x.reshape(batch, self.grid, self.side, self.grid, self.side, channels).transpose(2, 3)
        return x.reshape(batch, self.grid**2, self.side**2 * channels) @ weight

    def _from_edges(self, edges: EdgeList, weight: Tensor) -> Tensor:
        if self.padding != "zeros":
            raise SignatureError(f"Expected a dense array for padding {self.padding!r} (got an EdgeList)")
        values = edges.values.to(weight.dtype)
        values = values.unsqueeze(-1) if values.dim() == 1 else values
        channels, tokens = values.shape[-1], edges.batch * self.grid**2
        item, row, column = edges.index.long()
        token = (item * self.grid + row // self.side) * self.grid + column // self.side
        token, order = token.sort()
        cell = ((row % self.side) * self.side + column % self.side)[order]
        places = cell.unsqueeze(-1) * channels + torch.arange(channels, device=cell.device)
        starts = torch.searchsorted(token, torch.arange(tokens, device=token.device)) * channels
        with torch.autocast(weight.device.type, enabled=False):
            sums = embedding_bag(
                places.flatten(), weight, starts, mode="sum", per_sample_weights=values[order].flatten()
            )
        return sums.view(edges.batch, self.grid**2, weight.shape[1])

    def _from_items(self, x: Tensor, weight: Tensor) -> Tensor:
        """Pieces in a row, one per token, or those of the diagonal patches."""
        batch, _, channels = x.shape
        pieces, size = (self.grid, self.side) if self.diagonal else (self.grid**2, self.piece)
        x = self._filled(x, 1, square=self.diagonal).reshape(batch, pieces, size * channels)
        mapped = x @ weight
        if not self.diagonal:
            return mapped
        tokens = mapped.new_zeros(batch, self.grid**2, mapped.shape[-1])
        return tokens.index_copy(1, torch.arange(0, self.grid**2, self.grid + 1, device=x.device), mapped)


class Detokenize(nn.Module):
    """An array from tokens (batch, 1 + grid ** 2, width), the first of them global.

    An output of order 0 is a linear map of the global token. One of order 2 is assembled from the patches that the
    other tokens are mapped to; one of order 1 from pieces, or with `diagonal` from the diagonal of such patches.
    """

    def __init__(self, output: Array, n: int, grid: int, width: int, diagonal: bool) -> None:
        super().__init__()
        if diagonal and output.order != 1:
            raise SignatureError(f"Expected an output of order 1 to be read from a diagonal (got '{output}')")
        self.output, self.n, self.grid, self.diagonal = output, n, grid, diagonal
        self.side, self.piece = -(-n // grid), -(-n // grid**2)
        cells = {0: 1, 1: self.side if diagonal else self.piece, 2: self.side**2}[output.order]
        self.weight = nn.Parameter(SCALE * torch.randn(width, cells * output.width))
        self.bias = nn.Parameter(torch.zeros(output.width))

    def extra_repr(self) -> str:
        return f"'{self.output}', n={self.n}, grid={self.grid}, side={self.side}"

    def forward(self, tokens: Tensor, n: int) -> Tensor:
        """The output for n items."""
        batch, channels = tokens.shape[0], self.output.width
        if self.output.order == 0:
            values = tokens[:, 0] @ self.weight
        elif self.output.order == 2:
            values = tokens[:, 1:] @ self.weight
            values = values.view(batch, self.grid, self.grid, self.side, self.side, channels).transpose(2, 3)
            values = values.reshape(batch, self.grid * self.side, self.grid * self.side, channels)[:, :n, :n]
        else:
            used = tokens[:, 1 :: self.grid + 1] if self.diagonal else tokens[:, 1:]
            size = self.side if self.diagonal else self.piece
            values = (used @ self.weight).reshape(batch, used.shape[1] * size, channels)[:, :n]
        values = values + self.bias
        return values.squeeze(-1) if self.output.channels is None else values


def _started(bound: float, std: float | None, *shape: int) -> Tensor:
    """Numbers to start with: normal with a deviation, or uniform within a bound."""
    return bound * (2 * torch.rand(shape) - 1) if std is None else std * torch.randn(shape)
