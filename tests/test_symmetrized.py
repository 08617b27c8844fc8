"""`Symmetrized` against a literal oracle, and everything that is done to a module around it."""

import copy
import math

import pytest
import torch
from torch import nn

from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.errors import DeviceError, DtypeError, NonFiniteError, ProbsymError
from probsym.ops import SoftSort
from tests.symmetrized_cases import SAMPLERS, SETTINGS, applies, make_inputs, make_model

HOLES = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)
OTHER = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]], dtype=torch.bool)
SIZES = {"n": 5, "m": 5, "q": 4, "c": 2, "e": 2, "k": 3, "d": 3}
S, E, SE = groups.S(), groups.E(3), groups.SE(3)

ORACLE = {  # name: signature, groups, masks, whether the mask is given as a tensor
    "S": ("n c, n n -> n c, n n, k, ", {"n": S}, {"n": HOLES}, True),
    "S of order 3": ("n c n, n -> n n n, n", {"n": S}, {"n": HOLES}, False),
    "E": ("m d:point, m d, m c -> d:point, d, d:axial, d d, m d:point, k", {"d": E}, {"m": HOLES}, False),
    "E, axes in another order": ("c m, d:point m -> d:point m, m d", {"d": E}, {"m": HOLES}, False),
    "E without points": ("m d, d d -> m d, d d, k", {"d": E}, {"m": HOLES}, False),
    "two points": ("d:point, m d:point -> d:point, m d:point, d", {"d": E}, {"m": HOLES}, False),
    "axial": ("m d:axial -> d:axial, d", {"d": groups.O(3)}, {"m": HOLES}, False),
    "S x SE": (
        "n d:point, n d, n n e -> n d:point, n d, n d:axial, n d d, d:point, ",
        {"n": S, "d": SE},
        {"n": HOLES},
        True,
    ),
    "two masks": ("n c, q e, n q -> n q, q, n", {"n": S}, {"n": HOLES, "q": OTHER}, False),
    "unbound mask": ("n c, q e -> n, q e", {"n": S}, {"q": OTHER}, False),
    "S x S": ("n q -> n q, q n", {"n": S, "q": S}, {"n": HOLES, "q": OTHER}, False),
    "S beside no axis": ("n c, k -> k, n k", {"n": S}, {"n": HOLES}, True),
    "no group": ("q c -> q, c, ", {}, {"q": OTHER}, False),
}


class Probe(nn.Module):
    """Any function of everything it is given, which it also writes down."""

    def __init__(self, signature: str) -> None:
        super().__init__()
        self.shapes = [_shape(term) for term in signature.split("->")[1].split(",")]
        self.seen: list = []

    def forward(self, *inputs, mask=None):
        masks = list(mask.values()) if isinstance(mask, dict) else [] if mask is None else [mask]
        self.seen.append((inputs, mask))
        dtype = next((x.dtype for x in inputs if x.is_floating_point()), torch.float32)
        flat = torch.cat([x.flatten(1).to(dtype) for x in (*inputs, *masks)], 1)
        outputs = []
        for i, shape in enumerate(self.shapes):
            width = math.prod(shape)
            generator = torch.Generator().manual_seed(i)
            weight = torch.randn(flat.shape[1], width, generator=generator, dtype=torch.float64).to(dtype)
            outputs.append((0.3 * flat @ weight).tanh().reshape(len(flat), *shape))
        return outputs


def _names(term: str) -> list[str]:
    return [axis.partition(":")[0] for axis in term.split()]


def _shape(term: str) -> tuple[int, ...]:
    return tuple(SIZES[name] for name in _names(term))


def inputs_of(signature: str, dtype: torch.dtype, masks: dict, junk: float | None, seed: int = 0) -> list[torch.Tensor]:
    generator, inputs = torch.Generator().manual_seed(seed), []
    for term in signature.split("->", maxsplit=1)[0].split(","):
        x = torch.randn(3, *_shape(term), generator=generator, dtype=torch.float64).to(dtype)
        if junk is not None:
            x = _where_real(x, term, masks, junk)
        inputs.append(x)
    return inputs


def _where_real(x, term, masks, value, batch=1):
    for place, name in enumerate(_names(term), start=batch):
        if name in masks:
            shape = [1] * x.dim()
            shape[:batch] = masks[name].shape[:-1]
            shape[place] = x.shape[place]
            x = torch.where(masks[name].reshape(shape), x, torch.tensor(value, dtype=x.dtype))
    return x


def _along(matrix, x, place):
    return torch.tensordot(matrix.to(x.dtype), x, ([1], [place])).movedim(0, place)


def _matrices(elements, masks, b, k):
    """The matrix of every axis that moves: permutations, rotations, and the packing of what is only masked."""
    matrices = {}
    for key, g in elements.items():
        element = g[b, k]
        if element.dim() == 1:
            matrices[key] = torch.zeros(len(element), len(element), dtype=torch.float64)
            for position, place in enumerate(element.tolist()):
                matrices[key][place, position] = 1
        else:
            matrices[key] = element[:, : len(element)].double()
    for name, mask in masks.items():
        if name not in matrices:
            order = [i for i, real in enumerate(mask[b].tolist()) if real]
            order += [i for i, real in enumerate(mask[b].tolist()) if not real]
            matrices[name] = torch.eye(len(order), dtype=torch.float64)[order].T
    return matrices


