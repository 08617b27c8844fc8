"""Calls with a seed: an item's draws are its own, alone, in any batch, at any place, whatever the padding."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from probsym import Symmetrized, errors, groups, nets, samplers
from probsym.nets import Features
from probsym.ops.seeded import Seeded
from tests.symmetrized_cases import CHANNELS, SETTINGS, applies, make_inputs

CASES = {"S": "n", "E(3)": "m", "S x SE(3)": "n", "C(4)": "m"}
SAMPLERS = ("Haar", "Frame", "Frame draws", "Canonical", "Learned", "FromHaar")
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-3}
NEVER = 1e-4


def by_place(x: Tensor) -> Tensor:
    """A number for each row that knows the place of every entry and nothing of padding, which is zero."""
    places = [torch.arange(1, 1 + size, dtype=x.dtype) * (0.7 + 0.4 * i) for i, size in enumerate(x.shape[1:])]
    grid = torch.meshgrid(*places, indexing="ij")
    weights = torch.stack([torch.sin(coordinate + i) for i, coordinate in enumerate(grid)]).prod(0) + torch.cos(grid[0])
    return (x.tanh() * weights).flatten(1).sum(1)


def base(*inputs: Tensor) -> Tensor:
    return sum(map(by_place, inputs), start=inputs[0].new_zeros(())).unsqueeze(1)


class AnyNet(nn.Module):
    """For `FromHaar`: not equivariant, and padding does not change what it says of the rest."""

    def forward(self, *inputs: Tensor) -> Features:
        x = inputs[0]
        wave = torch.sin(torch.arange(1, 1 + x.shape[1], dtype=x.dtype))
        vectors = torch.stack([(x * (wave * k).cos()[:, None]).sum(1) for k in range(1, 1 + x.shape[2])], -1)
        logits = torch.stack([(x[..., 0] * (wave + k).sin()).sum(1) for k in range(4)], -1)
        return Features(scores=x[..., 0] * wave, vectors=vectors, logits=logits)


def equivariant_net(case: str) -> nn.Module:
    if case == "S":
        return nets.GIN(CHANNELS, hidden=8, layers=2)
    if case == "C(4)":
        return nets.Lifted(lambda x: (x.tanh() @ x.new_tensor([1.0, 2.0])).sum(1), groups.C(4))
    return nets.VNDGCNN(2, hidden=24, neighbours=3, scores=case != "E(3)")


def model_for(case: str, sampler: str, dtype: torch.dtype) -> Symmetrized:
    torch.manual_seed(0)
    setting = SETTINGS[case]
    made = {
        "Haar": samplers.Haar,
        "Frame": samplers.Frame,
        "Frame draws": lambda: samplers.Frame(exact=False),
        "Canonical": lambda: samplers.Canonical(equivariant_net(case), reads=setting.reads),
        "Learned": lambda: samplers.Learned(equivariant_net(case), reads=setting.reads, tau=0.1),
        "FromHaar": lambda: samplers.FromHaar(AnyNet(), reads=setting.reads),
    }[sampler]()
    samples = 1 if sampler == "Frame" and "E(3)" in case else 5
    return Symmetrized(base, f"{setting.inputs} -> k", setting.groups, made, samples).to(dtype).eval()


def spread(case: str, inputs: list[Tensor], places: list[list[int]], size: int) -> tuple[list[Tensor], dict]:
    """Items with their entries at such places of an axis that is so long, and its mask; junk everywhere else."""
    name, moved = CASES[case], []
    for x, term in zip(inputs, SETTINGS[case].inputs.split(","), strict=True):
        axes = [i for i, axis in enumerate(term.split()) if axis == name]
        rows = []
        for item, there in zip(x, places, strict=True):
            row = torch.full([size if i in axes else n for i, n in enumerate(item.shape)], 50.0, dtype=x.dtype)
            where = [torch.tensor(there) if i in axes else torch.arange(n) for i, n in enumerate(item.shape)]
            real = tuple(slice(len(there)) if i in axes else slice(None) for i in range(item.dim()))
            row[torch.meshgrid(*where, indexing="ij")] = item[real]
            rows.append(row)
        moved.append(torch.stack(rows))
    mask = torch.zeros(len(places), size, dtype=torch.bool)
    for row, there in zip(mask, places, strict=True):
        row[there] = True
    return moved, {name: mask}


def couplings(sampler: str) -> tuple[str, ...]:
    if sampler in ("Frame", "Canonical"):
        return ("independent",)
    return ("independent", "antithetic", "quasi", *(("stratified",) if "Haar" in sampler else ()))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("case", "sampler"), [(case, sampler) for case in CASES for sampler in SAMPLERS if applies(case, sampler)]
)
def test_an_item_is_the_same_alone_and_in_any_batch(case: str, sampler: str, dtype: torch.dtype) -> None:
    model = model_for(case, sampler, dtype)
    items, _ = make_inputs(SETTINGS[case], dtype, "none", torch.Generator().manual_seed(1))
    seeds = torch.tensor([5, -3, 2**62])
    behind = spread(case, items, [[0, 1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2]], 5)
    between = spread(case, items, [[0, 2, 3, 6, 7], [1, 4, 5, 6], [3, 4, 8]], 9)
    order = [2, 0, 1, 0]
    for coupling in couplings(sampler):
        here = model(*behind[0], mask=behind[1], seed=seeds, coupling=coupling)
        there = model(
            *(x[order] for x in between[0]),
            mask={name: mask[order] for name, mask in between[1].items()},
            seed=seeds[order],
            coupling=coupling,
        )
        torch.testing.assert_close(there, here[order], rtol=0, atol=TOLERANCE[dtype])
        alone = model(*(x[:1] for x in items), seed=5, coupling=coupling)
        torch.testing.assert_close(alone, here[:1], rtol=0, atol=TOLERANCE[dtype])
        drawn, redrawn = (
            model.noise(*behind[0], mask=behind[1], seed=seeds + i, coupling=coupling).tensors() for i in range(2)
        )
        assert not any(torch.equal(a, b) for a, b in zip(drawn, redrawn, strict=True))


@pytest.mark.parametrize("coupling", ["independent", "antithetic"])
def test_a_tolerance_draws_on_and_chunks_change_nothing(coupling: str) -> None:
    model = model_for("S x SE(3)", "Learned", torch.float64)
    items, _ = make_inputs(SETTINGS["S x SE(3)"], torch.float64, "none", torch.Generator().manual_seed(1))
    seeds = torch.tensor([1, 2, 3])
    long = model.estimate(*items, seed=seeds, samples=90, coupling=coupling)
    chunked = model.estimate(*items, seed=seeds, samples=90, coupling=coupling, chunk=7)
    torch.testing.assert_close(chunked.mean, long.mean)
    alone = model.estimate(*(x[1:2] for x in items), seed=2, tol=1e-9, max_samples=90, coupling=coupling)
    assert alone.samples == 90
    torch.testing.assert_close(alone.elements["d"], long.elements["d"][1:2])
    torch.testing.assert_close(alone.mean, long.mean[1:2])
    assert long.elements["d"].flatten(0, 1).flatten(1).unique(dim=0).shape[0] == 270


def test_training_and_the_estimator_take_seeds() -> None:
    model = model_for("S", "FromHaar", torch.float64).train()
    items, _ = make_inputs(SETTINGS["S"], torch.float64, "none", torch.Generator().manual_seed(1))
    before = torch.get_rng_state()
    estimate = model.estimator()(*items, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(estimate.mean, model.eval()(*items, seed=4))
    noise = model.noise(*items, seed=4)
    torch.testing.assert_close(model(*items, noise=noise), estimate.mean)


def test_one_integer_is_the_seed_of_every_item() -> None:
    model = model_for("E(3)", "Haar", torch.float64)
    items, _ = make_inputs(SETTINGS["E(3)"], torch.float64, "none", torch.Generator().manual_seed(1))
    same = [x[:1].expand(3, *x.shape[1:]) for x in items]
    output = model(*same, seed=7)
    assert torch.equal(output, output[:1].expand_as(output))
    assert torch.equal(output, model(*same, seed=torch.full((3,), 7)))
    apart = model(*same, seed=torch.tensor([7, 8, 9]))
    assert apart.unique().numel() == 3


class Words(torch.nn.Module):
    perturbs = (0,)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Features:
        return Features(scores={"n": x.sum(-1), "m": x.sum(-2)})


def test_masks_of_several_axes() -> None:
    """Noise on an array with both axes padded is counted over what is real on both."""
    bound = {"n": groups.S(), "m": groups.S()}
    model = Symmetrized(base, "n m -> k", bound, samplers.Learned(Words()), samples=5)
    x = torch.randn(1, 3, 2, dtype=torch.float64)
    padded = torch.zeros(1, 5, 4, dtype=torch.float64)
    padded[:, [[0], [2], [3]], [1, 2]] = x
    masks = {"n": torch.zeros(1, 5, dtype=torch.bool), "m": torch.zeros(1, 4, dtype=torch.bool)}
    masks["n"][0, [0, 2, 3]], masks["m"][0, 1:3] = True, True
    for coupling in ("independent", "antithetic", "quasi"):
        torch.testing.assert_close(
            model(padded, mask=masks, seed=1, coupling=coupling), model(x, seed=1, coupling=coupling)
        )


# the law


@pytest.mark.parametrize(("normal", "law"), [(True, "norm"), (False, "uniform")])
def test_numbers_have_their_law_and_are_independent(normal: bool, law: str) -> None:
    seeds = torch.arange(-300, 300)
    source = Seeded(seeds, start=3)
    x, y = (source.numbers((600, 20, 3, 2), normal=normal, dtype=torch.float64) for _ in range(2))
    x, y = ((numbers - numbers.mean()) / numbers.std() for numbers in (x, y))
    raw = Seeded(seeds).numbers((600, 20, 3, 2), normal=normal, dtype=torch.float64)
    assert stats.kstest(raw.flatten().numpy(), law).pvalue > NEVER
    pairs = [(x, y), (x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[:, :, 1:], x[:, :, :-1]), (x[..., 0], x[..., 1])]
    for a, b in pairs:
        for left, right in ((a, b), (a.square() - 1, b.square() - 1)):
            score = (left * right).mean() / (left.square() * right.square()).mean().sqrt() * left.numel() ** 0.5
            assert abs(score) < 5


def test_seeded_draws_follow_the_sampler() -> None:
    """Over many seeds an average has the mean and the variance that a generator gives it."""
    torch.manual_seed(0)
    model = Symmetrized(lambda x: x[:, 0, :1].exp(), "n d -> k", {"d": groups.SO(3)}, samples=4)
    x = torch.randn(1, 2, 3, dtype=torch.float64).expand(4000, -1, -1)
    seeded, drawn = (model(x, **source).squeeze(1) for source in ({"seed": torch.arange(4000)}, {}))
    assert stats.ks_2samp(seeded.numpy(), drawn.numpy()).pvalue > NEVER
    radius = float(x[0, 0].norm())  # the first coordinate is uniform on [-radius, radius]
    mean = math.sinh(radius) / radius
    variance = math.sinh(2 * radius) / (2 * radius) - mean**2
    assert abs(seeded.mean() - mean) < 5 * (variance / 4 / 4000) ** 0.5
    assert float(seeded.var()) == pytest.approx(variance / 4, rel=0.15)


# errors


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (1.0, errors.DtypeError, "integer or an int64 tensor .got float"),
        (True, errors.DtypeError, "got bool"),
        (2**63, errors.RangeError, "range of int64"),
        (torch.zeros(3), errors.DtypeError, "int64 .got torch.float32"),
        (torch.zeros(3, dtype=torch.int32), errors.DtypeError, "got torch.int32"),
        (torch.zeros(2, dtype=torch.int64), errors.ShapeError, r"shape \(3,\), one for each item \(got \(2,\)"),
        (torch.tensor(0), errors.ShapeError, r"\(got \(\)"),
        (torch.zeros(3, dtype=torch.int64, device="meta"), errors.DeviceError, "on cpu like input 0 .got meta"),
    ],
)
def test_seeds_that_do_not_fit(seed: object, error: type[Exception], message: str) -> None:
    model = Symmetrized(base, "n d -> k", {"d": groups.O(3)})
    for call in (model, model.estimate, model.noise):
        with pytest.raises(error, match=message):
            call(torch.zeros(3, 4, 3), seed=seed)


def test_a_seed_stands_alone() -> None:
    model, x = Symmetrized(base, "n d -> k", {"d": groups.O(3)}), torch.zeros(3, 4, 3)
    for call in (model, model.estimate, model.noise):
        with pytest.raises(errors.RangeError, match="no generator beside seed"):
            call(x, seed=0, generator=torch.Generator())
    for call in (model, model.estimate):
        with pytest.raises(errors.RangeError, match="no noise beside seed"):
            call(x, seed=0, noise=model.noise(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the compiler itself runs into
def test_compile() -> None:
    torch.compiler.reset()
    model = model_for("E(3)", "Haar", torch.float32)
    items, _ = make_inputs(SETTINGS["E(3)"], torch.float32, "none", torch.Generator().manual_seed(1))
    seeds = torch.tensor([3, 1, 2])
    call = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(call(*items, seed=seeds), model(*items, seed=seeds))
    torch.compiler.reset()
