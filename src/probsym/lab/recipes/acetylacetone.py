"""A potential for acetylacetone: a plain transformer of types and positions, trained on energies and forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from probsym import groups, nets, samplers
from probsym.data.acetylacetone import Molecules, acetylacetone
from probsym.lab.examples import Examples, Splits
from probsym.lab.methods import symmetrized
from probsym.lab.recipe import Recipe, Settings, Task
from probsym.ops.short_attention import shares
from probsym.samplers import Sampler
from probsym.signature import Signature

ELEMENTS = (1, 6, 8)
VALID = 50
TESTS = ("test_300k", "test_600k", "test_dihedral", "test_h_transfer")
MILLI = 1000
"""Errors are in meV and meV per angstrom."""
FORCES = 1.0
"""Weight of the mean squared error of the forces in the loss, beside that of the energy by the number of atoms."""
SETTINGS = Settings(
    epochs=1_000,
    batch_size=25,
    learning_rate=5e-4,
    warmup_epochs=20,
    decay=True,
    clip=10.0,
    samples=8,
    eval_samples=8,
    entropy=0.0,
    noise=0.1,
    validate_every=20,
    averaging=0.999,
)
CALLS = {"augmented": 1, "ga": 8, "fa": 8, "canonical": 1, "ps": 8, "quadrature": 24}
"""How often each method calls the base for one molecule and step."""
BATCHES = {"augmented": 150, "canonical": 150, "quadrature": 9}
"""Molecules a step where they are not those of `SETTINGS`: so that a step of every method has about 200 calls."""


class Acetylacetone(Task):
    """Types as one-hot vectors and positions to an energy, whose gradient gives the forces.

    Of the 500 configurations of 300 K that there are to learn from, the last 50 are for validation. Energies are those
    of the molecule without its atoms, and without the mean of what is then left, shared equally by the atoms.
    `references` are both together, by atomic number.

    Targets (count, 2 + 3 n) are the energy, the forces, NaN where they are not known, and the number of the test set.
    """

    name = "acetylacetone"
    selects = {"loss": False}  # noqa: RUF012
    symmetry = Signature.parse("n c, n d:point -> ", {"d": groups.E(3)})
    differentiates = 1
    references: Mapping[int, float]

    def load(self) -> Splits:
        molecules, isolated = acetylacetone()
        train = molecules["train_300k"]
        few = Molecules(*(field[:-VALID] for field in train))
        mean = float(_without(few, isolated).mean()) / few.numbers.shape[1]
        self.references = {number: energy + mean for number, energy in isolated.items()}
        tests = [as_examples(molecules[name], self.references, place) for place, name in enumerate(TESTS)]
        every = as_examples(train, self.references, 0)
        return Splits.numbered(every.take(slice(0, -VALID)), every.take(slice(-VALID, None)), _joined(tests))

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        return self.losses(output, targets).mean()

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        """Of the energy alone where the output has no forces."""
        if output.dim() == 1:
            return (output - targets[:, 0]).square()
        energy, forces = _errors(output, targets)
        return energy.square() / (forces.shape[1] // 3) + FORCES * forces.nan_to_num(0.0).square().mean(1)

    def test_parts(self) -> dict[str, Tensor]:
        sets = self.load().test.targets[:, -1]
        return {name.removeprefix("test_"): sets == place for place, name in enumerate(TESTS)}

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """The loss, and root mean square errors of each test set: of the energy, and of the components of forces."""
        output, targets = output.double(), targets.double()
        metrics, sets = {"loss": self.loss(output, targets)}, targets[:, -1]
        for place, name in enumerate(TESTS):
            energy, forces = _errors(output[sets == place], targets[sets == place])
            for kind, errors in (("energy", energy), ("forces", forces[~forces.isnan()])):
                if len(errors):
                    metrics[f"{kind}_{name.removeprefix('test_')}"] = MILLI * errors.square().mean().sqrt()
        return metrics


def one_hot(numbers: Tensor) -> Tensor:
    """The types of atoms (*batch, n, elements) by their atomic numbers (*batch, n)."""
    return (numbers.unsqueeze(-1) == torch.tensor(ELEMENTS, device=numbers.device)).float()


def as_examples(molecules: Molecules, references: Mapping[int, float], place: int) -> Examples:
    """Molecules as examples in float32, of the test set with that number."""
    energy = _without(molecules, references).unsqueeze(1)
    sets = torch.full_like(energy, place)
    targets = torch.cat([energy, molecules.forces.flatten(1), sets], 1).float()
    positions = molecules.positions - molecules.positions.mean(1, keepdim=True)  # before they are rounded
    return Examples((one_hot(molecules.numbers), positions.float()), None, targets, torch.arange(len(energy)))


def _without(molecules: Molecules, references: Mapping[int, float]) -> Tensor:
    """Energies without those of the atoms."""
    total = molecules.energy.clone()
    for number, energy in references.items():
        total -= energy * (molecules.numbers == number).sum(1)
    return total


def _joined(parts: Sequence[Examples]) -> Examples:
    inputs = tuple(torch.cat(each) for each in zip(*(part.inputs for part in parts), strict=True))
    return Examples(inputs, None, torch.cat([part.targets for part in parts]), torch.cat([part.ids for part in parts]))


def _errors(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Of energies (count,) and of forces (count, 3 n)."""
    return output[:, 0] - targets[:, 0], output[:, 1:] - targets[:, 1:-1]


