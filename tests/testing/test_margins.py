import pytest
import torch
from torch import nn

from probsym import Symmetrized, groups, samplers
from probsym.nets import Features
from probsym.testing.margins import unclear_draws


class Given(nn.Module):
    perturbs = ()

    def __init__(self, **features: torch.Tensor) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> Features:
        return Features(**{name: one.unsqueeze(1) for name, one in self.features.items()})


def flags(signature, bound, x, mask=None, **features):
    model = Symmetrized(lambda x: x[:, 0], signature, bound, samplers.Learned(Given(**features)))
    return unclear_draws(model.signature, model.estimate(x, mask=mask)).squeeze(1).tolist()


@pytest.mark.parametrize(("dtype", "near", "far"), [(torch.float32, 1e-6, 1e-3), (torch.float64, 1e-13, 1e-10)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scores_and_logits(size: float, dtype: torch.dtype, near: float, far: float) -> None:
    scores = torch.tensor([[1, 0.5, 0], [1, 0.5, 0.5 + near], [1, 0.5, 0.5 + far], [1, 0.5, 0.5]], dtype=dtype) * size
    wanted = [False, True, False, False]  # exact ties are noise's to decide
    assert flags("n c -> c", {"n": groups.S()}, torch.zeros(4, 3, 1, dtype=dtype), scores=scores) == wanted
    logits = torch.tensor([[1, 1 - near, 0, 0], [1, 0, near, 0], [1, 1 - far, 0, 0]], dtype=dtype) * size
    x = torch.zeros(3, 1, 2, dtype=dtype)
    assert flags("m d -> d", {"d": groups.C(4)}, x, logits=logits) == [True, False, False]


def test_padding_does_not_count() -> None:
    """Neither where it is close to a real score, nor where it is large, nor as the zero that it is read as."""
    scores = torch.tensor([[1.0, 0.5, 0.5 + 1e-6], [1.0, 0.5, 1e6], [1.0, 1e-6, 0.5]])
    mask = torch.tensor([[True, True, False]] * 3)
    assert flags("n c -> c", {"n": groups.S()}, torch.zeros(3, 3, 1), mask, scores=scores) == [False] * 3


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("group", [groups.O(2), groups.SE(2)])
def test_vectors(group: groups.Group, size: float) -> None:
    thin = [[1.0, 1.0], [0.0, 1e-3]]  # two columns that nearly agree
    flat, wide = [[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.3], [0.2, 1.0]]
    vectors = torch.tensor([wide, thin, flat]) * size
    assert flags("m d -> d", {"d": group}, torch.zeros(3, 1, 2), vectors=vectors) == [False, True, False]
