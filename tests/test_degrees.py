import pytest
import torch
from torch import nn

from probsym import Symmetrized, groups, quadrature_degree
from probsym.errors import RangeError


def test_polynomials_need_their_own_degree() -> None:
    x = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for power in (1, 2, 4):
        model = Symmetrized(lambda x, power=power: x[:, 0, 0] ** power, "n d -> ", {"d": groups.SO(3)})
        assert quadrature_degree(model, x, spread=1e-9) == power
    vectors = Symmetrized(lambda x: (x[:, 0, 0] ** 2, x[:, 1]), "n d -> , d", {"d": groups.SO(3)})
    assert quadrature_degree(vectors, x, spread=1e-9) == 2


def test_the_largest_spread_counts_and_masks_pass() -> None:
    x = torch.tensor([[[1.0, 0.0], [5.0, 0.0]], [[1e-3, 0.0], [1e3, 0.0]]], dtype=torch.float64)
    mask = torch.tensor([[True, True], [True, False]])
    model = Symmetrized(lambda x: x[..., 0].sum(1), "n d -> ", {"d": groups.SO(2)})
    assert quadrature_degree(model, x, spread=10.0, mask={"n": mask}) == 0
    assert quadrature_degree(model, x, spread=10.0) == 1


def test_what_cannot_be_reached_is_said() -> None:
    model = Symmetrized(lambda x: x[:, 0, 0].abs(), "n d -> ", {"d": groups.SO(2)})
    x = torch.ones(1, 1, 2)
    with pytest.raises(RangeError, match=r"Expected a spread of 1e-06 at a degree of at most 3 \(got "):
        quadrature_degree(model, x, spread=1e-6, most=3)
    with pytest.raises(RangeError, match="spread to be positive"):
        quadrature_degree(model, x, spread=0.0)
    with pytest.raises(RangeError, match="turns"):
        quadrature_degree(model, x, spread=1.0, turns=1)


@pytest.mark.parametrize("training", [True, False])
def test_the_base_stays_in_its_mode(training: bool) -> None:
    norm = nn.BatchNorm1d(3)
    base = nn.Sequential(nn.Flatten(), nn.Linear(12, 3), norm)
    model = Symmetrized(base, "n d -> k", {"d": groups.SO(3)}).train(training)
    norm.eval()  # as one is whose statistics are to stay
    quadrature_degree(model, torch.randn(5, 4, 3), spread=100.0)
    assert (model.training, base.training, norm.training) == (training, training, False)
    assert norm.running_mean is not None
    assert not norm.running_mean.any()
