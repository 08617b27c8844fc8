"""Message passing between all pairs of items."""

import torch
from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.bases.arrays import Arrays, Mask, channels_last, items_mask
from probsym.bases.readout import make_head, read_out
from probsym.ops.argument_checks import check_rate, check_size


class GNN(RemembersArguments, nn.Module):
    """Message passing with edge features. S_n-equivariant by itself, so only the other groups need symmetrization.

        m_ij = MLP(h_i, h_j, e_ij)        h_i <- h_i + MLP(h_i, sum over j != i of m_ij)

    h starts as a linear map of the arrays of order 1 and of order 0, which are given to every item; without any of
    these, it starts as the same vector for every item. e holds the arrays of order 2. A final MLP computes the output
    for each item or, for an output of order 0, for their mean. `dropout` is the rate on what each layer adds to h.

    `forward(*inputs, mask=None)`: inputs as declared in `arrays`, mask booleans (batch, n), or a mapping of masks by
    name. The paper's model for particles has 92,103 parameters:

    >>> model = GNN("n 3, n 3, n n 2 -> n 3", width=60, layers=4)
    >>> sum(parameter.numel() for parameter in model.parameters())
    92103
    >>> model(torch.rand(8, 5, 3), torch.rand(8, 5, 3), torch.rand(8, 5, 5, 2)).shape
    torch.Size([8, 5, 3])
    """

    def __init__(
        self, arrays: str, width: int = 60, layers: int = 4, activation: str = "silu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.arrays = Arrays.parse(arrays)
        self.arrays.allow("GNN", inputs=(0, 1, 2), output=(0, 1))
        check_size(width, "width")
        check_size(layers, "layers", least=0)
        check_rate(dropout, "dropout")
        function = known_activation(activation)
        features = self.arrays.width(0) + self.arrays.width(1)
        self.constant = features == 0
        self.embed = nn.Linear(features + self.constant, width)
        self.layers = nn.ModuleList(_Messages(width, self.arrays.width(2), function, dropout) for _ in range(layers))
        self.head = make_head(width, self.arrays.output, activation)

    def forward(self, *inputs: Tensor, mask: Mask | None = None) -> Tensor:
        batch, n = self.arrays.check(inputs)
        mask = items_mask(mask, batch, n, inputs[0].device)
        dtype = self.embed.weight.dtype
        given = [(a.order, channels_last(a, x, dtype)) for a, x in zip(self.arrays.inputs, inputs, strict=True)]
        nodes = [x if order else x.unsqueeze(1).expand(-1, n, -1) for order, x in given if order < 2]
        edges = [x for order, x in given if order == 2]
        if self.constant:
            nodes.append(edges[0].new_ones(batch, n, 1))
        hidden = self.embed(torch.cat(nodes, -1))
        pairs = torch.cat(edges, -1) if edges else None
        linked = ~torch.eye(n, dtype=torch.bool, device=hidden.device).expand(batch, n, n)
        if mask is not None:
            linked = linked & mask.unsqueeze(1) & mask.unsqueeze(2)
        for layer in self.layers:
            hidden = layer(hidden, pairs, linked.unsqueeze(-1))
        return read_out(self.head, hidden, mask, self.arrays.output)


class _Messages(nn.Module):
    def __init__(self, width: int, edge_width: int, function: type[nn.Module], dropout: float) -> None:
        super().__init__()
        self.width, self.function, self.dropout = width, function(), nn.Dropout(dropout)
        self.pair = nn.Linear(2 * width + edge_width, width)
        self.message = nn.Sequential(nn.Linear(width, width), function())
        self.update = nn.Sequential(nn.Linear(2 * width, width), function(), nn.Linear(width, width))

    def forward(self, hidden: Tensor, pairs: Tensor | None, linked: Tensor) -> Tensor:
        # one linear map of (h_i, h_j, e_ij), taken apart so that the first two are computed once an item
        to, come, between = self.pair.weight.tensor_split([self.width, 2 * self.width], dim=1)
        joined = (hidden @ to.T).unsqueeze(2) + (hidden @ come.T + self.pair.bias).unsqueeze(1)
        if pairs is not None:
            joined = joined + pairs @ between.T
        messages = torch.where(linked, self.message(self.function(joined)), 0).sum(2)
        return hidden + self.dropout(self.update(torch.cat([hidden, messages], -1)))
