import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from probsym.ops import links
from probsym.ops.edge_list import EdgeList, Input


def dense(x: Input) -> Tensor:
    return x.dense() if isinstance(x, EdgeList) else x


def pairs(*channels: int) -> Tensor:
    x = torch.randn(2, 4, 4, *channels, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.where(x.flatten(3).sum(-1).view(2, 4, 4, *(1 for _ in channels)) > 0.3 if channels else x > 0.3, x, 0)


@pytest.mark.parametrize("listed", [True, False], ids=["edges", "array"])
def test_links_of_either_form(listed: bool) -> None:
    def given(x: Tensor) -> Input:
        return EdgeList.from_dense(x) if listed else x

    x, wide = pairs(), pairs(3)
    mask = torch.tensor([[True, True, False, True], [True] * 4])
    real = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), x, 0)
    assert_close(dense(links.weights(given(x), torch.float32)), x.float())
    assert_close(dense(links.weights(given(wide), torch.float64)), wide.abs().sum(-1))
    assert_close(dense(links.weights(given(wide), torch.float64, absolute=False)), wide.sum(-1))
    assert_close(dense(links.among_real(given(x), mask)), real)
    assert links.among_real(form := given(x), None) is form
    assert_close(dense(links.with_loops(given(x))), x + torch.eye(4, dtype=torch.float64))
    assert_close(links.degrees(given(x)), x.sum(-1, keepdim=True))
    h = torch.rand(2, 4, 3, dtype=torch.float64)
    assert_close(links.gathered(given(x), h), x @ h)
