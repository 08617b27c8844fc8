"""Charged particles: where five of them are ten frames later (paper, Tables 2 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from probsym import bases, groups, nets, samplers
from probsym._internal.progress import Show
from probsym.data import Particles, nbody, nbody_chaos
from probsym.lab.examples import Examples, Splits
from probsym.lab.methods import symmetrized
from probsym.lab.progress import shown
from probsym.lab.recipe import Recipe, Settings, Task
from probsym.lab.recipes.motion import RelativeMotion, Stages, pairs_of
from probsym.nets import Features
from probsym.samplers import Sampler
from probsym.signature import Signature

T = TypeVar("T")
ITEMS, DIMENSIONS = 5, 3
ARRAYS, WITH_MOTION = "n 3, n 3, n n 2 -> n 3", "n 3, n 3, n n 6 -> n 3"
STAGES, ROUNDS = 4, 8
VECTOR_NEURONS = 64
"""Their width as published, with 6,897 parameters: the appendix says "around 7k", but also 96, which has 15,473."""
SETTINGS = Settings(
    epochs=10_000,
    weight_decay=1e-12,
    samples=20,
    eval_samples=20,
    test_samples=200,
    also_test_samples=(20,),
    tau=0.1,
    dropout=0.08,
    test_repeats=5,
    validate_every=50,
    averaging=0.999,
)
GNN_SETTINGS = replace(SETTINGS, test_samples=20, also_test_samples=(200,))
BEST_SETTINGS = replace(GNN_SETTINGS, samples=1, huber=0.1, base_dropout=0.05)
"""Beyond the paper: what was best in validation, with the GNN that is not staged (docs/particles.md)."""


class NBody(Task):
    """Positions, velocities and pair features (products of charges, squared distances) to later positions.

    No particle is a pair with itself: both features are zero there.
    """

    name = "nbody"
    selects = {"mse": False}  # noqa: RUF012
    symmetry = Signature.parse("n d:point, n d, n n e -> n d:point", {"n": groups.S(), "d": groups.E(DIMENSIONS)})

    def load(self) -> Splits:
        particles = _watched(nbody)
        return Splits.numbered(*(as_examples(particles[name]) for name in ("train", "valid", "test")))

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        return (output - targets).square().mean()

    def huber_loss(self, output: Tensor, targets: Tensor, bound: float) -> Tensor:
        return 2 * huber_loss(output, targets, delta=bound)  # of small errors, the square

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        return (output - targets).square().flatten(1).mean(1)

    def disturbed(self, batch: Examples, deviation: float, generator: torch.Generator) -> Examples:
        """Positions and velocities with noise, and the distances between the new positions."""
        position, velocity, pairs = batch.inputs
        drawn = torch.randn(2, *position.shape, dtype=position.dtype, device=position.device, generator=generator)
        position, velocity = position + deviation * drawn[0], velocity + deviation * drawn[1]
        return batch._replace(inputs=(position, velocity, pairs_of(pairs[..., 0], position)))

    def test_parts(self) -> dict[str, Tensor]:
        return {"calm": ~_watched(nbody_chaos)["test"]}

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        error = self.loss(output.double(), targets.double())
        return {"loss": error, "mse": error}


def _watched(simulated: Callable[[Show], T]) -> T:
    """What is simulated, its progress shown: the first time only, since then it is in the cache."""
    with ExitStack() as stack:
        bars: list[Show] = []

        def show(done: int, total: int, note: str | Mapping[str, float]) -> None:
            if not bars:
                bars.append(stack.enter_context(shown(Console(stderr=True), "simulations")))
            bars[0](done, total, note)

        return simulated(show)


def as_examples(particles: Particles) -> Examples:
    """Systems as examples in float32."""
    position = particles.position
    charges = particles.edges * (1 - torch.eye(position.shape[1], dtype=position.dtype))
    pairs = pairs_of(charges, position)
    inputs = tuple(tensor.float() for tensor in (position, particles.velocity, pairs))
    return Examples(inputs, None, particles.target.float(), torch.arange(len(position)))


class AnyNet(nn.Module):
    """A net that knows nothing of symmetry, for `FromHaar`: an MLP over positions and velocities."""

    def __init__(self, scores: bool) -> None:
        super().__init__()
        self.scores = ITEMS if scores else 0
        self.mlp = bases.MLP([2 * ITEMS * DIMENSIONS, 64, 64, self.scores + DIMENSIONS**2], activation="silu")

    def forward(self, position: Tensor, velocity: Tensor) -> Features:
        """Scores and a matrix, or the matrix alone."""
        scores, vectors = self.mlp(position, velocity).split([self.scores, DIMENSIONS**2], 1)
        return Features(scores=scores if self.scores else None, vectors=vectors.unflatten(1, (DIMENSIONS, DIMENSIONS)))


def _sampler(method: str, settings: Settings, scores: bool) -> Sampler:
    """Over S_n x E(3) with scores, over E(3) without."""
    if method == "ga":
        return samplers.Haar()
    if method == "fa":
        return samplers.Frame(reads=(0, 1))
    if method == "from-haar":
        return samplers.FromHaar(AnyNet(scores), reads=(0, 1), tau=settings.tau)
    net = nets.VNDGCNN(in_channels=2, hidden=VECTOR_NEURONS, neighbours=4, dropout=settings.dropout, scores=scores)
    if method == "canonical":
        return samplers.Canonical(net, reads=(0, 1), tau=settings.tau)
    return samplers.Learned(net, settings.noise, settings.tau, reads=(0, 1))


def _transformer(settings: Settings, method: str, motion: bool = False) -> nn.Module:
    base: nn.Module = bases.SequenceTransformer(
        WITH_MOTION if motion else ARRAYS, n=ITEMS, dropout=settings.base_dropout
    )
    base = RelativeMotion(base) if motion else base
    bound, sampler = {"n": groups.S(), "d": groups.E(DIMENSIONS)}, _sampler(method, settings, scores=True)
    return symmetrized(base, "n d:point, n d, n n e -> n d:point", bound, sampler, settings, residual=0)


def _gnn(settings: Settings, method: str, motion: bool = False) -> nn.Module:
    """It predicts positions, as published; with relative motion displacements, since that is better."""
    base: nn.Module = bases.GNN(WITH_MOTION if motion else ARRAYS, width=60, layers=4, dropout=settings.base_dropout)
    return _over_motions(RelativeMotion(base) if motion else base, settings, method, residual=0 if motion else None)


def _staged_gnn(settings: Settings, method: str, stages: int, rounds: int) -> nn.Module:
    """GNNs of one layer between which the particles move."""
    layers = [
        bases.GNN("n 3, n 3, n n 6 -> n 6", width=60, layers=1, dropout=settings.base_dropout) for _ in range(stages)
    ]
    return _over_motions(Stages(map(RelativeMotion, layers), rounds), settings, method, residual=0)


def _over_motions(base: nn.Module, settings: Settings, method: str, residual: int | None) -> nn.Module:
    """A base that permutations do not concern, under E(3) alone."""
    bound, sampler = {"d": groups.E(DIMENSIONS)}, _sampler(method, settings, scores=False)
    return symmetrized(base, "n d:point, n d, n m e -> n d:point", bound, sampler, settings, residual=residual)


class Alone(nn.Module):
    """A base by itself, called as any model is."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, position: Tensor, velocity: Tensor, pairs: Tensor, mask: None = None) -> Tensor:
        """What the base makes of the system."""
        return self.base(position, velocity, pairs)