def oracle(base, signature, inputs, masks, elements, draws, as_tensor):
    """`rho(g) f(rho(g)^-1 x)` for every batch item and draw, one at a time, by matrices."""
    left, right = (side.split(",") for side in signature.split("->"))
    rows = []
    for b in range(len(inputs[0])):
        real = {name: mask[b] for name, mask in masks.items()}
        clean = [_where_real(x[b].double(), term, real, 0.0, batch=0) for x, term in zip(inputs, left, strict=True)]
        centre = {}
        for i, term in enumerate(left):
            for place, axis in enumerate(term.split()):
                if axis.endswith(":point"):
                    name = _names(term)[place]
                    others = [other for other in range(clean[i].dim()) if other != place]
                    count = math.prod(
                        int(real[_names(term)[o]].sum()) if _names(term)[o] in real else clean[i].shape[o]
                        for o in others
                    )
                    centre.setdefault(name, clean[i].sum(others) / count if others else clean[i])
                    shape = [1] * clean[i].dim()
                    shape[place] = -1
                    clean[i] = _where_real(clean[i] - centre[name].reshape(shape), term, real, 0.0, batch=0)
        for k in range(draws):
            matrices = _matrices(elements, masks, b, k)
            packed = {
                name: torch.arange(len(mask)) < mask.sum() for name, mask in real.items()
            }  # real items first, whatever the order

            def moved(x, term, undo, matrices=matrices):
                for place, axis in enumerate(term.split()):
                    name, _, kind = axis.partition(":")
                    if name in matrices:
                        m = matrices[name] * (torch.linalg.det(matrices[name]) if kind == "axial" else 1)
                        x = _along(m.T if undo else m, x, place)
                return x

            seen = [moved(x, term, True).unsqueeze(0) for x, term in zip(clean, left, strict=True)]
            mask = {name: flags.unsqueeze(0) for name, flags in packed.items()}
            outputs = base(*seen, mask=(next(iter(mask.values())) if as_tensor else mask) if mask else None)
            row = []
            for y, term in zip(outputs, right, strict=True):
                out = moved(_where_real(y[0], term, packed, 0.0, batch=0), term, False)
                for place, axis in enumerate(term.split()):
                    if axis.endswith(":point"):
                        shape = [1] * out.dim()
                        shape[place] = -1
                        out = out + centre[_names(term)[place]].reshape(shape)
                row.append(_where_real(out, term, real, 0.0, batch=0))
            rows.append(row)
    return [torch.stack(values).unflatten(0, (len(inputs[0]), draws)) for values in zip(*rows, strict=True)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("masking", ["none", "zero", "garbage"])
@pytest.mark.parametrize("name", ORACLE)
@pytest.mark.filterwarnings("ignore:Expected an input with 'd.point'")
def test_oracle(name: str, masking: str, dtype: torch.dtype) -> None:
    signature, bound, masks, as_tensor = ORACLE[name]
    masks = {} if masking == "none" else masks
    inputs = inputs_of(signature, dtype, masks, {"none": None, "zero": 0.0, "garbage": float("nan")}[masking])
    mask = None if not masks else next(iter(masks.values())) if as_tensor else masks
    probe = Probe(signature)
    model = Symmetrized(probe, signature, bound, samples=3)
    noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(1))
    draws = 3 if bound else 1
    wanted = oracle(Probe(signature), signature, inputs, masks, noise.elements, draws, as_tensor)
    estimate = model.estimate(*inputs, mask=mask, noise=noise, keep_values=True)
    tolerance = {"atol": 1e-12, "rtol": 1e-12} if dtype == torch.float64 else {"atol": 2e-5, "rtol": 1e-5}
    for values, want in zip(estimate.values, wanted, strict=True):
        torch.testing.assert_close(values.double(), want, **tolerance)
    for outputs in (estimate.mean, model(*inputs, mask=mask, noise=noise)):
        for y, want in zip(outputs, wanted, strict=True):
            assert y.dtype == dtype
            torch.testing.assert_close(y.double(), want.mean(1), **tolerance)
    for seen, mask_seen in probe.seen:  # what the base was given
        assert isinstance(mask_seen, torch.Tensor if as_tensor else dict) if masks else mask_seen is None
        given = {next(iter(masks)): mask_seen} if masks and as_tensor else mask_seen or {}
        for axis, packed in given.items():
            counts = masks[axis].sum(1).repeat_interleave(draws)
            assert torch.equal(packed, torch.arange(packed.shape[1]) < counts[:, None])
        for x, term in zip(seen, signature.split("->")[0].split(","), strict=True):
            assert x.shape[0] == 3 * draws
            assert torch.equal(x, _where_real(x, term, given, 0.0))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8])
