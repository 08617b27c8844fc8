"""What holds for every signature, group, sampler, mask, dtype and size, tried on some that nobody chose.

A failure prints the smallest case that fails and how to run it again; `--hypothesis-seed` repeats a whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from probsym import Signature, Symmetrized, bases, groups, nets, samplers, testing
from probsym.errors import GroupError, SignatureError
from probsym.nets import Features

TRIED = settings(
    max_examples=18,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ROTATIONS: list[Callable[[int], groups.Group]] = [groups.O, groups.SO, groups.E, groups.SE]
SAMPLERS = ("Haar", "Enumerate", "Frame", "Frame draws", "Learned", "Canonical", "FromHaar")


@dataclass(frozen=True)
class Case:
    """A model and a batch for it, as words and numbers that say all."""

    signature: str
    groups: dict[str, groups.Group]
    sizes: dict[str, int]
    sampler: str
    masked: str | None
    dtype: torch.dtype
    batch: int
    tied: bool
    seed: int

    @property
    def parsed(self) -> Signature:
        return Signature.parse(self.signature, self.groups)

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in names)

    def inputs(self, junk: float = 0.0) -> tuple[list[Tensor], dict[str, Tensor] | None]:
        """Random inputs, with equal items if they are to tie, and junk for padding; the mask has a real item each."""
        generator = self.generator()
        mask = None
        if self.masked is not None:
            mask = torch.rand(self.batch, self.sizes[self.masked], generator=generator) < 0.6
            mask[
                torch.arange(self.batch), torch.randint(self.sizes[self.masked], (self.batch,), generator=generator)
            ] = True
        inputs = []
        for term in self.parsed.inputs:
            x = torch.randn(self.batch, *self.shape(term.names), dtype=self.dtype, generator=generator)
            x = x.round() if self.tied else x
            for place, name in enumerate(term.names, start=1):
                if mask is not None and name == self.masked:
                    view = [self.batch, *(1 for _ in term.names)]
                    view[place] = -1
                    x = torch.where(mask.view(view), x, junk)
            inputs.append(x)
        return inputs, None if mask is None or self.masked is None else {self.masked: mask}

    def model(self) -> Symmetrized:
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            parsed = self.parsed
            width = sum(torch.Size(self.shape(term.names)).numel() for term in parsed.inputs)
            outputs = [self.shape(term.names) for term in parsed.outputs]
            heads = [bases.MLP([width, 8, torch.Size(shape).numel()], "tanh", shape=shape) for shape in outputs]
            base = heads[0] if len(heads) == 1 else Several(heads)
            sampler = self._sampler()
            samples = 3 if sampler.uses_samples(parsed) else 1
            made = Symmetrized(base, self.signature, self.groups, sampler, samples)
        return made.to(self.dtype).eval()

    def _sampler(self) -> samplers.Sampler:
        made: dict[str, Callable[[], samplers.Sampler]] = {
            "Haar": samplers.Haar,
            "Enumerate": lambda: samplers.Enumerate(limit=200),
            "Frame": lambda: samplers.Frame(limit=200),
            "Frame draws": lambda: samplers.Frame(exact=False),
            "Learned": lambda: samplers.Learned(self._net(), reads=(0,), tau=0.1),
            "Canonical": lambda: samplers.Canonical(self._net(), reads=(0,)),
            "FromHaar": lambda: samplers.FromHaar(self._any_net(), reads=(0,)),
        }
        return made[self.sampler]()

    def _net(self) -> nn.Module:
        """One that is equivariant and reads the first input, whose last axis rotates or has channels."""
        group = self.groups.get("d")
        if group is None:
            return nets.DeepSets(self.sizes["c"], hidden=8)
        if group.finite:
            return nets.Lifted(bases.MLP([self.sizes["m"] * 2, 8, 1], "tanh"), group, axis=-1)
        return nets.VNDGCNN(1, hidden=12, neighbours=2, d=self.sizes["d"], scores="n" in self.groups)

    def _any_net(self) -> nn.Module:
        shapes = {
            group.linear.feature_field: group.linear.feature_shape(self.sizes.get(key))
            for key, group in self.groups.items()
        }
        return Scorer(torch.Size(self.shape(self.parsed.inputs[0].names)).numel(), shapes)


class Several(nn.Module):
    """A base with several outputs."""

    def __init__(self, heads: list[nn.Module]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(head(*inputs) for head in self.heads)


class Scorer(nn.Module):
    """Features that follow nothing, for elements drawn beforehand."""

    def __init__(self, width: int, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.heads = nn.ModuleDict(
            {
                name: bases.MLP([width, 8, torch.Size(shape).numel()], "tanh", shape=shape)
                for name, shape in shapes.items()
            }
        )

    def forward(self, x: Tensor) -> Features:
        return Features.join({name: head(x) for name, head in self.heads.items()})


@st.composite
def cases(draw: st.DrawFn, sampler: str) -> Case:
    bound: dict[str, groups.Group] = {}
    turns = draw(st.sampled_from(["rotation", "none", "finite"]))
    assume((sampler, turns) not in (("Enumerate", "rotation"), ("Frame", "finite"), ("Frame draws", "finite")))
    if turns == "none" or (turns == "rotation" and draw(st.booleans())):
        bound["n"] = groups.S()
    d = 2
    if turns == "rotation":
        d = draw(st.integers(2, 3))
        bound["d"] = draw(st.sampled_from(ROTATIONS))(d)
    elif turns == "finite":
        bound["d"] = draw(st.sampled_from([groups.C, groups.D]))(draw(st.integers(1, 5)))
    items = "n" if "n" in bound else "m"
    points = "d" in bound and "point" in bound["d"].kinds
    first = f"{items} {'d' if 'd' in bound else 'c'}" + (":point" if points else "")
    terms = [first, *draw(st.lists(_term(bound, points, least=1), max_size=2))]
    outputs = draw(st.lists(_term(bound, points, least=0), min_size=1, max_size=2))
    return Case(
        f"{', '.join(terms)} -> {', '.join(outputs)}",
        bound,
        {"n": draw(st.integers(1, 5)), "m": draw(st.integers(1, 5)), "c": draw(st.integers(1, 3)), "d": d, "k": 2},
        sampler,
        items if draw(st.booleans()) else None,
        draw(st.sampled_from([torch.float32, torch.float64])),
        draw(st.integers(1, 3)),
        turns == "none" and draw(st.booleans()),
        draw(st.integers(0, 2**31)),
    )


@st.composite
def _term(draw: st.DrawFn, bound: dict[str, groups.Group], points: bool, least: int) -> str:
    """Axes in any order; bound ones may come twice, but points rotate along no other axis."""
    axes = draw(st.lists(st.sampled_from(["c", "k", *bound]), min_size=least, max_size=3))
    axes = [axis for place, axis in enumerate(axes) if axis in bound or axis not in axes[:place]]
    if axes.count("d") == 1 and points and draw(st.booleans()):
        axes[axes.index("d")] = "d:point"
    elif "d" in axes and draw(st.booleans()):
        axes[axes.index("d")] = "d:axial"
    return " ".join(axes)


def made(case: Case) -> Symmetrized:
    """The model, unless there is no such sampler for such groups, or too much to list."""
    try:
        model = case.model()
        inputs, mask = case.inputs()
        with torch.no_grad():
            model(*inputs, mask=mask)
    except (GroupError, SignatureError):
        assume(False)
    return model


@pytest.mark.parametrize("sampler", SAMPLERS)
@TRIED
@given(st.data())
def test_every_model(sampler: str, data: st.DataObject) -> None:
    case = data.draw(cases(sampler))
    model, parsed = made(case), case.parsed
    inputs, mask = case.inputs()
    noise = model.noise(*inputs, mask=mask, generator=case.generator())
    with torch.no_grad():
        output = model(*inputs, mask=mask, noise=noise)
    outputs = output if isinstance(output, tuple) else (output,)

    # shapes, dtypes, and zeros for padding
    for y, term in zip(outputs, parsed.outputs, strict=True):
        assert y.shape == (case.batch, *case.shape(term.names))
        assert y.dtype == case.dtype
        assert bool(y.isfinite().all())
        for place, name in enumerate(term.names, start=1):
            if mask is not None and name in mask:
                assert bool((y.movedim(place, 1)[~mask[name]] == 0).all())

    # padding is never read
    if mask is not None:
        junk, _ = case.inputs(junk=torch.nan)
        with torch.no_grad():
            again = model(*junk, mask=mask, noise=noise)
        for y, other in zip(outputs, again if isinstance(again, tuple) else (again,), strict=True):
            assert torch.equal(y, other)

    # equivariance, with the noise moved along
    try:
        testing.assert_equivariant(model, *inputs, mask=mask, generator=case.generator())
    except AssertionError as error:
        if "rounding cannot decide" not in str(error):
            raise


@pytest.mark.parametrize("sampler", SAMPLERS)
@TRIED
@given(st.data())
def test_every_gradient(sampler: str, data: st.DataObject) -> None:
    case = data.draw(cases(sampler))
    model = made(case).train()
    junk, mask = case.inputs(junk=torch.nan)
    inputs = [x.requires_grad_() for x in junk]
    estimate = model.estimate(*inputs, mask=mask, generator=case.generator())
    outputs = estimate.mean if isinstance(estimate.mean, tuple) else (estimate.mean,)
    loss = sum(y.square().sum() for y in outputs) + estimate.losses["entropy"]
    loss.backward()
    assert bool(loss.isfinite())
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or bool(parameter.grad.isfinite().all()), name
    for x, term in zip(inputs, case.parsed.inputs, strict=True):
        if x.grad is None:
            continue
        assert bool(x.grad.isfinite().all())
        for place, name in enumerate(term.names, start=1):
            if mask is not None and name in mask:
                assert bool((x.grad.movedim(place, 1)[~mask[name]] == 0).all())
    assert any(x.grad is not None for x in inputs)


pytestmark = pytest.mark.filterwarnings("error")
