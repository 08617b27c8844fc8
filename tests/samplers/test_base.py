"""What all samplers share, shown on a sampler of a user's own."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from probsym import Symmetrized, groups, nets, samplers, testing
from probsym.errors import GroupError, NonFiniteError, RangeError, ShapeError, SignatureError
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


UNFIT = {
    "no draw": (lambda draw: (draw.elements, draw.carriers), SignatureError, r"BySize to return a Draw \(got tuple\)"),
    "elements": (
        lambda draw: replace(draw, elements={"m": draw.elements["n"]}),
        SignatureError,
        r"elements in a draw for axes \['n'\] \(got \['m'\]\)",
    ),
    "carriers": (lambda draw: replace(draw, carriers={}), SignatureError, r"carriers in a draw for axes \['n'\] \(got"),
    "no axis of draws": (
        lambda draw: replace(draw, elements={"n": draw.elements["n"][:, 0]}),
        ShapeError,
        r"elements \(B, K, ...\) = \(4, 3\) for axis 'n' \(got \(4, 5\)\)",
    ),
    "one carrier for all": (
        lambda draw: replace(draw, carriers={"n": draw.elements["n"][:, :1]}),
        ShapeError,
        r"carriers \(B, K, ...\) = \(4, 3\) for axis 'n' \(got \(4, 1, 5\)\)",
    ),
    "one order for all": (
        lambda draw: replace(draw, carriers={"n": draw.carriers["n"].chunk(0, 1)}),
        ShapeError,
        r"carriers \(B, K, ...\) = \(4, 3\) for axis 'n' \(got \(4, 1, 5\)\)",
    ),
    "exact": (
        lambda draw: replace(draw, exact=torch.ones(4)),
        ShapeError,
        r"exact to be booleans \(4,\) in a draw \(got \(4,\), torch.float32\)",
    ),
    "dependent": (
        lambda draw: replace(draw, dependent=torch.ones(4, 1, dtype=torch.bool)),
        ShapeError,
        r"dependent to be booleans \(4,\) in a draw \(got \(4, 1\), torch.bool\)",
    ),
    "no weight": (
        lambda draw: replace(draw, weights=torch.tensor([[1.0], [0.0], [1.0], [1.0]]).expand(4, 3)),
        NonFiniteError,
        r"sum that is finite and not zero \(got 0.0 in item 1\)",
    ),
    "weights that are not numbers": (
        lambda draw: replace(draw, weights=torch.full((4, 3), torch.nan)),
        NonFiniteError,
        r"sum that is finite and not zero \(got nan in item 0\)",
    ),
    "weights": (
        lambda draw: replace(draw, weights=torch.ones(4)),
        ShapeError,
        r"weights \(B, K\) = \(4, 3\) in a draw \(got \(4,\)\)",
    ),
    "features": (
        lambda draw: replace(draw, features={"n": torch.full((4, 3, 5), torch.nan)}),
        NonFiniteError,
        r"finite scores from the net for axis 'n' \(got NaN or infinity in item 0\)",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_draws_that_do_not_fit_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, error, message = UNFIT[name]
    forward = BySize.forward
    monkeypatch.setattr(BySize, "forward", lambda self, batch, noise: change(forward(self, batch, noise)))
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, BySize(), samples=3)
    with pytest.raises(error, match=message):
        model(torch.randn(4, 5, 2))


class FirstFirst(samplers.Haar):
    """Uniform orders, of which only those count that leave the first item where it is."""

    def forward(self, batch, noise):
        draw = super().forward(batch, noise)
        return draw.weighted((draw.elements["n"][..., 0] == 0).to(batch.dtype))


def test_the_weights_of_some_chunks_may_be_zero() -> None:
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, FirstFirst(), samples=40).eval(), torch.randn(4, 5, 2)
    noise = model.noise(x, seed=0)
    for average in (lambda: model(x, noise=noise), lambda: model.estimate(x, noise=noise).mean):
        model.chunk = None
        whole = average()
        model.chunk = 1
        torch.testing.assert_close(average(), whole)


@pytest.mark.parametrize("method", ["canonical", "learned"])
def test_nets_that_diverge_are_noticed(method: str) -> None:
    """Not at padding, where a net may leave anything; not if nobody wants to know."""
    model = Symmetrized(lambda x: x, "n c -> n c", S, samplers.SAMPLERS[method.capitalize()](Diverging()))
    x, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, False], [True, True, True]])
    with pytest.raises(
        NonFiniteError, match=r"finite scores from the net for axis 'n' \(got NaN or infinity in item 0\)"
    ):
        model(x)
    with pytest.raises(NonFiniteError, match="in item 1"):
        model(x, mask=mask)
    assert model(x[:1], mask=mask[:1]).isfinite().all()
    model.check_finite = False
    assert model(x).shape == x.shape


class Diverging(nn.Module):
    """Of the last item it makes NaN."""

    perturbs = (0,)
    feature_fields = ("scores",)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> nets.Features:
        scores = x.squeeze(-1).clone()
        scores = scores if scores.dim() == 3 else scores.unsqueeze(1)
        scores[..., -1] = torch.nan
        return nets.Features(scores=scores)


class Shuffled(groups.S):
    """Permutations that act as whatever a carrier makes of them, which is not an Order."""

    def carrier(self, g, *features, **options):
        return g


def test_masks_need_orders() -> None:
    model = Symmetrized(lambda x: x, "n c -> n c", {"n": Shuffled()}, samples=2)
    x = torch.randn(2, 3, 1)
    assert model(x).shape == x.shape
    with pytest.raises(GroupError, match=r"`carrier` of Shuffled\(\) to be an Order on axis 'n', .*\(got a Tensor\)"):
        model(x, mask=torch.ones(2, 3, dtype=torch.bool))


def test_noise_is_checked_before_use() -> None:
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, BySize()), torch.randn(4, 5, 2)
    noise = model.noise(x)
    with pytest.raises(ShapeError, match=r"Expected noise for a batch of 2 \(got 4\)"):
        model(x[:2], noise=noise)
    with pytest.raises(SignatureError, match=r"ties on \['n'\].*\(got 0, \[\], \[\]; .* `breaks_ties`"):
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
