"""Between arrays over n items and a square grid of tokens: linear maps of patches, and back."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad

from probsym.bases.arrays import Array, Arrays, channels_last
from probsym.bases.edge_list import EdgeList
from probsym.errors import SignatureError

SCALE = 0.02


class Tokenize(nn.Module):
    """Tokens (batch, grid ** 2, width) from arrays of order 1 and 2, each cut into patches and mapped linearly.

    An array of order 2 is cut into grid x grid patches of side ceil(n / grid). One of order 1 is cut into as many
    pieces as there are tokens, or with `diagonal` stands on the diagonal of an array of order 2, whose diagonal patches
    then hold it. The maps of all arrays are summed, with one bias. Fewer than n items are padded with zeros.

    An array of order 2 may come as an `EdgeList`: the tokens are then sums over the edges, and no n x n array is built.
    """

    def __init__(self, arrays: Arrays, n: int, grid: int, width: int, diagonal: bool) -> None:
        super().__init__()
        self.arrays, self.n, self.grid, self.diagonal = arrays, n, grid, diagonal
        self.side, self.piece = -(-n // grid), -(-n // grid**2)
        self.weights = nn.ParameterList(
            SCALE * torch.randn(self._cells(array) * array.width, width) for array in arrays.inputs
        )
        self.bias = nn.Parameter(torch.zeros(width))

    def extra_repr(self) -> str:
        return f"'{self.arrays}', n={self.n}, grid={self.grid}, side={self.side}"

    def forward(self, *inputs: Tensor | EdgeList) -> Tensor:
        """Inputs that `arrays` has checked."""
        tokens: Tensor | None = None
        for array, x, weight in zip(self.arrays.inputs, inputs, self.weights, strict=True):
            if isinstance(x, EdgeList):
                found = self._from_edges(x, weight)
            elif array.order == 2:
                found = self._from_pairs(channels_last(array, x, weight.dtype), weight)
            else:
                found = self._from_items(channels_last(array, x, weight.dtype), weight)
            tokens = found if tokens is None else tokens + found
        assert tokens is not None
        return tokens + self.bias

    def _cells(self, array: Array) -> int:
        if array.order == 2:
            return self.side**2
        return self.side if self.diagonal else self.piece

    def _from_pairs(self, x: Tensor, weight: Tensor) -> Tensor:
        kind, (batch, n, _, channels) = x.device.type, x.shape
        if x.dtype == torch.float32 and torch.is_autocast_enabled(kind):  # as the product would, before x is copied
            x = x.to(torch.get_autocast_dtype(kind))
        missing = self.grid * self.side - n
        if missing:
            x = pad(x, (0, 0, 0, missing, 0, missing))
        x = x.reshape(batch, self.grid, self.side, self.grid, self.side, channels).transpose(2, 3)
        return x.reshape(batch, self.grid**2, self.side**2 * channels) @ weight

    def _from_edges(self, edges: EdgeList, weight: Tensor) -> Tensor:
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
            found = embedding_bag(
                places.flatten(), weight, starts, mode="sum", per_sample_weights=values[order].flatten()
            )
        return found.view(edges.batch, self.grid**2, weight.shape[1])

    def _from_items(self, x: Tensor, weight: Tensor) -> Tensor:
        """Pieces in a row, one a token, or those of the diagonal patches."""
        batch, n, channels = x.shape
        pieces, size = (self.grid, self.side) if self.diagonal else (self.grid**2, self.piece)
        x = pad(x, (0, 0, 0, pieces * size - n)).reshape(batch, pieces, size * channels)
        found = x @ weight
        if not self.diagonal:
            return found
        tokens = found.new_zeros(batch, self.grid**2, found.shape[-1])
        return tokens.index_copy(1, torch.arange(0, self.grid**2, self.grid + 1, device=x.device), found)


class Detokenize(nn.Module):
    """An array from tokens (batch, 1 + grid ** 2, width), the first of them global.

    An output of order 0 is a linear map of the global token. One of order 2 is put together from the patches that the
    others are mapped to; one of order 1 from pieces, or with `diagonal` from the diagonal of such patches.
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
            found = tokens[:, 0] @ self.weight
        elif self.output.order == 2:
            found = tokens[:, 1:] @ self.weight
            found = found.view(batch, self.grid, self.grid, self.side, self.side, channels).transpose(2, 3)
            found = found.reshape(batch, self.grid * self.side, self.grid * self.side, channels)[:, :n, :n]
        else:
            used = tokens[:, 1 :: self.grid + 1] if self.diagonal else tokens[:, 1:]
            size = self.side if self.diagonal else self.piece
            found = (used @ self.weight).reshape(batch, used.shape[1] * size, channels)[:, :n]
        found = found + self.bias
        return found.squeeze(-1) if self.output.channels is None else found
