import torch
from torch.testing import assert_close

from probsym.nets import row_blocks
from probsym.nets.row_blocks import Edges, buffer


def test_blocks_hold_all_rows_and_only_neighbours_that_are_used(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK", 2 * 15)
    places, real = torch.arange(3 * 4 * 5).view(3, 4, 5) % 5, torch.zeros(3, 4, 5).bool()
    real[0], real[1, 3, 2] = True, True
    blocks = Edges(places, real).blocks(3)
    assert [block.rows for block in blocks] == [slice(0, 2), slice(2, 4)]
    assert [len(block.places) for block in blocks] == [1, 2]
    assert blocks[0].real is None
    assert torch.equal(blocks[1].real, real[:2, 2:])


def test_one_row_may_have_more_numbers_than_a_block():
    assert list(row_blocks.row_blocks(2, 10 * row_blocks.BLOCK)) == [slice(0, 1), slice(1, 2)]


def test_no_rows_are_one_empty_block():
    (block,) = Edges(torch.zeros(3, 0, 5).long(), torch.zeros(3, 0, 5).bool()).blocks(2)
    assert block.near(torch.empty(2, 0, 5, 4)).shape == (2, 1, 0, 5, 4)


def test_sums_are_the_transpose_of_neighbours():
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(5, (3, 4, 5), generator=generator)
    (block,) = Edges(places, torch.ones(3, 4, 5).bool()).blocks(2)
    x, y = (torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((2, 4, 5, 2), (2, 3, 4, 5, 2)))
    near = x[:, torch.arange(4).view(4, 1), places]
    assert torch.equal(block.near(x), near)
    assert torch.equal(block.near(x, buffer(x, [block])), near)
    assert torch.equal(block.edges(x, x), near + x.unsqueeze(1))
    assert_close((near * y).sum(), (x * block.sum_near(y)).sum())
