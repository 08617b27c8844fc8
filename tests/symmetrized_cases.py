"""Models over every group, sampler, output and mask, for the tests of equivariance."""

import os
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from probsym import Signature, Symmetrized, bases, groups, nets, samplers
from probsym.nets import Features

BATCH, ITEMS, CHANNELS = 3, 5, 2
IN_CI = pytest.mark.skipif(not os.environ.get("PROBSYM_TOOLS"), reason="takes long; set PROBSYM_TOOLS")


@dataclass(frozen=True)
class Setting:
    """One group action: what goes in, and what can come out."""

    inputs: str
    groups: dict[str, groups.Group]
    outputs: tuple[str, ...]
    reads: tuple[int, ...] | None = None
    maskable: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)


def _rotation(group: groups.Group) -> Setting:
    d = group.axis_size()
    points = isinstance(group, groups.E)
    outputs = ("k", "d", "d:axial", "d d", "m d") + (("d:point", "m d:point") if points else ())
    inputs = "m d:point, m d, m c" if points else "m d, m d, m c"
    return Setting(inputs, {"d": group}, outputs, (0, 1), "m", {"d": d})


def _joint(group: groups.Group) -> Setting:
    points = isinstance(group, groups.E)
    outputs = ("k", "n d", "n d:axial", "n n", "d d") + (("n d:point", "d:point") if points else ())
    inputs = "n d:point, n d, n n c" if points else "n d, n d, n n c"
    return Setting(inputs, {"n": groups.S(), "d": group}, outputs, (0, 1), "n", {"d": 3})


SETTINGS = {
    "S": Setting("n c, n n", {"n": groups.S()}, ("k", "", "n c", "n n"), None, "n"),
    "O(3)": _rotation(groups.O(3)),
    "SO(3)": _rotation(groups.SO(3)),
    "E(3)": _rotation(groups.E(3)),
    "SE(3)": _rotation(groups.SE(3)),
    "O(2)": _rotation(groups.O(2)),
    "O(5)": _rotation(groups.O(5)),
    "S x O(3)": _joint(groups.O(3)),
    "S x SE(3)": _joint(groups.SE(3)),
    "C(4)": Setting("m d", {"d": groups.C(4)}, ("k", "d", "d:axial", "d d"), None, "m", {"d": 2}),
    "D(4)": Setting("m d", {"d": groups.D(4)}, ("k", "d", "d:axial", "d d"), None, "m", {"d": 2}),
    "C(4) on images": Setting("(h w) c", {"h w": groups.C(4)}, ("k", "(h w) c"), None, None, {"h": 4, "w": 4}),
    "D(4) on images": Setting("(h w) c", {"h w": groups.D(4)}, ("k", "(h w) c"), None, None, {"h": 4, "w": 4}),
    "Signs": Setting("m d", {"d": groups.Signs()}, ("k", "d", "d d"), None, "m", {"d": 3}),
    "Shift": Setting("d c", {"d": groups.Shift()}, ("k", "d c", "d d"), None, None, {"d": 4}),
    "Tetrahedral": Setting("m d", {"d": groups.Tetrahedral()}, ("d:axial",), None, None, {"d": 3}),
    "Octahedral": Setting("m d", {"d": groups.Octahedral()}, ("d d",), None, None, {"d": 3}),
    "Icosahedral": Setting("m d", {"d": groups.Icosahedral()}, ("k", "m d"), None, "m", {"d": 3}),
}
SAMPLERS = (
    "Haar",
    "Enumerate",
    "Frame",
    "Frame draws",
    "Frame weighted",
    "Canonical",
    "Learned",
    "FromHaar",
    "Energy",
    "Energy soft",
    "Quadrature",
)
OURS = ("Frame weighted", "Energy", "Energy soft", "Quadrature")
"""Samplers made of parts that others share, which are not tested with every mask and group."""