def test_inputs_that_are_not_floating(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (3, 5, 5), generator=torch.Generator().manual_seed(0)).to(dtype)
    probe = Probe("n n -> n, n n")
    model = Symmetrized(probe, "n n -> n, n n", {"n": S}, samples=3)
    noise = model.noise(x, mask=HOLES)
    outputs = model(x, mask=HOLES, noise=noise)
    assert probe.seen[0][0][0].dtype == dtype
    clean = torch.where(HOLES[:, None] & HOLES[:, :, None], x, 0)
    wanted = oracle(Probe("n n -> n, n n"), "n n -> n, n n", [clean], {"n": HOLES}, noise.elements, 3, True)
    for y, want in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(y.double(), want.mean(1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_counted_outputs_are_averaged_not_truncated(dtype: torch.dtype) -> None:
    """A share of true draws is a number between 0 and 1; a base that returns integers may also be refused."""
    x = torch.tensor([[1.0, -1.0, -1.0, -1.0]])
    model = Symmetrized(lambda x: (x[:, 0] > 0).to(dtype), "n ->", {"n": S}, samplers.Enumerate())
    try:
        output = model(x)
    except ProbsymError:
        return
    torch.testing.assert_close(output.float(), torch.tensor([0.25]))


def test_draws_fold_interleaved() -> None:
    seen = []
    model = Symmetrized(lambda x, k: seen.append(k) or k, "n c, k -> k", {"n": S}, samples=4)
    model(torch.randn(3, 5, 2), torch.arange(3.0)[:, None])
    assert seen[0].flatten().tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4


@pytest.mark.parametrize("group", [groups.E(3), groups.SE(3)])
def test_points_follow_translations_and_vectors_do_not(group: groups.Group) -> None:
    signature = "n d:point, n d -> n d:point, n d, d:point, k"
    x, v = inputs_of(signature, torch.float64, {}, None)
    model = Symmetrized(Probe(signature), signature, {"n": S, "d": group}, samples=3)
    noise, shift = model.noise(x, v), torch.tensor([5.0, -3.0, 100.0], dtype=torch.float64)
    here, there = model(x, v, noise=noise), model(x + shift, v, noise=noise)
    for y, z, moves in zip(here, there, (True, False, True, False), strict=True):
        torch.testing.assert_close(z, y + shift if moves else y, atol=1e-10, rtol=1e-10)


def test_large_translations_in_float32() -> None:
    signature = "n d:point -> n d, n d:point"
    x = (inputs_of(signature, torch.float64, {}, None)[0] + 1e4).float()
    model = Symmetrized(Probe(signature), signature, {"n": S, "d": groups.SE(3)}, samples=3)
    noise = model.noise(x, generator=torch.Generator().manual_seed(0))
    wanted = oracle(Probe(signature), signature, [x], {}, noise.elements, 3, True)
    vectors, points = model(x, noise=noise)
    assert (vectors - wanted[0].mean(1)).abs().max() < 2e-3  # the inputs themselves are known to 5e-4
    assert (points - wanted[1].mean(1)).abs().max() < 3e-3


def test_several_masks_reach_the_sampler_that_reads_one() -> None:
    """A net reads the axis it scores; the mask of another axis is none of its business."""
    x, y = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0)), torch.randn(3, 4, 2)
    model = Symmetrized(
        lambda x, y: x[:, 0], "n c, q e -> c", {"n": S}, samplers.Learned(nets.DeepSets(2), reads=(0,)), samples=3
    )
    noise = model.noise(x, y, mask={"n": HOLES, "q": OTHER})
    output = model(x, y, mask={"n": HOLES, "q": OTHER}, noise=noise)
    torch.testing.assert_close(output, model(x, y, mask={"n": HOLES}, noise=noise))


def test_the_mask_of_another_axis_is_not_the_nets() -> None:
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    model = Symmetrized(
        lambda x, y: x[:, 0], "n c, m e -> c", {"n": S}, samplers.Learned(nets.DeepSets(2), reads=(0,)), samples=50
    )
    noise = model.noise(x, x, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x, x, mask={"m": HOLES}, noise=noise), model(x, x, noise=noise))


# ---------------------------------------------------------------------------------------------- draws and chunks


def small(sampler: str = "Learned", setting: str = "S", dtype: torch.dtype = torch.float64, masking: str = "holes"):
    case = SETTINGS[setting]
    inputs, mask = make_inputs(case, dtype, masking, torch.Generator().manual_seed(0))
    return make_model(case, case.outputs[1], sampler, dtype), inputs, mask


def cases(*settings: str) -> list[tuple[str, str]]:
    """These settings with every sampler that there is for them."""
    return [(setting, sampler) for setting in settings for sampler in SAMPLERS if applies(setting, sampler)]


def test_numbers_of_draws() -> None:
    rows = []
    model = Symmetrized(lambda x: rows.append(len(x)) or x[:, 0], "n c -> c", {"n": S}, samples=2, eval_samples=5)
    x = torch.randn(3, 4, 2)
    model(x), model(x, samples=7), model.eval()(x), model(x, samples=1), model.estimate(x)
    assert rows == [6, 21, 15, 3, 15]
    model.eval_samples = None
    model(x)
    assert rows[-1] == 6
    assert Symmetrized(lambda x: x, "n ->  n", {"n": S}).samples == 1


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("training", [False, True])
def test_chunks_change_nothing(sampler: str, training: bool) -> None:
    model, inputs, mask = small(sampler, "S" if applies("S", sampler) else "E(3)")
    model.samples = 7
    noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))
    model.train(training)
    results = []
    for chunk in (None, 1, 2, 3, 6, 7, 50):
        model.chunk = chunk
        model.zero_grad()
        y = model(*inputs, mask=mask, noise=noise)
        y.square().sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        estimate = model.estimate(*inputs, mask=mask, noise=noise, keep_values=True)
        (elements,) = estimate.elements.values()
        results.append(
            (y, gradient, estimate.mean, estimate.stderr, estimate.values, elements, *estimate.losses.values())
        )
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-8, equal_nan=True)


