"""Training a recipe from a seed to a result: epochs, selection, checkpoints, curves."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from probsym._internal.descriptions import completed
from probsym._internal.progress import Show
from probsym._internal.saving import describe_module
from probsym.errors import NonFiniteError, RangeError, RunError, Stopped
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint
from probsym.lab.engine import Engine
from probsym.lab.final_test import AT_END, report_on_test, suffixes, weights_in
from probsym.lab.interrupts import graceful
from probsym.lab.kept_weights import keep_weights
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.results import apart
from probsym.lab.seeds import derived, seeded
from probsym.lab.text import is_number


@dataclass
class Best:
    """The weights that did best on validation by one metric."""

    value: float
    epoch: int
    weights: dict[str, Tensor]


@dataclass
class Progress:
    """All that a run has done, but for weights and optimiser."""

    step: int = 0
    loss: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Sums over the steps of this epoch: the total loss, and the task's own."""
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Best] = field(default_factory=dict)


class Training:
    """One run of a recipe with one seed.

    The last checkpoint in the folder is always whole; `run` goes on from it. What comes out does not depend on whether
    it was interrupted.

    Args:
        engine: on which to train. It can serve one seed after the other.
        seed: from which those of initialisation, order and draws are derived.
        folder: of the checkpoint.
        every: seconds between checkpoints; 0 for one after every step. Of several processes the first writes them.
        keep_every: epochs from one file of kept weights to the next, the first before training; the last epoch's are
            kept whatever it is. None keeps none, or goes on as the checkpoint says.
        precision: in which the engine works, by name; a run goes on in no other. None asks for nothing.
    """

    def __init__(
        self,
        engine: Engine,
        recipe: Recipe,
        seed: int,
        folder: Path,
        every: float = 60.0,
        keep_every: int | None = None,
        precision: str | None = None,
    ) -> None:
        if keep_every is not None and keep_every < 1:
            raise RangeError(f"Expected keep_every to be 1 or more (got {keep_every})")
        self.engine, self.recipe, self.seed, self.every, self.keep_every = engine, recipe, seed, every, keep_every
        self.path, self.precision = folder / "checkpoint.pt", precision
        self.progress = Progress()
        self.settings = engine.settings
        self.built = plain_description(engine.model)
        weights = engine.initial if engine.seed == seed else initial_weights(recipe, engine.settings, seed)
        engine.start(weights)

    @property
    def epoch(self) -> int:
        """The epoch under way."""
        return self.progress.step // self.engine.steps_per_epoch

    def resume(self) -> bool:
        """Go back to the last checkpoint, if there is one; several processes must all find the same."""
        there = self.path.exists()
        if there:
            self._load()
        step = self.engine.fabric.broadcast(self.progress.step)
        if step != self.progress.step:
            raise RunError(
                f"Expected {self.path} to be the same file for all processes, after {step} steps (got one after "
                f"{self.progress.step} in process {self.engine.fabric.global_rank}, or none)"
            )
        return there

    def _subject(self) -> dict[str, Any]:
        """What is trained: the same in every checkpoint of a run."""
        return {**subject(self.engine, self.recipe, self.seed), "built": self.built}

    def _load(self) -> None:
        # older checkpoints do not say how often weights are kept, nor in which precision
        older = {"keep_every": self.keep_every, "precision": None}
        state = older | load_checkpoint(self.path, self.engine.device)
        check_subject(self.path, state, self._subject())
        began = f"which the run in {self.path.parent} began"
        if self.keep_every not in (None, state["keep_every"]):
            raise RunError(
                f"Expected keep_every={state['keep_every']}, with {began} (got keep_every={self.keep_every})"
            )
        self.keep_every = state["keep_every"]
        if self.precision is not None and state["precision"] not in (None, self.precision):
            raise RunError(f"Expected precision {state['precision']}, in {began} (got {self.precision})")
        try:
            best = {name: Best(**record) for name, record in state["best"].items()}
            progress = Progress(state["step"], state["loss"], state["seconds"], state["curve"], best)
            self._check(progress)
            self.engine.load(state)
            self.progress = progress
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
            raise RunError(f"Expected {self.path} to be a checkpoint of this model (got: {error})") from error

    def _check(self, progress: Progress) -> None:
        """Refuse numbers that no training of this length has."""
        steps, step = self.engine.steps_per_epoch, progress.step
        if not isinstance(step, int) or not 0 <= step <= steps * self.settings.epochs:
            raise RunError(f"Expected {self.path} to be after 0 to {steps * self.settings.epochs} steps (got {step!r})")
        if not is_curve(progress.curve) or len(progress.curve) != step // steps:
            raise RunError(f"Expected {self.path} to have a curve of {step // steps} epochs (got another)")
        loss, seconds = progress.loss, progress.seconds
        if not (isinstance(loss, list) and len(loss) == 2 and all(map(is_number, (*loss, seconds)))):
            raise RunError(f"Expected {self.path} to have two losses and seconds (got {loss!r}, {seconds!r})")

    def run(self, show: Show | None = None) -> dict[str, Any]:
        """Train to the end and test; the metrics. `show` is told of every epoch, with what was measured in it.

        The caller's random numbers stay as they are.
        """
        device = self.engine.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            return self._run(show)

    def _run(self, show: Show | None) -> dict[str, Any]:
        engine, progress = self.engine, self.progress
        start, saved = time.perf_counter() - progress.seconds, time.perf_counter()
        sums = torch.tensor(progress.loss, device=engine.device)
        engine.model.train()
        if progress.step == 0 and self.keep_every is not None:
            self._save(start, sums)  # from now on it is known what is kept
            self._keep(0)
        with graceful() as request:
            while self.epoch < self.settings.epochs:
                epoch, first = self.epoch, progress.step % engine.steps_per_epoch
                for index in engine.order(self.seed, epoch)[first:]:
                    sums += self._train_step(index, epoch)
                    progress.step += 1
                    ended = progress.step % engine.steps_per_epoch == 0
                    if ended:
                        self._end_epoch(epoch, sums, start)
                        self._keep(epoch + 1)  # before any checkpoint of this epoch, so that no resumed run lacks it
                        sums.zero_()
                        if show is not None:
                            show(epoch + 1, self.settings.epochs, progress.curve[-1])
                    # within an epoch, several processes do not wait for each other
                    if engine.fabric.broadcast(request.asked) if ended else request.asked and engine.world == 1:
                        self._stop(epoch, start, sums)
                    if time.perf_counter() - saved >= self.every:
                        self._save(start, sums)
                        saved = time.perf_counter()
        self._save(start, sums)
        return self._tested(time.perf_counter() - start)

    def _train_step(self, index: Tensor, epoch: int) -> Tensor:
        try:
            return self.engine.train_step(index, self.seed, self.progress.step)
        except NonFiniteError as error:  # the model looks at its features, on a CPU
            raise self._diverged(str(error), epoch) from error

    def _diverged(self, what: str, epoch: int) -> NonFiniteError:
        kept = f"the last good checkpoint is {self.path}" if self.path.exists() else "there is no checkpoint yet"
        return NonFiniteError(f"{what} in epoch {epoch + 1}; {kept}")

    def _stop(self, epoch: int, start: float, sums: Tensor) -> None:
        self._save(start, sums)
        raise Stopped(f"stopped in epoch {epoch + 1} of {self.settings.epochs}; the checkpoint is {self.path}")

    def _end_epoch(self, epoch: int, sums: Tensor, start: float) -> None:
        engine, progress = self.engine, self.progress
        total, own = (sums / engine.steps_per_epoch).tolist()
        if not math.isfinite(total):
            raise self._diverged(f"Expected a finite loss (got {total})", epoch)
        row = {"epoch": float(epoch + 1), "train_loss": own, "train_total": total}
        progress.curve.append(row)
        last = epoch + 1 == self.settings.epochs
        if last or (epoch + 1) % self.settings.validate_every == 0:
            for mark in weights_in(engine):
                row |= {f"valid_{name}": value for name, value in self._validated(epoch, mark).items()}
        row["seconds"] = round(time.perf_counter() - start, 3)

    def _validated(self, epoch: int, mark: str) -> dict[str, float]:
        """The validation metrics of the weights or their average, by marked names; the best weights are kept."""
        engine, best = self.engine, self.progress.best
        with engine.averaged() if mark else nullcontext():
            try:
                metrics = engine.evaluate(engine.data.valid, self.seed, "validation", epoch)
            except NonFiniteError:  # from a metric that cannot be computed of such outputs
                metrics = {"loss": math.nan, **dict.fromkeys(engine.task.selects, math.nan)}
            metrics = {f"{name}{mark}": value for name, value in metrics.items()}
            for metric, larger in engine.task.selects.items():
                name, sign = f"{metric}{mark}", 1 if larger else -1
                value = metrics[name]  # no validation at all is better than a loss that is no number
                if math.isfinite(value) and (name not in best or sign * value > sign * best[name].value):
                    weights = {key: tensor.clone() for key, tensor in engine.model.state_dict().items()}
                    best[name] = Best(value, epoch + 1, weights)
        return metrics

    def _keep(self, epoch: int) -> None:
        if self.keep_every is None or self.engine.fabric.global_rank != 0:
            return
        if epoch % self.keep_every == 0 or epoch == self.settings.epochs:
            keep_weights(self.engine.model, self.path.parent, epoch)

    def _save(self, start: float, sums: Tensor) -> None:
        progress = self.progress
        progress.seconds, progress.loss = time.perf_counter() - start, sums.tolist()
        if self.engine.fabric.global_rank != 0:
            return
        if not all(bool(torch.isfinite(tensor).all()) for tensor in (sums, *self.engine.model.parameters())):
            return  # the last good checkpoint stays; the loss will tell
        save_checkpoint(
            {
                **self._subject(),
                "keep_every": self.keep_every,
                "precision": self.precision,
                **self.engine.state(),
                "step": progress.step,
                "loss": progress.loss,
                "seconds": progress.seconds,
                "curve": progress.curve,
                "best": {name: vars(best) for name, best in progress.best.items()},
            },
            self.path,
        )

    def _tested(self, seconds: float) -> dict[str, Any]:
        """The test set under the weights that each metric chose; the first metric's has the plain name.

        So do the weights themselves: those of their average are marked.
        """
        engine, metrics = self.engine, dict[str, Any]()
        last = {name: value.clone() for name, value in engine.model.state_dict().items()}
        for mark in weights_in(engine):
            for metric, suffix in suffixes(engine.task).items():
                name = f"{metric}{mark}"
                best = self.progress.best.get(name)
                if best is None:
                    continue
                engine.model.load_state_dict(best.weights)
                metrics |= report_on_test(engine, self.seed, f"{mark}{suffix}")
                metrics[f"valid_{name}"], metrics[f"best_epoch_{name}"] = best.value, best.epoch
            engine.model.load_state_dict(last)
            with engine.averaged() if mark else nullcontext():
                metrics |= report_on_test(engine, self.seed, f"{mark}{AT_END}")
        metrics["train_seconds"] = round(seconds, 2)
        return metrics


