"""A graph isomorphism network that tells the nodes apart by their index."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.bases.arrays import Arrays, Mask, items_mask
from probsym.bases.readout import known_pooling, make_head, read_out
from probsym.errors import SignatureError
from probsym.nets import MaskedBatchNorm
from probsym.ops import links
from probsym.ops.argument_checks import check_size
from probsym.ops.edge_list import EdgeList, Input


class GINID(RemembersArguments, nn.Module):
    """Layers `H -> MLP((A + (1 + e) I) H)`, with the one-hot index of each node among its features.

    The MLP is Linear, activation, Linear, batch norm, activation. A head (Linear, activation, Linear) computes
    the output for each node, or for the pooled nodes. With the indices it can tell any two graphs apart, but it is not
    permutation invariant; with `identifiers=False` it is a plain GIN, which is.

    `forward(*inputs, mask=None)`: inputs as declared in `arrays`: any number of order 1, and one of order 2, which may
    be an `EdgeList`, and whose channels, if any, are summed as absolute values; mask booleans (batch, nodes), or a
    mapping of masks by name.

    Args:
        arrays: the inputs and the output, like "n 2, n n -> 10".
        n: the largest number of nodes.
        output_activation: applied to the output; none if None.
        pooling: "mean" or "sum" over the nodes, for an output of order 0.

    >>> GINID("n 2, n n -> 10", n=64)(torch.rand(8, 64, 2), torch.ones(8, 64, 64)).shape
    torch.Size([8, 10])
    """

    def __init__(
        self,
        arrays: str,
        n: int,
        width: int = 64,
        layers: int = 3,
        activation: str = "relu",
        *,
        output_activation: str | None = None,
        identifiers: bool = True,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        self.arrays = Arrays.parse(arrays)
        self.arrays.allow("GINID", inputs=(1, 2), output=(0, 1))
        if sum(array.order == 2 for array in self.arrays.inputs) != 1:
            raise SignatureError(f"Expected GINID to read one array of order 2 (got '{self.arrays}')")
        self.n, self.identifiers = check_size(n, "n"), identifiers
        check_size(width, "width")
        check_size(layers, "layers")
        function = known_activation(activation)
        # without any features there is nothing to sum but the degree, which a constant gives
        self.constant = self.arrays.width(1) == 0 and not identifiers
        first = self.arrays.width(1) + (self.n if identifiers else 0) + self.constant
        self.layers = nn.ModuleList(Layer(first if i == 0 else width, width, function) for i in range(layers))
        self.head = make_head(width, self.arrays.output, activation, output_activation)
        self.pooling = known_pooling(pooling)

    def forward(self, *inputs: Input, mask: Mask | None = None) -> Tensor:
        batch, n = self.arrays.check(inputs, most=self.n if self.identifiers else None, edges=True)
        mask = items_mask(mask, batch, n, inputs[0].device)
        dtype = next(self.parameters()).dtype
        features, pairs = self.arrays.nodes_and_pairs(inputs, dtype)
        listed, device = self.identifiers and isinstance(pairs, EdgeList), pairs.device
        if listed:
            features.append(torch.zeros(batch, n, 0, dtype=dtype, device=device))
        elif self.identifiers:
            numbers = torch.eye(n, dtype=dtype, device=device)
            features.append(pad(numbers, (0, self.n - n)).expand(batch, -1, -1))
        elif self.constant:
            features.append(torch.ones(batch, n, 1, dtype=dtype, device=device))
        hidden, adjacency = torch.cat(features, -1), links.among_real(links.weights(pairs, dtype), mask)
        if mask is not None:
            hidden = torch.where(mask.unsqueeze(-1), hidden, 0)
        for i, layer in enumerate(self.layers):
            hidden = layer(hidden, adjacency, mask, numbered=listed and i == 0)
        return read_out(self.head, hidden, mask, self.arrays.output, self.pooling)


class Layer(nn.Module):
    """One layer, on hidden (batch, nodes, width).

    If `numbered`, the one-hot indices, n x n entries, are not stored in hidden: the first linear map, which is then
    applied before the sum over neighbours, adds their contribution directly.
    """

    def __init__(self, first: int, width: int, function: type[nn.Module]) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.mlp = nn.Sequential(nn.Linear(first, width), function(), nn.Linear(width, width))
        self.norm: nn.Module = MaskedBatchNorm(width)
        self.function = function()

    def forward(self, hidden: Tensor, adjacency: Input, mask: Tensor | None, numbered: bool = False) -> Tensor:
        if not numbered:
            return self.function(self.norm(self.mlp(self._gathered(hidden, adjacency)), mask))
        n, channels = hidden.shape[1:]
        first = self.mlp[0]
        assert isinstance(first, nn.Linear)
        mapped = hidden @ first.weight[:, :channels].T + first.weight[:, channels : channels + n].T
        mapped = mapped if mask is None else torch.where(mask.unsqueeze(-1), mapped, 0)
        return self.function(self.norm(self.mlp[1:](self._gathered(mapped, adjacency) + first.bias), mask))

    def _gathered(self, hidden: Tensor, adjacency: Input) -> Tensor:
        return torch.addcmul(links.gathered(adjacency, hidden), hidden, 1 + self.epsilon)
