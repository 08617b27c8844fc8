"""A plain transformer over the entries of arrays, one token each."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.bases.arrays import Arrays, Mask, channels_last, items_mask
from probsym.bases.readout import pooled
from probsym.errors import RangeError
from probsym.ops.argument_checks import check_rate, check_size
from probsym.ops.short_attention import MOST_FUSED, shares, short_attention

FEW = MOST_FUSED
"""Up to so many tokens, attention for short sequences is faster than the general call."""


class SequenceTransformer(RemembersArguments, nn.Module):
    """A transformer with one token per entry of the highest-order input, each with a learned position.

    An array of lower order is placed on the diagonal: "n 3" next to "n n 2" gives pair (i, i) its three
    numbers, and other pairs zeros; an array of order 0 is given to every token. The layers are pre-LN, followed by a
    final norm and a head ReLU-Linear-ReLU-Linear. An output of lower order is read from the diagonal, one of order 0
    from the mean over the tokens. Under autocast only the layers run in low precision: inputs are read, tokens summed
    and outputs computed in the precision of the weights.

    `forward(*inputs, mask=None)`: inputs as declared in `arrays`; mask booleans (batch, items), or a mapping of masks
    by name, keeps padding from being attended to. The paper's model for particles has 208,387 parameters:

    >>> model = SequenceTransformer("n 3, n 3, n n 2 -> n 3", n=5)
    >>> sum(parameter.numel() for parameter in model.parameters())
    208387
    >>> model(torch.rand(8, 5, 3), torch.rand(8, 5, 3), torch.rand(8, 5, 5, 2)).shape
    torch.Size([8, 5, 3])

    Args:
        arrays: the inputs and the output, in the notation of `probsym.bases.Arrays`.
        n: the largest number of items; there are positions for n ** order tokens.
        feed_forward: width of the feed-forward layers; the width of the tokens if None.
        dropout: rate on the attention weights and on the output of each half of a layer.
        position_std: initial standard deviation of the learned positions. If small, tokens are hard to tell apart.
    """

    def __init__(
        self,
        arrays: str,
        n: int,
        width: int = 64,
        layers: int = 8,
        heads: int = 4,
        feed_forward: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
        position_std: float = 1.0,
    ) -> None:
        super().__init__()
        self.arrays = Arrays.parse(arrays)
        self.arrays.allow("SequenceTransformer")
        self.order = self.arrays.order
        self.n = check_size(n, "n")
        check_size(width, "width")
        check_size(layers, "layers", least=0)
        if width % check_size(heads, "heads"):
            raise RangeError(f"Expected heads to divide the width {width} (got {heads})")
        dropout = check_rate(dropout, "dropout")
        if not 0 <= position_std < math.inf:
            raise RangeError(f"Expected position_std to be finite and 0 or more (got {position_std})")
        inner = width if feed_forward is None else check_size(feed_forward, "feed_forward")
        self.embed = nn.Linear(sum(array.width for array in self.arrays.inputs), width)
        self.positions = nn.Parameter(position_std * torch.randn(*[self.n] * self.order, width))
        function = known_activation(activation)
        self.layers = nn.ModuleList(_Layer(width, heads, inner, function, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(
            nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, self.arrays.output.width)
        )

    def forward(self, *inputs: Tensor, mask: Mask | None = None) -> Tensor:
        batch, n = self.arrays.check(inputs, most=self.n)
        mask = items_mask(mask, batch, n, inputs[0].device)
        places = self.positions[(slice(n),) * self.order]
        with torch.autocast(places.device.type, enabled=False):
            tokens = (self.embed(self._joined(inputs, batch, n)) + places).flatten(1, self.order)
        real = None if mask is None else _real_tokens(mask, self.order)
        for layer in self.layers:
            tokens = layer(tokens, real)
        with torch.autocast(places.device.type, enabled=False):
            values = self.head(self._read(self.norm(tokens), n, real))
        return values.squeeze(-1) if self.arrays.output.channels is None else values

    def _joined(self, inputs: tuple[Tensor, ...], batch: int, n: int) -> Tensor:
        """All inputs as one array (batch, n, ..., n, channels)."""
        parts = []
        for array, given in zip(self.arrays.inputs, inputs, strict=True):
            x = channels_last(array, given, self.embed.weight.dtype)
            if array.order == 0:
                x = x.view(batch, *[1] * self.order, array.width).expand(-1, *[n] * self.order, -1)
            for axis in range(array.order, self.order if array.order else 0):
                x = torch.diag_embed(x.movedim(axis, -1), dim1=axis, dim2=axis + 1)
            parts.append(x)
        return torch.cat(parts, -1)

    def _read(self, tokens: Tensor, n: int, real: Tensor | None) -> Tensor:
        """The tokens that the output is made of, (batch, n, ..., width) or (batch, width)."""
        order = self.arrays.output.order
        if order == 0:
            return pooled(tokens, real)
        tokens = tokens.unflatten(1, [n] * self.order)
        for _ in range(order, self.order):
            tokens = tokens.diagonal(dim1=order, dim2=order + 1).movedim(-1, order)
        return tokens


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, function: type[nn.Module], dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, inner), function(), nn.Linear(inner, width))
        nn.init.xavier_uniform_(self.attend.weight)
        nn.init.zeros_(self.attend.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: Tensor, real: Tensor | None) -> Tensor:
        tokens = tokens + drop(self.out(self._attended(self.norm_1(tokens), real)), self.dropout, self.training)
        return tokens + drop(self.mlp(self.norm_2(tokens)), self.dropout, self.training)

    def _attended(self, tokens: Tensor, real: Tensor | None) -> Tensor:
        packed, rate = self.attend(tokens), self.dropout if self.training else 0.0
        few = tokens.shape[1] <= FEW
        if few and rate == 0:
            return short_attention(packed, self.heads, real)
        queries, keys, values = packed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if few:
            attended = drop(shares(queries, keys, real), rate) @ values
        else:
            seen = None if real is None else real[:, None, None]
            attended = scaled_dot_product_attention(queries, keys, values, seen, rate)
        return attended.transpose(1, 2).flatten(2)


def _real_tokens(mask: Tensor, order: int) -> Tensor:
    """Which tokens stand for real items only, (batch, tokens)."""
    real = mask
    for _ in range(order - 1):
        real = (real.unsqueeze(-1) & mask.unsqueeze(1)).flatten(1)
    return real
