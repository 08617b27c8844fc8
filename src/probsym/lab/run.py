"""Running recipes: devices, processes, folders, results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from rich.console import Console
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from probsym import errors
from probsym._internal.json_file import read_json
from probsym._internal.progress import Show
from probsym.errors import ProbsymError, RunError
from probsym.lab.checkpoint import clear_partials, load_checkpoint
from probsym.lab.engine import Engine
from probsym.lab.json_with_table import mend_table
from probsym.lab.kept_weights import KeptWeights, epochs_in
from probsym.lab.launch import GO_ON, count_processes, launched, lost_another
from probsym.lab.paper import paper_number
from probsym.lab.progress import shown
from probsym.lab.provenance import provenance
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.results import (
    FIELDS,
    apart,
    check_result,
    curve_text,
    is_result,
    read_curve,
    result_path,
    write_result,
    write_with_curve,
)
from probsym.lab.separation import SeparationRecipe, separate
from probsym.lab.training import (
    Training,
    check_subject,
    initial_weights,
    is_curve,
    make_engine,
    plain_description,
    subject,
)

PROCESSES_PER_CORE = 4
PRECISIONS = ("32-true", "tf32", "bf16-mixed")


@dataclass(frozen=True)
class Options:
    """How to run, as against what.

    Args:
        device: "cpu", "cuda" or "auto".
        processes: that train together, each on its own device or core; None for as many as torchrun or srun started,
            or one.
        precision: "32-true"; "tf32", the same with TF32 products where the device has them; or "bf16-mixed", bfloat16
            where autocast has it, and TF32 products elsewhere.
        compile, capture: as for `Engine`.
        checkpoint_every: seconds, as for `Training`.
        keep_every: epochs, as for `Training`; a run that was interrupted goes on as it began.
    """

    device: str = "auto"
    processes: int | None = 1
    precision: str = "32-true"
    compile: bool = False
    capture: bool = False
    checkpoint_every: float = 60.0
    keep_every: int | None = None


def make_fabric(options: Options) -> Fabric:
    """The device, and the processes that work together."""
    if options.device not in ("auto", "cpu", "cuda"):
        raise RunError(f"Expected the device to be auto, cpu or cuda (got {options.device!r})")
    if options.precision not in PRECISIONS:
        raise RunError(f"Expected the precision to be one of {', '.join(PRECISIONS)} (got {options.precision!r})")
    cuda = torch.cuda.is_available()
    if options.device == "cuda" and not cuda:
        raise RunError("Expected a CUDA device (got none)")
    processes, by_others = count_processes(options.processes), launched()
    here = by_others.per_node if by_others else processes
    most = PROCESSES_PER_CORE * (os.cpu_count() or 1)
    if here > most:
        raise RunError(f"Expected at most {most} processes on {os.cpu_count()} cores (got {here})")
    _set_products(options)
    try:
        return Fabric(
            accelerator="cuda" if cuda and options.device != "cpu" else "cpu",
            devices=here,
            num_nodes=by_others.nodes if by_others else 1,
            strategy="auto" if processes == 1 else "ddp" if by_others else "ddp_spawn",
            plugins=by_others.environment if by_others else LightningEnvironment(),
            precision="32-true" if options.precision == "tf32" else options.precision,  # type: ignore[arg-type]
        )
    except (TypeError, ValueError) as error:
        raise RunError(f"Expected as many processes as there are devices (got: {error})") from error


def _set_products(options: Options) -> None:
    torch.set_float32_matmul_precision("highest" if options.precision == "32-true" else "high")


def run(
    recipe: Recipe | SeparationRecipe,
    seeds: Sequence[int],
    folder: Path,
    *,
    changes: Sequence[str] = (),
    options: Options | None = None,
    resume: bool = False,
    results: Path | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Run a recipe for every seed, in `FOLDER/RECIPE/seed-N`; the results, which are also written there.

    A seed that has a result already is refused, or passed over with `resume`; one that was interrupted goes on. Of the
    processes that torchrun or srun started, the first returns the results and the others nothing.
    """
    options = options or Options()
    folders = {seed: folder / recipe.name / f"seed-{seed}" for seed in seeds}
    processes = count_processes(options.processes)
    plain = processes == 1 and options.precision == "32-true" and options.keep_every is None
    if isinstance(recipe, SeparationRecipe) and not plain:
        raise RunError(
            f"Expected {recipe.name} to run in one process, in 32-true and without weights to keep (got {options})"
        )
    settings = recipe.settings.changed(changes)
    job = Job(recipe, settings, settings.differences(recipe.settings), options, folders, results, resume)
    fabric = make_fabric(options)
    if processes == 1 or launched():
        fabric.launch()
        return job(fabric, console)
    try:
        return fabric.launch(job)
    except ProcessRaisedException as error:
        raise _same_error(str(error).strip().splitlines()[-1]) from error
    except ProcessExitedException as error:
        raise RunError(f"Expected all {processes} processes to go on (got: {error}); {GO_ON}") from error


