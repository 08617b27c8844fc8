"""Permutations by their number."""

from itertools import permutations, product

import pytest
import torch

from probsym.ops.numbered_orders import numbered_orders


@pytest.mark.parametrize("runs", [[1], [4], [1, 2, 1], [3, 1, 2], [2, 2, 3]])
def test_all_orders_within_runs_as_itertools_lists_them(runs: list[int]) -> None:
    firsts = [sum(runs[:i]) for i in range(len(runs))]
    start = torch.tensor([first for first, size in zip(firsts, runs, strict=True) for _ in range(size)])
    left = torch.tensor([left for size in runs for left in range(size, 0, -1)])
    behind = torch.stack([left[i + 1 :].prod() for i in range(len(left))])
    each = [permutations(range(first, first + size)) for first, size in zip(firsts, runs, strict=True)]
    wanted = [sum(choice, ()) for choice in product(*each)]
    numbers = torch.arange(len(wanted)).unsqueeze(1)
    assert torch.equal(numbered_orders(numbers, start, left, behind, max(runs)), torch.tensor(wanted))