def subject(engine: Engine, recipe: Recipe, seed: int) -> dict[str, Any]:
    """Of which run a checkpoint is."""
    return {"recipe": recipe.name, "seed": seed, "settings": asdict(engine.settings), "data": engine.task.source}


def check_subject(path: Path, state: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another run."""
    # older checkpoints do not say what was built, nor from which data
    stored = {name: state.get(name, wanted[name] if name in ("built", "data") else None) for name in wanted}
    if isinstance(stored["settings"], dict):  # those that came later have their defaults in older checkpoints
        stored["settings"] = asdict(Settings()) | stored["settings"]
    if "built" in stored:
        stored["built"] = completed(stored["built"])
    if stored != wanted:
        ours, theirs = apart(wanted, stored)
        raise RunError(f"Expected {path} to be of a run with {ours} (got one with {theirs})")


def is_curve(content: Any) -> bool:
    """Whether it is what a training keeps of its epochs: numbers by name for each."""
    return isinstance(content, list) and all(
        isinstance(row, dict) and all(isinstance(name, str) and is_number(value) for name, value in row.items())
        for row in content
    )


def plain_description(model: nn.Module) -> dict[str, Any]:
    """All that was built, such as an encoder's dropout, as a file of JSON will have it."""
    return cast("dict[str, Any]", json.loads(json.dumps(describe_module(model))))


def initial_weights(recipe: Recipe, settings: Settings, seed: int) -> dict[str, Tensor]:
    """The weights that a seed gives the model."""
    return _built(recipe, settings, seed).state_dict()


def _built(recipe: Recipe, settings: Settings, seed: int) -> nn.Module:
    """The model with the weights that a seed gives it; nothing else in the process sees that seed."""
    with seeded(torch.device("cpu"), derived(seed, "initialisation")):
        return recipe.build(settings)


def make_engine(
    recipe: Recipe,
    settings: Settings,
    fabric: Fabric,
    *,
    seed: int | None = None,
    compile: bool = False,
    capture: bool = False,
) -> Engine:
    """The recipe's model and data on a device; with a seed, the model has the weights that the seed gives it."""
    task = recipe.task()
    model = _built(recipe, settings, 0 if seed is None else seed)
    return Engine(fabric, model, task, settings, task.load(), seed=seed, compile=compile, capture=capture)
