"""Models that are none of ours, and complaints that say where they fail."""

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, samplers
from probsym.errors import ShapeError, SignatureError
from probsym.nets import Features
from probsym.testing import assert_equivariant, equivariance_gap
from probsym.testing.subject import unclear_draws

PARTICLES = "n d:point, n d, n n e -> n d:point"
BOTH = {"n": groups.S(), "d": groups.E(3)}


def particles(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 5, 3), (4, 5, 3), (4, 5, 5, 2))
    return [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]


def egnn() -> nn.Module:
    torch.manual_seed(0)
    return bases.EGNN(edge_channels=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_librarys_own_egnn_is_equivariant(dtype: torch.dtype) -> None:
    model = egnn().to(dtype)
    report = assert_equivariant(model, *particles(dtype), signature=PARTICLES, groups=BOTH)
    assert (report.draws, report.unclear) == (4, 0)
    assert model.training  # as it was
    gap = equivariance_gap(model, *particles(dtype), signature=PARTICLES, groups=BOTH, samples=5)
    assert gap.gap < 1e-4
    assert gap.p_value > 0.01


def test_a_failure_names_the_axis_the_item_and_how_far_off_it_is() -> None:
    def biased(x: Tensor, v: Tensor, pairs: Tensor) -> Tensor:
        """Follows every order, but one system of the batch is pulled along an axis of the room."""
        pull = torch.zeros_like(x)
        pull[2, :, 0] = 0.5
        return x + v + pull

    with pytest.raises(AssertionError) as caught:
        assert_equivariant(biased, *particles(), signature=PARTICLES, groups=BOTH)
    text = str(caught.value)
    assert "in batch item 2: " in text
    apart = text.split("in batch item 2: ")[1].split(";", maxsplit=1)[0].split(", ")
    distances = {part.split(" on ")[1]: float(part.split(" under ")[0]) for part in apart}
    assert distances["'n'"] < 1e-12
    assert distances["'d'"] > 0.01


def test_masks_and_several_outputs() -> None:
    def sums(x: Tensor, mask: Tensor) -> dict[str, Tensor]:
        total = torch.where(mask.unsqueeze(-1), x, 0).sum(1)
        return {"total": total, "each": torch.where(mask.unsqueeze(-1), x + total.unsqueeze(1), 0)}

    mask = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]]).bool()
    bound = {"n": groups.S()}
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    assert_equivariant(sums, x, mask=mask, signature="n c -> c, n c", groups=bound)
    with pytest.raises(AssertionError, match=r"under S\(\) on 'n'"):
        assert_equivariant(lambda x: (x[:, 0], x), x, signature="n c -> c, n c", groups=bound)


MASK = torch.arange(5) < torch.tensor([[5], [3], [4]])
TOKENS: dict = {"mask": MASK, "signature": "n c -> n c", "groups": {"n": groups.S()}}


