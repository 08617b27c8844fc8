"""Message passing equivariant to rotations, reflections, translations and permutations: a baseline."""

import torch
from torch import Tensor, nn

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases.activations import known_activation
from probsym.errors import ShapeError
from probsym.ops.argument_checks import check_size


class EGNN(RemembersArguments, nn.Module):
    """Predicts the future positions of particles; equivariant to S_n x E(d) by itself:

        m_ij = MLP(h_i, h_j, |x_i - x_j|^2, e_ij)
        v_i <- MLP(h_i) v_i + mean over j != i of (x_i - x_j) MLP(m_ij)
        x_i <- x_i + v_i        h_i <- h_i + MLP(h_i, sum over j of m_ij)

    h starts as a linear map of the speeds |v_i|.

    `forward(position, velocity, pairs)`: (batch, n, d), (batch, n, d) and pair features (batch, n, n, edge_channels)
    that are invariant to rigid motions; returns positions (batch, n, d).

    >>> model = EGNN(edge_channels=2)
    >>> model(torch.randn(8, 5, 3), torch.randn(8, 5, 3), torch.rand(8, 5, 5, 2)).shape
    torch.Size([8, 5, 3])
    """

    def __init__(self, edge_channels: int, width: int = 64, layers: int = 4, activation: str = "silu") -> None:
        super().__init__()
        self.edge_channels = check_size(edge_channels, "edge_channels", least=0)
        check_size(width, "width")
        check_size(layers, "layers")
        function = known_activation(activation)
        self.embed = nn.Linear(1, width)
        self.layers = nn.ModuleList(_Layer(width, edge_channels, function) for _ in range(layers))

    def forward(self, position: Tensor, velocity: Tensor, pairs: Tensor) -> Tensor:
        if position.dim() != 3 or velocity.shape != position.shape:
            raise ShapeError(
                "Expected positions and velocities of one shape (batch, n, d) "
                f"(got {tuple(position.shape)} and {tuple(velocity.shape)})"
            )
        batch, n, _ = position.shape
        if tuple(pairs.shape) != (wanted := (batch, n, n, self.edge_channels)):
            raise ShapeError(f"Expected pairs to have shape {wanted} (got {tuple(pairs.shape)})")
        hidden = self.embed(torch.linalg.vector_norm(velocity, dim=-1, keepdim=True))
        others = 1 - torch.eye(n, dtype=position.dtype, device=position.device).unsqueeze(-1)
        for layer in self.layers:
            position, velocity, hidden = layer(position, velocity, hidden, pairs, others)
        return position


class _Layer(nn.Module):
    def __init__(self, width: int, edge_channels: int, function: type[nn.Module]) -> None:
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(2 * width + 1 + edge_channels, width), function(), nn.Linear(width, width), function()
        )
        last = nn.Linear(width, 1, bias=False)
        nn.init.xavier_uniform_(last.weight, gain=1e-3)  # positions hardly move at first
        self.pull = nn.Sequential(nn.Linear(width, width), function(), last)
        self.keep = nn.Sequential(nn.Linear(width, width), function(), nn.Linear(width, 1))
        self.update = nn.Sequential(nn.Linear(2 * width, width), function(), nn.Linear(width, width))

    def forward(
        self, position: Tensor, velocity: Tensor, hidden: Tensor, pairs: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        n = position.shape[1]
        gaps = position.unsqueeze(2) - position.unsqueeze(1)
        ends = hidden.unsqueeze(2).expand(-1, -1, n, -1), hidden.unsqueeze(1).expand(-1, n, -1, -1)
        messages = self.message(torch.cat([*ends, gaps.square().sum(-1, keepdim=True), pairs], -1)) * others
        force = (gaps * self.pull(messages) * others).sum(2) / max(n - 1, 1)
        velocity = self.keep(hidden) * velocity + force
        hidden = hidden + self.update(torch.cat([hidden, messages.sum(2)], -1))
        return position + velocity, velocity, hidden