@pytest.mark.parametrize("sampler", [None, samplers.Enumerate(), samplers.Frame("sort"), samplers.Frame(exact=False)])
@pytest.mark.parametrize("training", [False, True])
def test_chunks_bound_what_the_base_sees(sampler: samplers.Sampler | None, training: bool) -> None:
    rows = []
    samples = 1 if isinstance(sampler, samplers.Enumerate) else 6
    model = Symmetrized(lambda x: rows.append(len(x)) or x[:, 0], "n -> ", {"n": S}, sampler, samples, chunk=2)
    model.train(training)
    model(torch.zeros(1, 4))
    assert max(rows) <= 2


class Norms(torch.nn.Sequential):
    """A base with everything that a second call could disturb: dropout, and norms that remember."""

    def __init__(self) -> None:
        super().__init__(
            torch.nn.Linear(4, 64),
            torch.nn.BatchNorm1d(64),
            torch.nn.Dropout(0.5),
            torch.nn.Tanh(),
            torch.nn.Linear(64, 1),
        )
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


def test_training_in_chunks_keeps_little_and_gives_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    x, results = torch.randn(3, 4, dtype=torch.float64), []
    for recompute in (False, True):
        torch.manual_seed(0)
        base = Norms().double()
        model = Symmetrized(base, "n -> k", {"n": S}, samples=20, chunk=2)
        kept: dict[int, int] = {}
        with monkeypatch.context() as patch:
            if not recompute:
                patch.setattr("probsym._internal.base_call.can_recompute", lambda device: False)
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t, kept=kept: kept.update({t.data_ptr(): t.nbytes}) or t, lambda t: t
            ):
                loss = model(x, generator=torch.Generator().manual_seed(0)).square().sum()
            in_memory = sum(kept.values())
            loss.backward()
        gradients = [parameter.grad for parameter in base.parameters()]
        results.append((base.calls, in_memory, gradients, [buffer.clone() for buffer in base.buffers()], torch.rand(3)))
    (calls, whole, *others), (calls_again, little, *others_again) = results
    assert (calls, calls_again) == (10, 20)
    assert little < whole / 10
    torch.testing.assert_close(others_again, others, atol=1e-12, rtol=1e-12)


def test_second_derivatives_in_chunks() -> None:
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    model = Symmetrized(base, "n -> k", {"n": S}, samples=6)
    x, derivatives = torch.randn(3, 4, dtype=torch.float64, requires_grad=True), []
    for model.chunk in (None, 2):
        y = model(x, generator=torch.Generator().manual_seed(0)).sum()
        (force,) = torch.autograd.grad(y, x, create_graph=True)
        derivatives.append(torch.autograd.grad(force.square().sum(), [x, *base.parameters()], allow_unused=True))
    for whole, chunked in zip(*derivatives, strict=True):
        assert (whole is None) == (chunked is None)
        if whole is not None:
            torch.testing.assert_close(chunked, whole, atol=1e-12, rtol=1e-12)


def test_a_single_chunk_is_not_computed_twice() -> None:
    base = Norms()
    Symmetrized(base, "n -> k", {"n": S}, samples=4, chunk=4)(torch.randn(3, 4)).sum().backward()
    assert base.calls == 1


@pytest.mark.parametrize("sampler", [samplers.Frame(), samplers.Frame(exact=False)])
def test_chunks_bound_what_the_base_sees_of_a_frame(sampler: samplers.Sampler) -> None:
    rows = []
    samples, bound = 1 if sampler.exact else 6, {"d": groups.O(3)}
    model = Symmetrized(lambda x: rows.append(len(x)) or x[:, 0, 0], "m d -> ", bound, sampler, samples, chunk=2)
    model.eval()(torch.randn(1, 5, 3))
    assert max(rows) <= 2


@pytest.mark.parametrize(("setting", "sampler"), cases("S", "S x SE(3)", "D(4) on images"))
def test_generators(setting: str, sampler: str) -> None:
    model, inputs, mask = small(sampler, setting)
    state = torch.get_rng_state()
    first, again, other = (model(*inputs, mask=mask, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    model.estimate(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))
    model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    if sampler in ("Haar", "Learned", "FromHaar") or (sampler.startswith("Energy") and "SE(3)" in setting):
        assert not torch.equal(first, other)
    elif sampler != "Frame draws":
        torch.testing.assert_close(first, other, atol=1e-10, rtol=1e-8)
    noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(*inputs, mask=mask, noise=noise), first, atol=0, rtol=0)


def test_fixed_noise_belongs_to_the_index() -> None:
    sampler = samplers.Learned(nets.DeepSets(2), fixed_noise=True)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": S}, sampler, samples=6).eval()
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([4, 0, 9])
    values = model.estimate(x, index=ids, keep_values=True).values
    backwards = model.estimate(x.flip(0), index=ids.flip(0), keep_values=True, chunk=4).values
    assert torch.equal(values, backwards.flip(0))
    more = model.estimate(x, index=ids, keep_values=True, samples=4, tol=1e-9, max_samples=8).values
    assert torch.equal(more[:, :6], values)
    assert not torch.equal(values, model.estimate(x, index=ids + 1, keep_values=True).values)