def masks(setting: str, sampler: str) -> list[tuple[str, torch.dtype]]:
    """The kinds of masks to test with, each in one precision."""
    everywhere = SETTINGS[setting].maskable is not None and sampler not in OURS
    kinds = [("none", torch.float64), ("mixed" if everywhere else "none", torch.float32)]
    return [*kinds, ("garbage", torch.float64)] if everywhere or setting in ("S", "E(3)") else kinds


def applies(setting: str, sampler: str) -> bool:
    """Whether there is such a sampler for such a group."""
    bound = SETTINGS[setting].groups.values()
    rotates = any(isinstance(group, groups.O | groups.E) for group in bound)
    numbered = any(isinstance(group, groups.Finite) for group in bound)
    if sampler == "Enumerate":
        return not rotates
    if sampler in ("Energy", "Energy soft"):
        return setting in ("S", "E(3)", "O(2)", "S x SE(3)", "D(4)", "C(4) on images", "Signs", "Shift", "Icosahedral")
    if sampler == "Quadrature":
        return (
            not any(isinstance(group, groups.S | groups.Signs | groups.Shift) for group in bound) and "5" not in setting
        )
    if sampler == "Frame weighted":
        return not numbered and " x " not in setting and setting not in ("Signs", "Shift", "O(5)")
    return not (sampler.startswith("Frame") and (numbered or setting == "Shift"))


def size_of(name: str, setting: Setting) -> int:
    return setting.sizes.get(name, {"n": ITEMS, "m": ITEMS, "k": 3}.get(name, CHANNELS))


def shape_of(term: str, setting: Setting) -> tuple[int, ...]:
    names = term.replace("(", "").replace(")", "").split()
    return tuple(size_of(name.partition(":")[0], setting) for name in names)


def make_inputs(
    setting: Setting, dtype: torch.dtype, masking: str, generator: torch.Generator, batch: int = BATCH
) -> tuple[list[Tensor], Tensor | dict[str, Tensor] | None]:
    """Random inputs, adjacency symmetric, and a mask of the kind asked for."""
    inputs = []
    for term in setting.inputs.split(","):
        x = torch.randn(batch, *shape_of(term.strip(), setting), dtype=dtype, generator=generator)
        inputs.append(((x + x.mT) > 1).to(dtype) if term.split() == ["n", "n"] else x)
    if masking == "none" or setting.maskable is None:
        return inputs, None
    if masking == "mixed":
        mask = torch.arange(ITEMS) < torch.tensor([ITEMS, 3, 4] * batch)[:batch].unsqueeze(1)
    else:
        mask = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 0, 1, 1]] * batch, dtype=torch.bool)[:batch]
    junk = float("nan") if masking == "garbage" else 1e3
    for i, term in enumerate(setting.inputs.split(",")):
        for place, name in enumerate(term.split(), start=1):
            if name == setting.maskable:
                shape = [batch, *(1 for _ in inputs[i].shape[1:])]
                shape[place] = ITEMS
                inputs[i] = torch.where(mask.view(shape), inputs[i], junk)
    return inputs, mask if setting.maskable == "n" else {setting.maskable: mask}


