"""A graph isomorphism network whose K draws share one adjacency, dense or a list of edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import DeviceError, ShapeError
from probsym.groups import Group
from probsym.nets.features import Features, check_input, check_mask, misread
from probsym.ops import links
from probsym.ops.argument_checks import check_rate, check_size
from probsym.ops.edge_list import EdgeList, Input
from probsym.ops.masked_batch_norm import MaskedBatchNorm
from probsym.ops.transforms import traced
from probsym.signature import Term


class GIN(RemembersArguments, nn.Module):
    """Scores for S_n from a graph: layers `H -> MLP((A' + (1 + e) I) H)` over its nodes and a virtual node.

    A' is the adjacency, used as given (row i sums over its neighbours j, weighted by A[i, j]), extended by a virtual
    node with a learned input that is linked to every real node and to itself. The MLP is Linear, batch norm, ReLU,
    dropout, Linear, then batch norm, ReLU; a linear head computes the scores of all nodes but the virtual one.

    `forward(x, adjacency, mask=None)`: x (B, K, n, in_channels), adjacency (B, n, n), or (B, n, n, e) whose absolute
    values are summed over e, or an `EdgeList` of either, mask booleans (B, n); returns scores (B, K, n), zero on
    padding, or (B, n) if x has no axis K. A net with `in_channels=0` reads the adjacency alone and gets noise
    (B, K, n, 1) in place of x. There are 21,830 parameters with 2 channels, and 25,860 with 64, as for molecules: the
    "around 25k" of the paper.

    >>> net = GIN(in_channels=2)
    >>> net(torch.rand(8, 10, 5, 2), torch.ones(8, 5, 5)).scores.shape
    torch.Size([8, 10, 5])
    """

    feature_fields = ("scores",)

    def __init__(self, in_channels: int, hidden: int = 64, layers: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        check_size(in_channels, "in_channels", least=0)
        check_size(hidden, "hidden")
        check_size(layers, "layers")
        check_rate(dropout, "dropout")
        self.perturbs: tuple[int, ...] = (0,) if in_channels > 0 else ()
        self.extra_noise = 0 if in_channels > 0 else 1
        self.channels = in_channels + self.extra_noise
        self.virtual = nn.Parameter(torch.randn(self.channels))
        widths = [self.channels] + [hidden] * layers
        self.layers = nn.ModuleList(Layer(width, hidden, dropout) for width in widths[:-1])
        self.head = nn.Linear(hidden, 1)

    def check_terms(self, terms: Sequence[Term], groups: Mapping[str, Group]) -> None:
        """Refuse inputs other than features 'n c' (none if there are no channels) and pairs 'n n' or 'n n e'."""
        *nodes, pairs = ((), *(term.names for term in terms))[-2 if self.extra_noise == 0 else -1 :]
        n = pairs[:1]
        fits = len(terms) == 2 - self.extra_noise and len(pairs) in (2, 3) and pairs[:2] == 2 * n
        if not fits or not all(len(names) == 2 and names[:1] == n for names in nodes):
            wanted = "pairs such as 'n n'" if self.extra_noise else "features such as 'n c', then pairs such as 'n n'"
            raise misread(type(self).__name__, wanted, terms)

    def forward(self, x: Tensor, adjacency: Input, mask: Tensor | None = None) -> Features:
        nodes = check_input(x, "x", self.channels)
        check_mask(mask, nodes)
        linked = self._links(adjacency, nodes, mask)
        batch, draws, n, _ = nodes.shape
        nodes = nodes.transpose(1, 2)
        if mask is not None:
            nodes = torch.where(mask[:, :, None, None], nodes, 0)
        # (B, n + 1, K, channels): a node's K draws lie side by side, so that one product per graph moves them all
        hidden = torch.cat([nodes, self.virtual.expand(batch, 1, draws, -1)], dim=1)
        real = None if mask is None else torch.cat([mask, mask.new_ones(batch, 1)], dim=1).unsqueeze(-1)
        packing = None
        if real is not None and real.device.type == "cpu" and not traced():
            # rows without padding are fewer and need no masks; how many there are would have to be asked of a GPU
            packing = real.flatten().nonzero().squeeze(1)
        for layer in self.layers:
            hidden = layer(hidden, linked, real, packing)
        scores = self.head(hidden[:, :n]).squeeze(-1).mT
        if mask is not None:
            scores = torch.where(mask.unsqueeze(1), scores, 0)
        return Features(scores=scores if x.dim() == 4 else scores.squeeze(1))

    @staticmethod
    def _links(adjacency: Input, nodes: Tensor, mask: Tensor | None) -> "Tensor | _Edges":
        """The adjacency with a row for the virtual node, (B, n + 1, n); its column is all ones and needs no matrix."""
        batch, _, n, _ = nodes.shape
        if len(adjacency.shape) not in (3, 4) or tuple(adjacency.shape[:3]) != (batch, n, n):
            raise ShapeError(
                f"Expected adjacency to be {(batch, n, n)}, with or without channels after that "
                f"(got {tuple(adjacency.shape)})"
            )
        if adjacency.device != nodes.device:
            raise DeviceError(f"Expected adjacency to be on {nodes.device} like x (got {adjacency.device})")
        weights = links.among_real(links.weights(adjacency, nodes.dtype), mask)
        if isinstance(weights, EdgeList):
            return _Edges(weights, None if mask is None else mask.unsqueeze(-1))
        last = weights.new_ones(batch, 1, n) if mask is None else mask.unsqueeze(1).to(weights.dtype)
        return torch.cat([weights, last], dim=1)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges and a row for the virtual node, which adds up the real ones; real (B, n, 1), or None for all."""

    edges: EdgeList
    real: Tensor | None

    def matmul(self, hidden: Tensor) -> Tensor:
        """The product with hidden (B, n, width), (B, n + 1, width)."""
        real = hidden if self.real is None else torch.where(self.real, hidden, 0)
        return torch.cat([self.edges.matmul(hidden), real.sum(1, keepdim=True)], dim=1)


class Layer(nn.Module):
    """One layer, on hidden (B, n + 1, K, width) with the virtual node last; linked (B, n + 1, n), real (B, n + 1, 1).

    `packing` are the numbers of the real nodes among B * (n + 1), if the rest is to be left out.
    """

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.rand(()))
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, hidden)
        self.inner_norm, self.outer_norm = MaskedBatchNorm(hidden), MaskedBatchNorm(hidden)
        self.dropout = dropout

    def forward(
        self, hidden: Tensor, linked: Tensor | _Edges, real: Tensor | None, packing: Tensor | None = None
    ) -> Tensor:
        n = hidden.shape[1] - 1
        nodes = hidden[:, :n].flatten(2)
        gathered = torch.bmm(linked, nodes) if isinstance(linked, Tensor) else linked.matmul(nodes)
        gathered = gathered.view(hidden.shape)
        gathered = torch.addcmul(gathered + hidden[:, n:], hidden, 1 + self.epsilon)
        if packing is None:
            return self._mlp(gathered, real)
        rows = self._mlp(gathered.flatten(0, 1).index_select(0, packing), None)
        padded = rows.new_zeros(hidden.shape[0] * hidden.shape[1], *rows.shape[1:])
        return padded.index_copy(0, packing, rows).unflatten(0, hidden.shape[:2])

    def _mlp(self, rows: Tensor, real: Tensor | None) -> Tensor:
        rows = drop(torch.relu(self.inner_norm(self.inner(rows), real)), self.dropout, self.training)
        return torch.relu(self.outer_norm(self.outer(rows), real))