# ------------------------------------------------------------------------------------- modules, dtypes, precision


def test_no_sinkhorn_in_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, mask = small()
    monkeypatch.setattr(SoftSort, "prepared", lambda self: pytest.fail("relaxed"))
    with torch.no_grad():
        model(*inputs, mask=mask)
        model.estimate(*inputs, mask=mask)


def test_parameters_and_state() -> None:
    model, inputs, mask = small()
    names = dict(model.named_parameters())
    assert any(name.startswith("base.") for name in names)
    assert any(name.startswith("sampler.net.") for name in names)
    fresh = make_model(SETTINGS["S"], SETTINGS["S"].outputs[1], "Learned", torch.float64, seed=5)
    noise = model.noise(*inputs, mask=mask)
    wanted = model(*inputs, mask=mask, noise=noise)
    assert not torch.allclose(fresh(*inputs, mask=mask, noise=noise), wanted)
    fresh.load_state_dict(model.state_dict())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for copied in (fresh, twin):
        assert torch.equal(copied(*inputs, mask=mask, noise=noise), wanted)


def test_one_sampler_in_two_models() -> None:
    sampler = samplers.Learned(nets.DeepSets(2))
    x = torch.randn(3, 5, 2)
    first = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": S}, sampler)
    second = Symmetrized(
        lambda x, y: x[:, 0] + y, "n c, c -> c", {"n": S}, sampler=samplers.Learned(sampler.net, reads=(0,))
    )
    third = Symmetrized(lambda x: x, "n c -> n c", {"n": S}, sampler, samples=3)
    noise = first.noise(x)
    wanted = first(x, noise=noise)
    torch.testing.assert_close(third(x), x)
    torch.testing.assert_close(second(x, x[:, 0], noise=noise), wanted + x[:, 0])
    assert torch.equal(first(x, noise=noise), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("setting", "sampler"), cases("S", "E(3)", "S x SE(3)"))