class Scorer(nn.Module):
    """Any net, as `FromHaar` takes it: an MLP over everything it sees."""

    def __init__(self, width: int, sizes: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.sizes = sizes
        total = sum(torch.Size(size).numel() for size in sizes.values())
        self.mlp = bases.MLP([width, 16, total], activation="tanh")

    def forward(self, *inputs: Tensor) -> Features:
        parts = self.mlp(*inputs).split([torch.Size(size).numel() for size in self.sizes.values()], 1)
        features = {kind: part.view(-1, *size) for part, (kind, size) in zip(parts, self.sizes.items(), strict=True)}
        return Features.join(features)


class Odd(nn.Module):
    """Signs that follow those of the columns of x (B, K, m, n)."""

    perturbs = (0,)

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.linear = nn.Linear(rows, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Features:
        return Features(own={"signs": self.linear(x.mT).squeeze(-1) + x.pow(3).sum(-2)})


class Circular(nn.Module):
    """Scores that follow shifts of the entries of x (B, K, n, c)."""

    perturbs = (0,)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.here, self.next = nn.Linear(channels, 1), nn.Linear(channels, 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return (self.here(x).tanh() + self.next(x.roll(-1, -2)).tanh()).squeeze(-1)


def make_net(setting: Setting, any_net: bool) -> nn.Module:
    bound = setting.groups
    if any_net:
        sizes: dict[str, tuple[int, ...]] = {}
        for group in bound.values():
            if isinstance(group, groups.S):
                sizes["scores"] = (ITEMS,)
            elif isinstance(group, groups.Finite):
                sizes["logits"] = (group.order,)
            elif isinstance(group, groups.Signs | groups.Shift):
                sizes[group.feature_field] = (setting.sizes["d"],)
            else:
                sizes["vectors"] = (group.axis_size(), group.axis_size())
        terms = setting.inputs.split(",")
        width = sum(torch.Size(shape_of(terms[i], setting)).numel() for i in setting.reads or range(len(terms)))
        return Scorer(width, sizes)
    if any(isinstance(group, groups.Signs) for group in bound.values()):
        return Odd(ITEMS)
    if any(isinstance(group, groups.Shift) for group in bound.values()):
        return Circular(CHANNELS)
    if any(isinstance(group, groups.Finite) for group in bound.values()):
        width = torch.Size(shape_of(setting.inputs, setting)).numel()
        key = "h w" if "h w" in bound else "d"
        place = (-3, -2) if key == "h w" else -1
        net = bases.MLP([width, 16, 1], activation="tanh")
        return nets.Lifted(net, bound[key], axis=place, kind="grid" if key == "h w" else "plain")
    if "d" in bound:
        return nets.VNDGCNN(2, hidden=24, neighbours=3, d=setting.sizes["d"], scores="n" in bound)
    return nets.GIN(CHANNELS, hidden=8, layers=2)


def make_sampler(name: str, setting: Setting) -> samplers.Sampler:
    width = sum(torch.Size(shape_of(term, setting)).numel() for term in setting.inputs.split(","))
    some = 6 if any(isinstance(group, groups.O | groups.E) for group in setting.groups.values()) else None
    made = {
        "Haar": samplers.Haar,
        "Enumerate": samplers.Enumerate,
        "Frame": samplers.Frame,
        "Frame draws": lambda: samplers.Frame(exact=False),
        "Frame weighted": lambda: samplers.Frame(weighted=True),
        "Energy": lambda: samplers.Energy(bases.MLP([width, 8, 1], activation="tanh"), elements=some),
        "Energy soft": lambda: samplers.Energy(bases.MLP([width, 8, 1], activation="tanh"), tau=0.3, elements=some),
        "Quadrature": lambda: samplers.Quadrature(2),
        "Canonical": lambda: samplers.Canonical(make_net(setting, False), reads=setting.reads),
        "Learned": lambda: samplers.Learned(make_net(setting, False), reads=setting.reads, tau=0.1),
        "FromHaar": lambda: samplers.FromHaar(make_net(setting, True), reads=setting.reads),
    }
    return made[name]()


def make_model(setting: Setting, output: str, sampler: str, dtype: torch.dtype, seed: int = 0) -> Symmetrized:
    """A symmetrized MLP; nothing in it but the sampler knows the group."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        width = sum(torch.Size(shape_of(term, setting)).numel() for term in setting.inputs.split(","))
        shape = shape_of(output, setting)
        base = bases.MLP([width, 16, torch.Size(shape).numel()], activation="tanh", shape=shape)
        signature, made = f"{setting.inputs} -> {output}", make_sampler(sampler, setting)
        several = made.uses_samples(Signature.parse(signature, setting.groups))
        model = Symmetrized(base, signature, setting.groups, made, samples=4 if several else 1)
    return model.to(dtype).eval()