def _egnn(settings: Settings) -> nn.Module:
    return Alone(bases.EGNN(edge_channels=2))


METHODS = ("ga", "fa", "canonical", "ps", "from-haar")
READING_MOTION = ("ga", "ps")
"""Methods with further rows, which the paper has not: their base reads relative motion."""
STAGED = {
    "staged-gnn": partial(_staged_gnn, stages=STAGES, rounds=1),
    "recurrent-gnn": partial(_staged_gnn, stages=1, rounds=ROUNDS),
}
"""As many layers as the other GNN has, each a stage; or one that is applied again and again."""
RECIPES = [
    Recipe(f"nbody/{base}-{method}{ending}", NBody, partial(build, method=method, motion=bool(ending)), settings)
    for base, build, settings in (("transformer", _transformer, SETTINGS), ("gnn", _gnn, GNN_SETTINGS))
    for ending, methods in (("", METHODS), ("-motion", READING_MOTION))
    for method in methods
]
RECIPES += [
    Recipe("nbody/gnn-ps-best", NBody, partial(_gnn, method="ps", motion=True), BEST_SETTINGS),
    *(
        Recipe(f"nbody/{base}-{method}", NBody, partial(build, method=method), BEST_SETTINGS)
        for base, build in STAGED.items()
        for method in READING_MOTION
    ),
    Recipe("nbody/egnn", NBody, _egnn, SETTINGS),
]
