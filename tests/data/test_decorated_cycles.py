from collections import Counter

import pytest
import torch

from probsym.data import decorated_cycles
from probsym.errors import RangeError


def colours(adjacency: torch.Tensor) -> Counter[tuple[int, ...]]:
    """The colours of 1-WL refinement as nested tuples of neighbours' colours, hashed round by round."""
    hashes = [0] * len(adjacency)
    for _ in range(len(adjacency)):
        around = [sorted(hashes[j] for j in row.nonzero().flatten().tolist()) for row in adjacency]
        hashes = [hash((own, *others)) for own, others in zip(hashes, around, strict=True)]
    return Counter((value,) for value in hashes)


def components(adjacency: torch.Tensor) -> int:
    reach = torch.linalg.matrix_power(adjacency.double() + torch.eye(len(adjacency)), len(adjacency)) > 0
    return len(reach.unique(dim=0))


def test_pairs_agree_in_all_that_message_passing_sees() -> None:
    graphs = decorated_cycles(60, generator=torch.Generator().manual_seed(0))
    for even, odd in zip(range(0, 60, 2), range(1, 60, 2), strict=True):
        first, second = (graphs.adjacency[i][graphs.mask[i]][:, graphs.mask[i]] for i in (even, odd))
        assert colours(first) == colours(second)
        assert (components(first), components(second)) == (1, 2)
        assert graphs.labels[[even, odd]].tolist() == [1, 0]


def test_graphs_are_simple_padded_and_described() -> None:
    graphs = decorated_cycles(40, size=16, generator=torch.Generator().manual_seed(1))
    assert torch.equal(graphs.adjacency, graphs.adjacency.mT)
    assert graphs.adjacency.diagonal(dim1=1, dim2=2).sum() == 0
    assert graphs.adjacency[~graphs.mask].sum() == 0
    assert torch.equal(graphs.features[..., 1], graphs.adjacency.sum(-1))
    assert torch.equal(graphs.features[..., 0], graphs.mask.float())
    assert len({int(mask.sum()) for mask in graphs.mask}) > 3
    assert torch.equal(graphs.take(torch.tensor([3])).adjacency[0], graphs.adjacency[3])


def test_nodes_are_shuffled() -> None:
    graphs = decorated_cycles(200, generator=torch.Generator().manual_seed(2))
    beside = graphs.adjacency.diagonal(offset=1, dim1=1, dim2=2).mean()
    assert beside < 2 * graphs.adjacency.mean()


@pytest.mark.parametrize(("count", "size", "text"), [(3, 24, "even number"), (0, 24, "even"), (2, 11, "12 nodes")])
def test_bad_numbers(count: int, size: int, text: str) -> None:
    with pytest.raises(RangeError, match=text):
        decorated_cycles(count, size)