def _same_error(line: str) -> Exception:
    """The error that a process of ours raised, from the last line of its traceback."""
    name, _, message = line.removeprefix("probsym.errors.").partition(": ")
    kind = getattr(errors, name, None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, errors.ProbsymError) else RunError(line)


@dataclass
class Job:
    """A recipe for some seeds, as what each of several processes runs.

    Args:
        changed: those of the settings that are not the recipe's own.
        folders: of the runs, by seed.
        results: where results are also written.
    """

    recipe: Recipe | SeparationRecipe
    settings: Settings
    changed: dict[str, Any]
    options: Options
    folders: dict[int, Path]
    results: Path | None
    resume: bool
    engine: Engine | None = None

    @property
    def kept(self) -> dict[int, Path]:
        """The files in `results`, by seed."""
        results, row, changed = self.results, self.recipe.name, self.changed
        return {seed: result_path(results, row, seed, changed) for seed in self.folders} if results else {}

    def __call__(self, fabric: Fabric, console: Console | None = None) -> list[dict[str, Any]]:
        _set_products(self.options)  # once more: this may be a process of its own
        if console is None or not fabric.is_global_zero:
            console = Console(quiet=not fabric.is_global_zero)
        made: list[Path] = []
        try:
            self._make_places(fabric, made)
            results = [self._one(fabric, seed, folder, console) for seed, folder in self.folders.items()]
        except RuntimeError as error:
            if fabric.world_size == 1 or isinstance(error, ProbsymError) or not lost_another(error):
                raise
            raise RunError(
                f"Expected all {fabric.world_size} processes to go on (got, in process {fabric.global_rank}, that "
                f"another one ended or cannot be reached); {GO_ON}"
            ) from error
        finally:
            for place in sorted(made, key=lambda place: len(place.parts), reverse=True):
                with suppress(OSError):  # there is something in it
                    place.rmdir()
        return results if fabric.is_global_zero else []

    def _make_places(self, fabric: Fabric, made: list[Path]) -> None:
        """Make the folders before anything is computed, in the first process; what it refuses, all refuse.

        Those that were not there yet are added to `made`.
        """
        refused = None
        if fabric.is_global_zero:
            try:
                for seed, folder in self.folders.items():
                    if not self.resume and folder.is_dir() and any(folder.iterdir()):
                        raise RunError(f"Expected {folder} to be empty, or to resume (got a run of seed {seed})")
                for seed, path in self.kept.items():
                    if path.exists() and not (self.resume and _same_run(path, self.folders[seed] / "result.json")):
                        raise RunError(f"Expected no result of {self.recipe.name}, seed {seed}, at {path} (got one)")
                for folder in (*self.folders.values(), *(path.parent for path in self.kept.values())):
                    made += [place for place in (folder, *folder.parents) if not place.exists()]
                    folder.mkdir(parents=True, exist_ok=True)
            except RunError as error:
                refused = str(error)
            except OSError as error:
                refused = f"Expected folders for the run and its result (got: {error})"
        refused = fabric.broadcast(refused)
        if refused is not None:
            raise RunError(refused)

    def _one(self, fabric: Fabric, seed: int, folder: Path, console: Console) -> dict[str, Any]:
        path, curve_path = folder / "result.json", folder / "curve.csv"
        if fabric.broadcast(path.exists()):  # what the first process sees: a folder on a network has many views
            result = read_run(folder)
            ours = {"row": self.recipe.name, "seed": seed, **asdict(self.settings)}
            theirs = {"row": result["row"], "seed": result["seed"], **asdict(settings_of(result, folder))}
            if theirs != ours:
                wanted, got = apart(ours, theirs)
                raise RunError(f"Expected the run in {folder} to have {wanted} (got one with {got})")
            if result.get("precision", self.options.precision) != self.options.precision:
                raise RunError(
                    f"Expected the run in {folder} to be in {self.options.precision} (got {result['precision']})"
                )
            self._check_kept(folder)
            if fabric.is_global_zero:
                mend_table(curve_path, result, lambda: curve_text(_curve_in(folder)))
                clear_partials(folder)
        else:
            if fabric.is_global_zero:
                clear_partials(folder)
            with shown(console, f"{self.recipe.name} seed {seed}") as show:
                result, curve = self._result(fabric, seed, folder, show)
            if fabric.is_global_zero:
                result = write_with_curve(path, curve_path, result, curve)
        if fabric.is_global_zero and self.results is not None:
            kept, curve = self.kept[seed], read_curve(curve_path, result)
            if kept.exists():
                mend_table(kept.with_suffix(".csv"), read_json(kept), lambda: curve_text(curve))
            else:
                write_result(self.results, result, curve)
        return result

    def _check_kept(self, folder: Path) -> None:
        """Refuse a finished run without the weights that are to be kept, which nothing can bring back."""
        every, kept = self.options.keep_every, epochs_in(folder)
        if every is not None and not set(range(0, self.settings.epochs + 1, every)) <= set(kept):
            raise RunError(
                f"Expected the run in {folder}, which is finished, to have kept its weights every {every} epochs "
                f"(got those of epochs {kept})"
            )

    def _result(
        self, fabric: Fabric, seed: int, folder: Path, show: Show
    ) -> tuple[dict[str, Any], list[dict[str, float]]]:
        start, before, origin = time.perf_counter(), 0.0, provenance(fabric.device)
        curve: list[dict[str, float]] = []
        sizes: dict[str, Any] = {}
        recipe, settings, options = self.recipe, self.settings, self.options
        if isinstance(recipe, SeparationRecipe):
            changed = replace(recipe, settings=settings)
            metrics = separate(changed, seed, fabric.device, show)
            sizes = {"protocol": recipe.protocol()}
        else:
            if self.engine is None:
                self.engine = make_engine(
                    recipe, settings, fabric, seed=seed, compile=options.compile, capture=options.capture
                )
            metrics, curve, before = _trained(self.engine, recipe, seed, folder, options, show)
            sizes = {"train_size": self.engine.data.train.size, "test_size": self.engine.data.test.size}
            sizes |= {"data": self.engine.task.source, "model": plain_description(self.engine.model)}
        result = {
            "row": recipe.name,
            "metrics": metrics,
            "paper": paper_number(recipe.name),
            "seed": seed,
            "epochs": settings.epochs,
            **sizes,
            "settings": asdict(settings),
            "changed": self.changed,
            "precision": options.precision,
            "processes": fabric.world_size,
            "wall_seconds": round(before + time.perf_counter() - start, 2),  # as train_seconds, which it includes
            **origin,
        }
        return json.loads(json.dumps(result)), curve  # as its file will have it: lists where there are tuples


