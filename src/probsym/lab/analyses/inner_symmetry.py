"""Graphs with symmetries of their own: are nodes that nothing tells apart embedded alike (paper, Figures 9 to 11)?"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from probsym import bases, groups, nets, samplers
from probsym._internal.progress import Show
from probsym.lab.analyses.analysis import AT_ONCE, Questions, Row
from probsym.lab.seeds import derived, seeded
from probsym.symmetrized import Symmetrized

GRAPHS: dict[str, tuple[tuple[int, int], ...]] = {
    "S_6": tuple((0, leaf) for leaf in range(1, 7)),
    "S_3 x S_2": ((0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6)),
    "D_4": ((0, 1), (1, 2), (2, 3), (3, 0)),
}
"""The edges, by the group of automorphisms: a star, two stars joined at their centres, a cycle."""
HIDDEN = 64


def by_graph(device: torch.device, questions: Questions, show: Show) -> list[Row]:
    """One row for each graph, method and node: its embedding by an untrained MLP from n x n numbers to n.

    Nothing here is trained, the sampler no more than the base: `ps` symmetrizes by the distribution that a GIN gives as
    it is initialised, `canonical` by the one order that the same GIN gives without noise. `orbit` numbers the nodes
    that automorphisms exchange. The same in all rows of a graph and method, `spread` is the deviation of the embeddings
    inside orbits (root mean square over nodes), as a share of their deviation over all nodes in a single draw; it would
    vanish for an equivariant model. `from_draws` is the spread to expect if the draws alone made it, their number being
    what it is; None where there is one draw. Both are means over `networks`, as many as the repeats asked for, and
    `spread_stderr` is the standard error of the mean spread over them, None for one network. The embedding is that of
    the first.
    """
    rows, total = list[Row](), len(GRAPHS) * questions.repeats
    for place, (name, edges) in enumerate(GRAPHS.items()):
        adjacency = adjacency_of(edges).to(device)
        orbits = orbits_of(adjacency).to(device)
        by_method: dict[str, list[tuple[Tensor, ...]]] = {"ps": [], "canonical": []}
        for network in range(questions.repeats):
            ps, canonical = values_of(adjacency, questions.samples, derived(questions.seed, "inner symmetry", network))
            scale = ps.var(1, unbiased=False).mean().sqrt()
            for method, values in (("ps", ps), ("canonical", canonical)):
                by_method[method].append((values.mean(0), *(deviation / scale for deviation in inside(values, orbits))))
            show(place * questions.repeats + network + 1, total, name)
        for method, each in by_method.items():
            embeddings, spreads, errors = (torch.stack(column).cpu() for column in zip(*each, strict=True))
            rows += [
                {
                    "graph": name,
                    "method": method,
                    "draws": questions.samples if method == "ps" else 1,
                    "node": node,
                    "orbit": orbit,
                    "embedding": float(embeddings[0, node]),
                    "spread": float(spreads.mean()),
                    "spread_stderr": float(spreads.std()) / questions.repeats**0.5 if questions.repeats > 1 else None,
                    "from_draws": float(errors.mean()) if method == "ps" and questions.samples > 1 else None,
                    "networks": questions.repeats,
                }
                for node, orbit in enumerate(orbits.tolist())
            ]
    return rows


@torch.no_grad()
def values_of(adjacency: Tensor, draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """The embeddings of the nodes in every draw, (draws, n), under PS, and those of canonicalization, (1, n)."""
    n, device = len(adjacency), adjacency.device
    with seeded(torch.device("cpu"), seed):
        base, net = bases.MLP([n * n, HIDDEN, HIDDEN, n]), nets.GIN(in_channels=0)
    generator = torch.Generator(device).manual_seed(seed)
    embeddings = []
    for sampler, samples in ((samplers.Learned(net), draws), (samplers.Canonical(net), 1)):
        model = Symmetrized(base, "n n -> n", {"n": groups.S()}, sampler, chunk=AT_ONCE).to(device).eval()
        values = model.estimate(adjacency[None], samples=samples, generator=generator, keep_values=True).values
        embeddings.append(values[0].double())
    return embeddings[0], embeddings[1]


def inside(values: Tensor, orbits: Tensor) -> tuple[Tensor, Tensor]:
    """Of values (draws, n): the deviation of their mean inside orbits, and what it is if only the draws make it."""
    member = torch.nn.functional.one_hot(orbits).to(values)
    apart = values - values @ member / member.sum(0) @ member.mT
    error = apart.var(0).mean().div(len(values)).sqrt() if len(values) > 1 else apart.new_tensor(torch.nan)
    return apart.mean(0).square().mean().sqrt(), error


def adjacency_of(edges: tuple[tuple[int, int], ...]) -> Tensor:
    """The matrix of a graph, (n, n)."""
    start, end = torch.tensor(edges).unbind(1)
    n = int(torch.stack([start, end]).max()) + 1
    matrix = torch.zeros(n, n)
    matrix[start, end] = matrix[end, start] = 1
    return matrix


def automorphisms(adjacency: Tensor) -> Tensor:
    """All permutations of a small graph's nodes that leave it as it is, (count, n)."""
    orders = torch.tensor(list(itertools.permutations(range(len(adjacency)))), device=adjacency.device)
    moved = adjacency[orders[:, :, None], orders[:, None, :]]
    return orders[(moved == adjacency).all(-1).all(-1)]


def orbits_of(adjacency: Tensor) -> Tensor:
    """The number of the orbit of each node, (n,), counted from the first node on.

    >>> orbits_of(adjacency_of(GRAPHS["S_3 x S_2"])).tolist()
    [0, 1, 1, 1, 2, 3, 3]
    """
    first = automorphisms(adjacency).amin(0)
    return first.unique(return_inverse=True)[1]