def test_dtypes(setting: str, sampler: str, dtype: torch.dtype) -> None:
    model, inputs, mask = small(sampler, setting, torch.float64)
    model.float().to(dtype)
    inputs = [x.to(dtype) for x in inputs]
    y = model(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))
    assert y.dtype == dtype
    assert y.isfinite().all()
    assert all(
        p.dtype == (dtype if torch.finfo(dtype).bits >= 32 else torch.float32) for p in model.sampler.parameters()
    )
    if torch.finfo(dtype).bits == 64 or (setting != "S" and sampler != "Haar"):
        return  # other random numbers; or points centred in half precision, which may change a net's choice
    reference = copy.deepcopy(model).float()  # the same rounded parameters
    wanted = reference(*(x.float() for x in inputs), mask=mask, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(y.float(), wanted, atol=max(8 * torch.finfo(dtype).eps, 1e-6), rtol=0)


@pytest.mark.parametrize("steps", [(torch.float64, torch.float16), (torch.float64, torch.bfloat16, torch.float32)])
def test_conversion_by_way_of_float64(steps: tuple[torch.dtype, ...]) -> None:
    model, inputs, mask = small(dtype=torch.float32)
    for dtype in steps:
        model.to(dtype)
    assert model(*(x.to(steps[-1]) for x in inputs), mask=mask).dtype == steps[-1]


def test_float64_model_of_integers() -> None:
    sampler = samplers.Learned(nets.GIN(0, hidden=4, layers=1))
    model = Symmetrized(bases.MLP([25, 3]), "n n -> k", {"n": S}, sampler, samples=2).double()
    assert model(torch.ones(3, 5, 5, dtype=torch.bool)).dtype == torch.float64


def test_autocast() -> None:
    case, seen = SETTINGS["S x SE(3)"], []
    inputs, mask = make_inputs(case, torch.float32, "holes", torch.Generator().manual_seed(0))
    model = make_model(case, "n d:point", "Learned", torch.float32)
    for module in model.sampler.net.modules():
        module.register_forward_hook(lambda module, inputs, out: seen.append(torch.is_autocast_enabled("cpu")))
    model.base.layers[0].register_forward_hook(lambda module, inputs, out: seen.append(out.dtype))
    noise = model.noise(*inputs, mask=mask)
    plain = model.estimate(*inputs, mask=mask, noise=noise)
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        cast = model.estimate(*inputs, mask=mask, noise=noise)
        model(*inputs, mask=mask).float().sum().backward()
    assert set(seen) == {False, torch.bfloat16}
    assert all(torch.equal(cast.elements[key], plain.elements[key]) for key in plain.elements)
    torch.testing.assert_close(cast.mean.float(), plain.mean, atol=5e-2, rtol=5e-2)
    gradients = [p.grad for p in model.sampler.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.dtype == torch.float32 and gradient.isfinite().all() for gradient in gradients)


def test_autocast_with_outputs_of_two_precisions() -> None:
    """As on a GPU, where autocast leaves logits in half precision and their softmax in float32."""
    linear = nn.Linear(8, 3).requires_grad_(False)
    model = Symmetrized(lambda x: (linear(x.flatten(1)), linear(x.flatten(1)).float()), "n c -> k, k", {"n": S})
    with torch.autocast("cpu", torch.bfloat16):
        first, second = model(torch.randn(2, 4, 2))
    assert (first.dtype, second.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(("setting", "sampler"), cases("S", "E(3)", "S x SE(3)"))
def test_one_of_everything(setting: str, sampler: str) -> None:
    """Batch of one, one item, one draw."""
    case = SETTINGS[setting]
    model, inputs, _ = small(sampler, setting, torch.float32, "none")
    model.samples = 1
    assert model(*(x[:1] for x in inputs)).shape[0] == 1
    if sampler in ("Canonical", "Learned", "Haar") and setting == "S":
        identity = Symmetrized(lambda x, a: x, "n c, n n -> n c", case.groups, model.sampler)
        x = inputs[0][:1, :1]
        assert torch.equal(identity(x, inputs[1][:1, :1, :1]), x)
        assert torch.equal(
            identity(inputs[0], inputs[1], mask=torch.arange(5).expand(3, -1) == 2)[:, 2], inputs[0][:, 2]
        )


@pytest.mark.parametrize("signature", ["n c, n n -> n c", "n d:point, n d -> n d:point", "n d:point -> d d"])
def test_gradcheck(signature: str) -> None:
    bound = {"n": S, "d": groups.E(3)} if "d" in signature else {"n": S}
    inputs = [x.requires_grad_() for x in inputs_of(signature, torch.float64, {}, None)]
    model = Symmetrized(lambda *x: Probe(signature)(*x)[0], signature, bound, samples=2)
    noise = model.noise(*inputs, mask=HOLES)
    assert torch.autograd.gradcheck(lambda *x: model(*x, mask=HOLES, noise=noise), inputs, fast_mode=True)


@pytest.mark.parametrize("sampler", ["Canonical", "Learned", "FromHaar"])
@pytest.mark.parametrize("setting", ["S", "S x SE(3)", "D(4)"])
def test_gradients_reach_inputs_and_net(sampler: str, setting: str) -> None:
    model, inputs, mask = small(sampler, setting)
    inputs = [x.requires_grad_() for x in inputs]
    model.train()(*inputs, mask=mask).square().sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() and x.grad.abs().max() > 0 for x in inputs)
    grads = [p.grad for p in model.sampler.net.parameters()]
    assert (
        sum(g is not None and g.isfinite().all().item() and g.abs().max().item() > 0 for g in grads) >= len(grads) // 2
    )


# ------------------------------------------------------------------------------------------- compile

COMPILED = [  # besides those of test_compiled_epochs.py
    ("S x SE(3)", "Haar"),
    ("S x SE(3)", "Learned"),
    ("S", "FromHaar"),
    ("O(2)", "Quadrature"),
    ("D(4)", "Energy soft"),
    ("Signs", "Learned"),
    ("Shift", "Haar"),
    ("Icosahedral", "Haar"),
]


def _compiled(model, inputs, mask, **options):
    torch._dynamo.reset()
    noise = model.noise(*inputs, mask=mask)
    results = []
    for call in (model, torch.compile(model, **options)):
        model.zero_grad()
        y = call(*inputs, mask=mask, noise=noise)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the compiler itself runs into
@pytest.mark.slow
@pytest.mark.parametrize(("setting", "sampler"), COMPILED)
def test_compile_in_one_graph(setting: str, sampler: str) -> None:
    model, inputs, mask = small(sampler, setting)
    _compiled(model, inputs, mask, backend="aot_eager", fullgraph=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of graph breaks
@pytest.mark.parametrize(("setting", "sampler"), [("S x SE(3)", "Frame"), ("D(4)", "Energy")])
def test_compile(setting: str, sampler: str) -> None:
    model, inputs, mask = small(sampler, setting)
    _compiled(model, inputs, mask, backend="aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of inductor's own
def test_compile_by_inductor() -> None:
    sampler = samplers.Learned(nets.DeepSets(2, hidden=4))
    model = Symmetrized(nn.Sequential(nn.Flatten(), nn.Linear(10, 3)), "n c -> k", {"n": S}, sampler, samples=3)
    _compiled(model.double(), [torch.randn(3, 5, 2, dtype=torch.float64)], None)


def test_points_far_away_keep_their_digits_under_autocast() -> None:
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0)) + 100
    model = Symmetrized(nn.Sequential(nn.Flatten(), nn.Linear(15, 3)), "n d:point -> d:point", {"d": groups.SE(3)})
    noise = model.noise(x, samples=4)
    with torch.autocast("cpu", torch.bfloat16):
        estimate = model.estimate(x, noise=noise, keep_values=True)
    assert estimate.mean.dtype == estimate.values.dtype == torch.float32
    for y in (estimate.mean, estimate.values.mean(1)):
        torch.testing.assert_close(y, model(x, noise=noise), atol=0.03, rtol=0)


def test_draws_can_be_asked_of_a_frame_that_would_be_listed() -> None:
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": groups.O(3)}, samplers.Frame())
    assert model.estimate(x).samples == 8
    estimate = model.estimate(x, samples=500, generator=torch.Generator().manual_seed(1))
    assert estimate.samples == 500
    assert ((estimate.mean - model(x)).abs() < 5 * estimate.stderr + 1e-6).all()
    assert model(x, samples=2).shape == (4, 3)


def test_weights_of_listed_frames_are_reported() -> None:
    path, cycle = torch.zeros(2, 4, 4)
    for i in range(3):
        path[i, i + 1] = path[i + 1, i] = cycle[i, i + 1] = cycle[i + 1, i] = 1
    cycle[0, 3] = cycle[3, 0] = 1
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", {"n": S}, samplers.Frame())
    estimate = model.estimate(torch.stack([path, cycle]), keep_values=True)
    assert estimate.weights.shape == estimate.values.shape[:2]
    torch.testing.assert_close((estimate.values * estimate.weights.unsqueeze(-1).float()).sum(1), estimate.mean)


def test_any_keyword_is_no_mask_where_none_is_given() -> None:
    seen = []

    def base(x, **options):
        seen.append(options)
        return x[:, 0]

    model, x = Symmetrized(base, "n c -> c", {"n": S}), torch.randn(2, 4, 3)
    model(x)
    model(x, mask=torch.ones(2, 4, dtype=torch.bool))
    assert [set(options) for options in seen] == [set(), {"mask"}]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the compiler itself runs into
def test_compile_a_training_step_that_draws_for_itself() -> None:
    model, inputs, mask = small("Learned", "S", torch.float32)
    estimator = model.train().estimator()

    def loss() -> torch.Tensor:
        estimate = estimator(*inputs, mask=mask)
        return estimate.mean.square().sum() + estimate.losses["entropy"]

    torch._dynamo.reset()
    torch.compile(loss, backend="aot_eager", fullgraph=True)().backward()
    gradients = [parameter.grad for parameter in model.sampler.parameters() if parameter.requires_grad]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0


# an input that is added after the average

RESIDUAL = {  # name: signature, groups, axis with a mask
    "S": ("n c, n n -> n c", {"n": S}, "n"),
    "O": ("m d, m c -> m d", {"d": groups.O(3)}, "m"),
    "E": ("m c, m d:point, m d -> m d:point", {"d": E}, "m"),
    "S x SE": ("n d, n d:point, n n e -> n d:point", {"n": S, "d": SE}, "n"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", RESIDUAL)
def test_the_residual_is_what_adding_it_in_the_base_would_give(name: str, masked: bool, dtype: torch.dtype) -> None:
    signature, bound, axis = RESIDUAL[name]
    masks = {axis: HOLES} if masked else {}
    inputs = inputs_of(signature, dtype, masks, junk=7.0 if masked else None)
    place = 0 if name in ("S", "O") else 1
    probe = Probe(signature)
    inside = Symmetrized(lambda *x, mask=None: x[place] + probe(*x, mask=mask)[0], signature, bound, samples=6)
    outside = Symmetrized(probe, signature, bound, samples=6, residual=place)
    noise = outside.noise(*inputs, mask=masks or None)
    estimate, wanted = (
        model.estimate(*inputs, mask=masks or None, noise=noise, keep_values=True) for model in (outside, inside)
    )
    close = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.float64: {"rtol": 1e-10, "atol": 1e-10}}[dtype]
    torch.testing.assert_close(estimate.mean, wanted.mean, **close)
    torch.testing.assert_close(estimate.values, wanted.values, **close)
    torch.testing.assert_close(estimate.values.mean(1), estimate.mean, **close)
    torch.testing.assert_close(outside(*inputs, mask=masks or None, noise=noise), estimate.mean)
    # what is added is the same in every draw, so the error is that of the average of what the base returned
    deviations = estimate.values.std(1) / 6**0.5
    torch.testing.assert_close(estimate.stderr, deviations, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", RESIDUAL)
def test_a_base_of_zeros_gives_the_residual_back_exactly(name: str) -> None:
    signature, bound, axis = RESIDUAL[name]
    place = 0 if name in ("S", "O") else 1
    inputs = inputs_of(signature, torch.float32, {}, junk=None)
    inputs[place] = inputs[place] + 1000.0
    model = Symmetrized(lambda *x: torch.zeros_like(x[place]), signature, bound, samples=3, residual=place)
    assert torch.equal(model(*inputs), inputs[place])
    output = model(*inputs, mask={axis: HOLES})
    assert torch.equal(output[HOLES], inputs[place][HOLES])
    assert not output[~HOLES].any()


def test_no_gradient_of_the_residual_goes_through_the_sorts() -> None:
    net = nets.DeepSets(2, 8)
    sampler = samplers.Learned(net, noise=1.0, tau=0.1)
    x = torch.randn(3, 5, 2)
    still = Symmetrized(lambda x: 0 * x, "n c -> n c", {"n": S}, sampler, samples=4, residual=0)
    inside = Symmetrized(lambda x: x, "n c -> n c", {"n": S}, sampler, samples=4)
    noise, grads = still.noise(x), []
    for model in (still, inside):
        net.zero_grad()
        model(x, noise=noise).square().sum().backward()
        grads.append(
            max(float(parameter.grad.abs().max()) for parameter in net.parameters() if parameter.grad is not None)
        )
    assert grads[0] == 0
    assert grads[1] > 1e-4


def test_the_residual_and_the_base_agree_on_a_precision() -> None:
    x = torch.randn(2, 5, 2)
    for given, made, wanted in (
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float64, torch.float32, torch.float64),
    ):
        model = Symmetrized(lambda x, made=made: x.to(made), "n c -> n c", {"n": S}, samples=2, residual=0)
        assert model(x.to(given)).dtype == wanted


@pytest.mark.parametrize(
    ("signature", "residual"),
    [
        ("n c, n n -> n c", 1),
        ("n c, n n -> n c", 2),
        ("n c, n n -> n c", -1),
        ("n c, n n -> n n", True),
        ("n c, n n -> n c", "0"),
        ("n c, n n -> n c, n c", 0),
        ("n c, n n -> n k", 0),
    ],
)
def test_a_residual_that_does_not_fit_is_refused(signature: str, residual: object) -> None:
    with pytest.raises(ProbsymError, match=r"Expected (residual|the output)"):
        Symmetrized(lambda x, a: x, signature, {"n": S}, residual=residual)


def test_the_residual_is_shown() -> None:
    assert "residual=0" in repr(Symmetrized(lambda x: x, "n c -> n c", {"n": S}, residual=0))


@pytest.mark.parametrize("sampler", ["Learned", "Canonical", "Frame", "FromHaar"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_a_sampler_reads_must_be_finite(sampler: str, value: float) -> None:
    made = {
        "Learned": lambda: samplers.Learned(nets.DeepSets(2), reads=(0,)),
        "Canonical": lambda: samplers.Canonical(nets.DeepSets(2), reads=(0,)),
        "Frame": samplers.Frame,
        "FromHaar": lambda: samplers.FromHaar(nets.DeepSets(2), reads=(0,)),
    }[sampler]()
    model = Symmetrized(lambda x, k: k, "n c, k -> k", {"n": S}, made, samples=2)
    x, k, mask = torch.rand(2, 4, 2), torch.full((2, 3), value), torch.ones(2, 4, dtype=torch.bool)
    x[1, 2, 0] = value
    for call in (model, model.estimate):
        with pytest.raises(NonFiniteError, match=r"input 0 \('n c'\) to be finite \(got (nan|inf) at \(1, 2, 0\)\)"):
            call(x, k)
    mask[1, 2] = False
    assert model(x, k, mask=mask).shape == (2, 3)  # padding is not read, nor are other inputs
    model.check_finite = False
    assert model(x, k).shape == (2, 3)


def test_inputs_are_not_looked_at_where_nothing_reads_them_nor_in_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.full((2, 4, 2), math.nan)
    assert Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": S})(x).isnan().all()
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": S}, samplers.Canonical(nets.DeepSets(2)))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert model(x).isnan().all()


def test_complex_outputs_and_inputs_without_numbers_are_refused() -> None:
    model = Symmetrized(lambda x: x[:, 0].to(torch.complex64), "n c -> c", {"n": S})
    with pytest.raises(DtypeError, match=r"Expected output 0 \('c'\) to be real \(got torch.complex64\)"):
        model(torch.zeros(2, 4, 3))
    with pytest.raises(DeviceError, match=r"Expected inputs with numbers in them \(got tensors on the meta device\)"):
        model(torch.zeros(2, 4, 3, device="meta"))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_large_whole_numbers_are_not_rounded(dtype: torch.dtype) -> None:
    large = 2**30 + 1
    model = Symmetrized(lambda x: torch.full((len(x),), large, dtype=dtype), "n ->", {"n": S}, samples=3)
    assert model(torch.zeros(2, 4)).tolist() == [float(large)] * 2
    assert model.estimate(torch.zeros(2, 4)).mean.tolist() == [float(large)] * 2


LISTED = {
    "Enumerate": ("n -> ", {"n": S}, samplers.Enumerate()),
    "Frame of axes": ("n d -> ", {"d": groups.O(3)}, samplers.Frame()),
    "Frame weighted": ("n c -> ", {"n": S}, samplers.Frame(weighted=True)),
    "Energy": ("n -> ", {"n": S}, samplers.Energy(lambda x: x[:, 0])),
    "Quadrature": ("n d -> ", {"d": groups.O(2)}, samplers.Quadrature(2)),
}


@pytest.mark.parametrize("given", [{"samples": 2}, {"eval_samples": 2}], ids=str)
@pytest.mark.parametrize("name", LISTED)
def test_samples_that_change_nothing_warn(name: str, given: dict[str, int]) -> None:
    signature, bound, sampler = LISTED[name]
    with pytest.warns(UserWarning, match=f"for {type(sampler).__name__}, which lists .* change nothing"):
        Symmetrized(lambda x: x.flatten(1).sum(1), signature, bound, sampler, **given)
    Symmetrized(lambda x: x.flatten(1).sum(1), signature, bound, sampler)


@pytest.mark.parametrize("sampler", [samplers.Frame(), samplers.Frame(exact=False)])
def test_samples_of_orders_do_count(sampler: samplers.Sampler) -> None:
    """A frame of orders draws them where they are too many to list."""
    model = Symmetrized(lambda x: x[:, 0, 0], "n c -> ", {"n": S}, sampler, samples=3)
    assert model.estimate(torch.zeros(1, 8, 1)).samples == 3