def _same_run(path: Path, other: Path) -> bool:
    """Whether both files are there and hold results of the same run."""
    results = [read_json(file) for file in (path, other) if file.exists()]
    return len(results) == 2 and all(map(is_result, results)) and results[0]["date"] == results[1]["date"]


def _curve_in(folder: Path) -> list[dict[str, float]]:
    """The curve in a run's last checkpoint."""
    curve = load_checkpoint(folder / "checkpoint.pt").get("curve")
    return curve if curve and is_curve(curve) else []


def _trained(
    engine: Engine, recipe: Recipe, seed: int, folder: Path, options: Options, show: Show
) -> tuple[dict[str, Any], list[dict[str, float]], float]:
    """The metrics, the curve, and the seconds that were trained before, if the run is resumed."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415, slow to import, and only training writes

    training = Training(engine, recipe, seed, folder, options.checkpoint_every, options.keep_every, options.precision)
    if training.resume():
        show(training.epoch, engine.settings.epochs, "resumed")
    before, first = training.progress.seconds, training.epoch + 1
    events = str(folder / "tensorboard")
    with SummaryWriter(events, purge_step=first) if engine.fabric.is_global_zero else nullcontext() as writer:

        def listen(done: int, total: int, row: str | Mapping[str, float]) -> None:
            show(done, total, row)
            if writer is not None and not isinstance(row, str):
                for name, value in row.items():
                    if name not in ("epoch", "seconds"):
                        writer.add_scalar(name, value, done)

        return training.run(listen), training.progress.curve, before


def load_run(folder: Path, recipe: Recipe | SeparationRecipe, options: Options) -> Engine:
    """The engine of a finished run of the recipe, with the weights that its first metric chose.

    A run of no epochs has those that it began with.
    """
    if not isinstance(recipe, Recipe):
        raise RunError(f"Expected a recipe that trains (got {recipe.name!r})")
    result = read_run(folder)
    settings = settings_of(result, folder)
    engine = make_engine(recipe, settings, make_fabric(options))
    engine.kept_weights = KeptWeights(folder, partial(initial_weights, recipe, settings, result["seed"]))
    path = folder / "checkpoint.pt"
    state = load_checkpoint(path, engine.device)
    check_subject(path, state, subject(engine, recipe, result["seed"]))
    try:
        best = state["best"][next(iter(engine.task.selects))]["weights"] if settings.epochs else state["model"]
        engine.model.load_state_dict(best)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        raise RunError(f"Expected the best weights of a run in {folder} (got: {error!r})") from error
    engine.model.eval()
    return engine


def settings_of(result: Mapping[str, Any], folder: Path) -> Settings:
    """The settings of a run, from its result."""
    try:
        return Settings(**result["settings"])
    except TypeError as error:
        raise RunError(f"Expected the settings of a run in {folder} (got {result['settings']})") from error


def read_run(folder: Path) -> dict[str, Any]:
    """The result of a finished run."""
    path = folder / "result.json"
    if not path.is_file():
        raise RunError(f"Expected a finished run with a result.json in {folder} (got none)")
    result = read_json(path)
    missing = [name for name in (*FIELDS, "settings") if not isinstance(result, dict) or name not in result]
    if missing or not isinstance(result["settings"], dict):
        raise RunError(
            f"Expected {path} to be the result of a run (got one without {', '.join(missing) or 'settings'})"
        )
    check_result(path, result)
    return result