class AtomTransformer(nn.Module):
    """A plain transformer: a token for each atom from its type and place, an energy for each atom, and their sum.

    There are no positional encodings, so the order of the atoms does not matter; how they lie in space does. All of it
    is smooth, and can be differentiated twice on any device: attention is written out, since fused ones cannot.

    `forward(types, positions, mask=None)`: (batch, n, c), (batch, n, 3), booleans (batch, n), or by the name "n".
    """

    def __init__(self, width: int = 128, layers: int = 4, heads: int = 8) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(len(ELEMENTS) + 3, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.read = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, types: Tensor, positions: Tensor, mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        real = mask["n"] if isinstance(mask, Mapping) else mask
        tokens = self.embed(torch.cat([types.to(positions.dtype), positions], -1))
        for layer in self.layers:
            tokens = layer(tokens, real)
        energies = self.read(tokens).squeeze(-1)
        return (energies if real is None else torch.where(real, energies, 0)).sum(1)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor, real: Tensor | None) -> Tensor:
        packed = self.attend(self.norm_1(tokens)).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = packed.permute(2, 0, 3, 1, 4)
        tokens = tokens + self.out((shares(queries, keys, real) @ values).transpose(1, 2).flatten(2))
        return tokens + self.mlp(self.norm_2(tokens))


class Augmented(nn.Module):
    """A base that sees every molecule in a random pose while it is trained, and as it lies afterwards."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, types: Tensor, positions: Tensor, mask: None = None) -> Tensor:
        """The energy of positions about their centroid."""
        positions = positions - positions.mean(1, keepdim=True)
        if self.training:
            group = groups.O(3)
            turn = group.haar((len(positions),), dtype=positions.dtype, device=positions.device)
            positions = group.act(turn, positions)
        return self.base(types, positions)


def _sampler(method: str, settings: Settings) -> Sampler:
    if method == "ga":
        return samplers.Haar()
    if method == "fa":
        return samplers.Frame(reads=(1,))
    if method == "quadrature":
        return samplers.Quadrature(1)
    net = nets.VNDGCNN(1, hidden=64, scalars=len(ELEMENTS), scores=False, dropout=settings.dropout)
    if method == "canonical":
        return samplers.Canonical(net, reads=(1, 0))
    return samplers.Learned(net, settings.noise, settings.tau, reads=(1, 0))


def build(settings: Settings, method: str) -> nn.Module:
    """The transformer under E(3) by a method, or with augmented data."""
    base = AtomTransformer()
    if method == "augmented":
        return Augmented(base)
    return symmetrized(base, "n c, n d:point -> ", {"d": groups.E(3)}, _sampler(method, settings), settings)


def settings_of(method: str) -> Settings:
    """With as many calls of the base in all as every other method has, and a schedule that goes by calls."""
    stretch = SETTINGS.samples / CALLS[method]
    return replace(
        SETTINGS,
        epochs=round(SETTINGS.epochs * stretch),
        batch_size=BATCHES.get(method, SETTINGS.batch_size),
        warmup_epochs=round(SETTINGS.warmup_epochs * stretch),
        validate_every=round(SETTINGS.validate_every * stretch),
    )


RECIPES = [
    Recipe(f"acetylacetone/transformer-{method}", Acetylacetone, partial(build, method=method), settings_of(method))
    for method in CALLS
]