def tokens() -> Tensor:
    return torch.randn(3, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(3, 1, 8, batch_first=True).double().eval()


@pytest.mark.parametrize("padding", [0.0, 7.0, torch.nan])
def test_padding_of_outputs_means_nothing(padding: float) -> None:
    """The layer of torch returns something at padding; the values of the caller's padding do not matter either."""
    layer, x = encoder(), torch.where(MASK.unsqueeze(-1), tokens(), padding)

    def masked(x: Tensor, mask: Tensor) -> Tensor:
        return layer(x, src_key_padding_mask=~mask)

    assert_equivariant(masked, x, **TOKENS)
    assert equivariance_gap(masked, x, **TOKENS, samples=4).p_value == 1
    with pytest.raises(AssertionError, match=r"under S\(\) on 'n'"):
        assert_equivariant(lambda x, mask: masked(x, mask) + torch.arange(5.0).unsqueeze(-1), x, **TOKENS)


def test_moved_padding_of_points_is_zero_too() -> None:
    """A translation would move zeros away; a model that reads padding there is not to blame its group."""
    seen = []

    def watched(x: Tensor, mask: Tensor) -> Tensor:
        seen.append(x[~mask])
        return x

    assert_equivariant(
        watched, tokens(), mask=MASK, signature="n d:point -> n d:point", groups={"n": groups.S(), "d": groups.E(3)}
    )
    assert len(seen) > 1
    assert all(bool((padding == 0).all()) for padding in seen)


def test_masks_of_another_name_and_chosen_outputs() -> None:
    layer = encoder()

    def hugging(x: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        hidden = layer(x, src_key_padding_mask=None if attention_mask is None else ~attention_mask)
        return {"loss": hidden.sum(), "hidden": hidden, "first": hidden[:, 0]}

    options = {**TOKENS, "output_keys": ["hidden"], "mask_argument": "attention_mask"}
    assert_equivariant(hugging, tokens(), **options)
    assert equivariance_gap(hugging, tokens(), **options, samples=4).p_value == 1
    for keys in (None, ["hidden", "first"], "hidden"):
        with pytest.raises(SignatureError, match="output_keys"):
            assert_equivariant(hugging, tokens(), **{**options, "output_keys": keys})
    with pytest.raises(SignatureError, match="Expected a base that takes 'keep', its mask_argument"):
        assert_equivariant(hugging, tokens(), **{**options, "mask_argument": "keep"})


def test_a_failure_says_that_the_mask_was_not_passed() -> None:
    def first(x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return x if attention_mask is not None else x + x[:, :1]

    with pytest.raises(AssertionError, match="called without the mask, since it takes no 'mask': see mask_argument="):
        assert_equivariant(first, tokens(), **TOKENS)
    with pytest.raises(AssertionError) as caught:
        assert_equivariant(lambda x, mask: first(x), tokens(), **TOKENS)
    assert "mask" not in str(caught.value)


@pytest.mark.parametrize("option", [{"output_keys": ["y"]}, {"mask_argument": "keep"}], ids=str)
def test_a_symmetrized_model_has_its_own_call(option: dict) -> None:
    model = Symmetrized(lambda x: x, "n -> n", {"n": groups.S()})
    for check in (assert_equivariant, equivariance_gap):
        with pytest.raises(SignatureError, match="Expected no output_keys or mask_argument for a Symmetrized"):
            check(model, torch.randn(2, 3), **option)


def test_random_functions_are_compared_in_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 5, 3, generator=generator)

    def noisy(x: Tensor) -> Tensor:
        return x.mean(1) + 0.3 * torch.randn(x.shape[0], 3, generator=generator)

    def lopsided(x: Tensor) -> Tensor:
        return noisy(x) + torch.tensor([1.0, 0.0, 0.0])

    for function, equivariant in ((noisy, True), (lopsided, False)):
        gap = equivariance_gap(
            function, x, signature="m d -> d", groups={"d": groups.O(3)}, samples=200, generator=generator
        )
        assert (gap.p_value > 0.01) is equivariant


@pytest.mark.parametrize("given", [{}, {"signature": "n -> n"}, {"groups": {"n": groups.S()}}])
def test_what_is_none_of_ours_needs_a_signature_and_groups(given: dict) -> None:
    with pytest.raises(SignatureError, match="Expected signature= and groups= for a model that is no Symmetrized"):
        assert_equivariant(lambda x: x, torch.randn(2, 3), **given)


def test_what_does_not_fit_is_refused() -> None:
    bound = {"n": groups.S()}
    with pytest.raises(SignatureError, match="which has its own"):
        assert_equivariant(
            Symmetrized(lambda x: x, "n -> n", bound), torch.randn(2, 3), signature="n -> n", groups=bound
        )
    with pytest.raises(SignatureError, match="the model to be a module or function"):
        assert_equivariant(3, torch.randn(2, 3), signature="n -> n", groups=bound)
    with pytest.raises(ShapeError, match="output 0"):
        assert_equivariant(lambda x: x[:, :2], torch.randn(2, 3), signature="n -> n", groups=bound)


def test_whole_numbers_and_truth_values_are_compared_too() -> None:
    bound, x = {"n": groups.S()}, torch.randn(2, 5)
    for right in (lambda x: (x > 0).long(), lambda x: x > 0):
        assert assert_equivariant(right, x, signature="n -> n", groups=bound).error == 0
        assert equivariance_gap(right, x, signature="n -> n", groups=bound, samples=4).p_value == 1
    with pytest.raises(AssertionError, match="in batch item"):
        assert_equivariant(lambda x: (x > x[:, :1]).long(), x, signature="n -> n", groups=bound)


# draws that rounding may decide


class Given(nn.Module):
    perturbs = ()

    def __init__(self, **features: torch.Tensor) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> Features:
        return Features(**{name: feature.unsqueeze(1) for name, feature in self.features.items()})


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
    read = "m d:point" if "point" in group.kinds else "m d"
    assert flags(f"{read} -> d", {"d": group}, torch.zeros(3, 1, 2), vectors=vectors) == [False, True, False]
