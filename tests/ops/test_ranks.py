"""Ranks against sorting in Python."""

import pytest
import torch

from probsym.ops.ranks import lexicographic_ranks, ranks

DTYPES = [torch.float64, torch.float32, torch.long]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_count_the_larger_values(dtype):
    values = torch.randint(0, 5, (20, 7), generator=torch.Generator().manual_seed(0)).to(dtype)
    for row, ranked in zip(values.tolist(), ranks(values).tolist(), strict=True):
        assert ranked == [sorted(set(row), reverse=True).index(value) for value in row]


def test_neighbours_within_the_tolerance_share_a_rank():
    values = torch.tensor([0.0, 1.0, 1.05, 1.1, 2.0])
    assert ranks(values, 0.06).tolist() == [2, 1, 1, 1, 0]  # a chain is one class
    assert ranks(values, 0.04).tolist() == [4, 3, 2, 1, 0]
    assert ranks(torch.stack([values, values]), torch.tensor([[0.06], [0.04]])).tolist() == [
        [2, 1, 1, 1, 0],
        [4, 3, 2, 1, 0],
    ]


def test_infinities_tie_with_themselves():
    assert ranks(torch.tensor([torch.inf, 1.0, torch.inf, -torch.inf])).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_lexicographic_ranks_compare_rows(columns, dtype):
    keys = torch.randint(0, 3, (30, 6, columns), generator=torch.Generator().manual_seed(1)).to(dtype)
    for rows, ranked in zip(keys.tolist(), lexicographic_ranks(keys).tolist(), strict=True):
        listed = sorted({tuple(row) for row in rows}, reverse=True)
        assert ranked == [listed.index(tuple(row)) for row in rows]


def test_padding_joins_no_two_classes_and_changes_no_order():
    keys = torch.tensor([[1.0, 5.0], [1.5, 1.0], [2.0, 3.0], [1.0, 4.0]])
    mask = torch.tensor([True, False, True, True])
    ranked = lexicographic_ranks(keys, 0.6, mask)
    real = ranked[mask]
    assert real.argsort().tolist() == [1, 0, 2]
    assert real.unique().numel() == 3
    keys[1] = torch.nan
    assert torch.equal(lexicographic_ranks(keys, 0.6, mask)[mask].argsort(), real.argsort())


def test_rounding_does_not_decide():
    keys = torch.tensor([[1.0, 0.0], [1.0 + 1e-12, 1.0]], dtype=torch.float64)
    assert lexicographic_ranks(keys, 1e-9).tolist() == [1, 0]
    assert lexicographic_ranks(keys).tolist() == [1, 0]
    assert lexicographic_ranks(keys.flip(1), 1e-9).tolist() == [1, 0]
    assert lexicographic_ranks(torch.tensor([[1.0, 1.0], [1.0 + 1e-12, 0.0]], dtype=torch.float64), 1e-9).tolist() == [
        0,
        1,
    ]


def test_moving_the_rows_moves_the_ranks():
    keys = torch.randint(0, 3, (8, 3), generator=torch.Generator().manual_seed(2)).double()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    assert torch.equal(lexicographic_ranks(keys[order]), lexicographic_ranks(keys)[order])
