"""A graph convolutional network."""

import torch
from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.bases.arrays import Arrays, Mask, items_mask
from probsym.bases.readout import known_pooling, make_head, read_out
from probsym.errors import SignatureError
from probsym.ops import links
from probsym.ops.argument_checks import check_size
from probsym.ops.edge_list import Input


class GCN(RemembersArguments, nn.Module):
    """Layers `H -> activation(D^-1/2 (A + I) D^-1/2 H W)`, with D the degrees of A + I; S_n-equivariant by itself.

    A head (Linear, activation, Linear) computes the output for each node, or for the pooled nodes ("mean" or "sum").

    `forward(*inputs, mask=None)`: inputs as declared in `arrays`: any number of order 1, and one of order 2 without
    channels, non-negative, which may be an `EdgeList`; mask booleans (batch, nodes), or a mapping of masks by name.

    >>> GCN("n 2, n n -> 10")(torch.rand(8, 64, 2), torch.ones(8, 64, 64)).shape
    torch.Size([8, 10])
    """

    def __init__(
        self,
        arrays: str,
        width: int = 64,
        layers: int = 3,
        activation: str = "relu",
        *,
        output_activation: str | None = None,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        self.arrays = Arrays.parse(arrays)
        self.arrays.allow("GCN", inputs=(1, 2), output=(0, 1))
        pairs = [array for array in self.arrays.inputs if array.order == 2]
        if len(pairs) != 1 or pairs[0].width != 1 or not self.arrays.width(1):
            raise SignatureError(f"Expected GCN to read node features and one array 'n n' (got '{self.arrays}')")
        check_size(width, "width")
        check_size(layers, "layers")
        self.layers = nn.ModuleList(nn.Linear(self.arrays.width(1) if i == 0 else width, width) for i in range(layers))
        self.function = known_activation(activation)()
        self.head = make_head(width, self.arrays.output, activation, output_activation)
        self.pooling = known_pooling(pooling)

    def forward(self, *inputs: Input, mask: Mask | None = None) -> Tensor:
        batch, n = self.arrays.check(inputs, edges=True)
        mask = items_mask(mask, batch, n, inputs[0].device)
        dtype = next(self.parameters()).dtype
        features, pairs = self.arrays.nodes_and_pairs(inputs, dtype)
        hidden = torch.cat(features, -1)
        if mask is not None:
            hidden = torch.where(mask.unsqueeze(-1), hidden, 0)
        looped = links.with_loops(links.among_real(links.weights(pairs, dtype, absolute=False), mask))
        scale = links.degrees(looped).rsqrt()
        for layer in self.layers:
            hidden = self.function(scale * links.gathered(looped, scale * layer(hidden)))
        return read_out(self.head, hidden, mask, self.arrays.output, self.pooling)
