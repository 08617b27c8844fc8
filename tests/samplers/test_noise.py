"""Noise as a value: cut into parts, and moved by the group."""

import pytest
import torch

from probsym import Signature, Symmetrized, groups, nets, samplers
from probsym.samplers import Batch, Noise, noise

DTYPES = [torch.float64, torch.float32]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def same(actual, wanted, atol=0.0):
    for a, b in zip(actual.tensors(), wanted.tensors(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def models(dtype):
    joint = {"n": groups.S(), "d": groups.SE(3)}
    point = nets.VNDGCNN(2, hidden=24).to(dtype)
    yield (
        Symmetrized(lambda x, v: x[:, 0], "n d:point, n d -> d:point", joint, samplers.Learned(point)),
        [torch.randn(2, 4, 3, dtype=dtype), torch.randn(2, 4, 3, dtype=dtype)],
    )
    lifted = nets.Lifted(lambda x: x.flatten(1)[:, 0], groups.D(4), (-3, -2), "grid")
    yield (
        Symmetrized(lambda x: x[:, 0, 0], "(h w) c -> c", {"h w": groups.D(4)}, samplers.Learned(lifted)),
        [torch.randn(2, 4, 4, 1, dtype=dtype)],
    )
    axial = {"d": groups.SO(2)}
    net = nets.VNDGCNN(1, hidden=24, d=2, scores=False).to(dtype)
    yield (
        Symmetrized(lambda x: x[:, 0], "m d:axial -> d", axial, samplers.Learned(net)),
        [torch.randn(2, 4, 2, dtype=dtype)],
    )
    yield (
        Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.FromHaar(lambda x: x[..., 0])),
        [torch.randn(2, 4, 3, dtype=dtype)],
    )
    yield (
        Symmetrized(lambda x: x[:, 0], "n d:point -> d", joint, samplers.Haar()),
        [torch.randn(2, 4, 3, dtype=dtype)],
    )
    yield (
        Symmetrized(lambda a: a[:, 0], "n n -> n", {"n": groups.S()}, samplers.Learned(nets.GIN(0))),
        [torch.ones(2, 4, 4, dtype=dtype)],
    )


def elements(model, inputs, seed):
    generator, sizes = seeded(seed), model.signature.check_inputs(inputs)
    drawn = {}
    for key, group in model.signature.groups.items():
        drawn[key] = group.random((2,), size=sizes.get(key), dtype=inputs[0].dtype, generator=generator)
    return drawn


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", range(6))
def test_moves_compose(which, dtype):
    model, inputs = list(models(dtype))[which]
    start = model.noise(*inputs, samples=3, generator=seeded())
    g, h = elements(model, inputs, 1), elements(model, inputs, 2)
    both = {key: group.compose(g[key], h[key]) for key, group in model.signature.groups.items()}
    atol = 1e-12 if dtype == torch.float64 else 2e-5
    same(model.move_noise(g, model.move_noise(h, start)), model.move_noise(both, start), atol)
    moved = model.move_noise(g, start)
    assert any(not torch.equal(a, b) for a, b in zip(start.tensors(), moved.tensors(), strict=True))
    undo = {key: group.inverse(g[key]) for key, group in model.signature.groups.items()}
    same(model.move_noise(undo, moved), start, atol)


def test_points_of_noise_do_not_translate():
    model, inputs = next(models(torch.float64))
    start = model.noise(*inputs, samples=3, generator=seeded())
    shift = {"n": groups.S().identity((2,), size=4), "d": groups.SE(3).identity((2,), dtype=torch.float64).clone()}
    shift["d"][..., -1] = 5
    moved = model.move_noise(shift, start)
    for a, b in zip(start.inputs, moved.inputs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("which", range(6))
def test_parts_are_slices_of_the_draws(which):
    model, inputs = list(models(torch.float64))[which]
    whole = model.noise(*inputs, samples=5, generator=seeded())
    assert whole.draws() == 5
    part = whole.chunk(1, 3)
    assert part.draws() == 2
    for a, b in zip(whole.tensors(), part.tensors(), strict=True):
        assert torch.equal(a[:, 1:3], b)
    assert whole.chunk(3, 9).draws() == 2
    assert [set(field) for field in part[1:]] == [set(field) for field in whole[1:]]


@pytest.mark.parametrize("which", range(6))
def test_rows_are_slices_of_the_batch(which):
    model, inputs = list(models(torch.float64))[which]
    whole = model.noise(*inputs, samples=3, generator=seeded())
    last = whole.rows(1, 2)
    assert last.draws() == 3
    for a, b in zip(whole.tensors(), last.tensors(), strict=True):
        assert torch.equal(a[1:2], b)
    assert [set(field) for field in last[1:]] == [set(field) for field in whole[1:]]
    same(whole.rows(0, 2), whole)
    model.double().eval()
    outputs = [model(*(x[i : i + 1] for x in inputs), noise=whole.rows(i, i + 1)) for i in range(2)]
    torch.testing.assert_close(torch.cat(outputs), model(*inputs, noise=whole))


def test_nothing_has_no_draws():
    assert noise.no_noise().draws() is None
    assert not list(noise.no_noise().tensors())
    assert isinstance(noise.no_noise().chunk(0, 1), Noise)
    assert isinstance(noise.no_noise().rows(0, 1), Noise)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_tie_breaks_fit_every_group(dtype):
    bound = {"n": groups.S(), "d": groups.E(3), "h w": groups.C(4)}
    signature = Signature.parse("n d, (h w) c -> ", bound)
    inputs = torch.zeros(2, 5, 3, dtype=dtype), torch.zeros(2, 4, 4, 1, dtype=dtype)
    drawn = noise.tie_breaks(Batch.outline(signature, inputs).ready(), 7, seeded())
    assert {key: tuple(ties.shape) for key, ties in drawn.ties.items()} == {"n": (2, 7, 5), "h w": (2, 7, 4)}
    assert drawn.completion["d"].shape == (2, 7, 3, 3)
    assert {tensor.dtype for tensor in drawn.tensors()} == {torch.promote_types(dtype, torch.float32)}


def test_haar_elements_put_real_items_first():
    mask = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 0]], dtype=torch.bool)
    batch = Batch.outline(Signature.parse("n c -> ", {"n": groups.S()}), [torch.zeros(2, 4, 1)], mask).ready()
    drawn = noise.haar_elements(batch, 50, seeded()).elements["n"]
    assert groups.S().contains(drawn, mask=mask.unsqueeze(1)).all()


def test_the_same_generator_gives_the_same_noise():
    for model, inputs in models(torch.float64):
        same(*(model.noise(*inputs, samples=2, generator=seeded(4)) for _ in range(2)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_names_of_all_tensors(dtype):
    for model, inputs in models(dtype):
        drawn = model.noise(*inputs, samples=3)
        restored = Noise.from_named(drawn.named())
        assert len(drawn.named()) == len(list(drawn.tensors())) > 0
        same(restored, drawn)
        assert [set(field) for field in restored[1:]] == [set(field) for field in drawn[1:]]
        same(drawn.map(lambda tensor: tensor[:1]), drawn.rows(0, 1))
