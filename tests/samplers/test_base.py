"""What all samplers share, shown on a sampler of a user's own."""

import pytest
import torch
from torch import nn

from probsym import Symmetrized, groups, samplers, testing
from probsym.errors import RangeError, ShapeError, SignatureError
from probsym.ops import soft_sort
from probsym.samplers.base import as_reads
from probsym.samplers.noise import tie_breaks

S = {"n": groups.S()}


class BySize(samplers.Sampler):
    """Items sorted by a weighted sum of their channels, with a parameter to learn."""

    breaks_ties = True

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def noise(self, batch, draws, generator=None, *, start=0):
        return tie_breaks(batch, draws, generator)

    def forward(self, batch, noise):
        scores = (batch.inputs[0] @ self.weight).unsqueeze(1).expand(-1, noise.draws(), -1)
        order = soft_sort(scores, mask=batch.mask_of("n"), ties=noise.ties["n"], tau=0.1)
        return samplers.Draw(noise.draws(), {"n": order.index}, {"n": order})


def test_a_sampler_of_ones_own_is_one_class() -> None:
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, BySize(), samples=3)
    x = torch.randn(4, 5, 2)
    testing.assert_equivariant(model, x, mask=torch.arange(5) < torch.tensor([[5], [3], [4], [1]]))
    estimate = model.train().estimate(x)
    (estimate.mean.square().sum() + estimate.losses["entropy"]).backward()
    assert model.sampler.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_stay_in_float32(dtype: torch.dtype) -> None:
    sampler = BySize().to(dtype)
    assert sampler.weight.dtype == torch.float32
    assert sampler.double().weight.dtype == torch.float64


def test_noise_is_checked_before_use() -> None:
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, BySize()), torch.randn(4, 5, 2)
    noise = model.noise(x)
    with pytest.raises(ShapeError, match=r"Expected noise for a batch of 2 \(got 4\)"):
        model(x[:2], noise=noise)
    with pytest.raises(SignatureError, match=r"ties on \['n'\].*\(got 0, \[\], \[\]\)"):
        model(x, noise=noise._replace(ties={}))
    with pytest.raises(SignatureError, match=r"that `noise\(...\)` returned \(got tuple\)"):
        model(x, noise=(1, 2))


def test_reads_are_numbers() -> None:
    assert as_reads(None) is None
    assert as_reads([1, 0]) == (1, 0)
    for wrong in (0, "01", [0.5]):
        with pytest.raises(SignatureError, match="Expected reads to be a sequence of input numbers"):
            as_reads(wrong)


def test_only_frames_draw_what_they_list() -> None:
    with pytest.raises(RangeError, match=r"Expected no samples for Enumerate, which lists its elements \(got 5\)"):
        samplers.Enumerate().drawing(5)
    drawing = samplers.Frame("pca", reads=[0]).drawing(5)
    assert (drawing.kind, drawing.reads, drawing.exact) == ("pca", (0,), False)
