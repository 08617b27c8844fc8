"""What the foundations can do, on one page: group laws, the axis notation, Haar samples, and a sort that learns."""

import sys
import time
from collections.abc import Iterator

import torch

from probsym import Signature, groups
from probsym.errors import ProbsymError
from probsym.groups import Group
from probsym.ops import soft_sort
from probsym.testing import assert_group_laws

SIZED: list[tuple[Group, int | None]] = [
    (groups.S(), 12),
    (groups.O(3), None),
    (groups.SO(3), None),
    (groups.E(3), None),
    (groups.SE(3), None),
    (groups.O(7), None),
    (groups.C(4), 6),
    (groups.D(4), 6),
    (groups.C(5), None),
]


def headline(text: str) -> None:
    """Print a section title."""
    print(f"\n{text}\n{'-' * len(text)}")


def progress(count: int, label: str) -> Iterator[int]:
    """Count steps and draw a bar, on a terminal in place and elsewhere once at the end."""
    for step in range(count):
        yield step
        if sys.stdout.isatty() or step == count - 1:
            filled = 30 * (step + 1) // count
            end = "\n" if step == count - 1 else ""
            print(f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {step + 1}/{count}", end=end, flush=True)


def show_laws() -> None:
    """Run every group law on random elements."""
    headline("Group laws, on 1,000 random elements each, float64")
    for group, size in SIZED:
        start = time.perf_counter()
        assert_group_laws(group, size=size, batch=(1000,))
        kinds = ", ".join(sorted(group.kinds))
        print(f"{group!r:6} {'size ' + str(size) if size else '':8} holds on axes: {kinds:22} "
              f"{1e3 * (time.perf_counter() - start):6.0f} ms")  # fmt: skip


def show_signature() -> None:
    """Parse the notation, move a system of particles, and let one mistake explain itself."""
    headline("The notation: five particles under S x E(3)")
    signature = Signature.parse("n d:point, n d, n n e -> n d:point", {"n": groups.S(), "d": groups.E(3)})
    position, velocity, pairs = torch.randn(2, 5, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 5, 1)
    print(f"signature {signature}\nsizes     {signature.check_inputs([position, velocity, pairs])}")
    element = {"n": groups.S().haar((2,), size=5), "d": groups.E(3).haar((2,), centroid=torch.ones(2, 3))}
    moved = signature.act(element, [position, velocity, pairs])
    length = (moved[1].norm(dim=-1).sort().values - velocity.norm(dim=-1).sort().values).abs().max()
    print(f"moved by one element of the group: speeds change by {length:.0e}")
    try:
        signature.check_inputs([position, velocity, pairs[:, :, :4]])
    except ProbsymError as error:
        print(f"{type(error).__name__}: {error}")


def hidden_value(items: torch.Tensor) -> torch.Tensor:
    """What the order shall follow; the network has to find it out."""
    return (items[..., :1] * items[..., 1:]).sin() + 0.5 * items[..., :1]


def share_in_order(network: torch.nn.Module, n: int) -> float:
    """The share of pairs that fresh sets have in the right order after sorting by the network's scores."""
    items = torch.randn(256, n, 2)
    with torch.no_grad():
        found = soft_sort(network(items).squeeze(-1)).sort(hidden_value(items), axis=-2).squeeze(-1)
    right = (found.unsqueeze(2) > found.unsqueeze(1)).triu(1).sum((1, 2))
    return float((right / (n * (n - 1) / 2)).mean())


def show_soft_sort(n: int = 64, steps: int = 600) -> None:
    """Train a network that scores points, by the gradient that comes back through sorting them."""
    headline(f"Soft sort: a network learns to order sets of {n} points through a hard sort")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    ramp = torch.linspace(1, -1, n).unsqueeze(1)
    before, start = share_in_order(network, n), time.perf_counter()
    for _ in progress(steps, "training"):
        items = torch.randn(32, n, 2)
        order = soft_sort(network(items).squeeze(-1), tau=0.03)
        loss = -(order.sort(hidden_value(items), axis=-2) * ramp).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pace = 1e3 * (time.perf_counter() - start) / steps
    print(f"pairs in order on fresh sets: {before:.1%} -> {share_in_order(network, n):.1%}, {pace:.1f} ms a step")
    print(f"entropy of the relaxed permutations: {order.entropy().mean().item():.2f} nats a row and column")


def show_scale(n: int = 4096) -> None:
    """Sort a large set with gradients, in memory linear in its size."""
    headline(f"Straight-through gradients for {n:,} points, 8 draws: no n x n matrix anywhere")
    scores = torch.randn(8, n, requires_grad=True)
    start = time.perf_counter()
    order = soft_sort(scores)
    (order.sort(torch.randn(1, n, 3), axis=-2).square().cumsum(-2).mean() + 0.1 * order.entropy().mean()).backward()
    dense = 8 * 40 * n * n * 4 / 2**30
    print(f"forward and backward in {time.perf_counter() - start:.2f} s; "
          f"unrolled Sinkhorn would keep {dense:.0f} GiB for its 40 normalisations")  # fmt: skip


if __name__ == "__main__":
    show_laws()
    show_signature()
    show_soft_sort()
    show_scale()
