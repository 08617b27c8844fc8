"""Running recipes: devices, processes, folders, results."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from rich.console import Console

from probsym.errors import RunError
from probsym.lab.checkpoint import load_checkpoint
from probsym.lab.engine import Engine
from probsym.lab.paper import paper_number
from probsym.lab.progress import shown, spoken
from probsym.lab.provenance import provenance
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.results import write_curve, write_result
from probsym.lab.separation import SeparationRecipe, separate
from probsym.lab.training import Training, make_engine


@dataclass(frozen=True)
class Options:
    """How to run, as against what.

    Args:
        device: "cpu", "cuda" or "auto".
        processes: that train together, each on its own device or core.
        precision: "tf32" for float32 with TF32 products where the device has them, or one of Fabric's, such as
            "32-true" or "bf16-mixed".
        compile, capture: as for `Engine`; "auto" captures and compiles on one GPU.
        checkpoint_every: seconds.
    """

    device: str = "auto"
    processes: int = 1
    precision: str = "32-true"
    compile: bool = False
    capture: bool = False
    checkpoint_every: float = 60.0


def make_fabric(options: Options) -> Fabric:
    """The device, and the processes that work together."""
    if options.device not in ("auto", "cpu", "cuda"):
        raise RunError(f"Expected the device to be auto, cpu or cuda (got {options.device!r})")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise RunError("Expected a CUDA device (got none)")
    device = "cuda" if options.device == "auto" and torch.cuda.is_available() else options.device
    device = "cpu" if device == "auto" else device
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    return Fabric(
        accelerator=device,
        devices=options.processes,
        strategy="ddp_spawn" if options.processes > 1 else "auto",
        precision="32-true" if options.precision == "tf32" else options.precision,  # type: ignore[arg-type]
    )


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

    A seed that has a result already is refused, or passed over with `resume`; one that was interrupted goes on.
    """
    options, console = options or Options(), console or Console()
    folders = {seed: folder / recipe.name / f"seed-{seed}" for seed in seeds}
    for seed, one in folders.items():
        if not resume and one.exists() and any(one.iterdir()):
            raise RunError(f"Expected {one} to be empty, or to resume (got a run of seed {seed})")
        if results is not None and (results / recipe.name / f"seed-{seed}.json").exists() and not resume:
            raise RunError(f"Expected no result of {recipe.name}, seed {seed}, in {results} (got one)")
    fabric = make_fabric(options)
    arguments = (recipe, folders, tuple(changes), options, results, console)
    if options.processes > 1:
        fabric.launch(_run_all, *arguments)  # type: ignore[arg-type]  # each process has its own fabric; results are read back from their files
        return [json.loads((one / "result.json").read_text()) for one in folders.values()]
    return _run_all(fabric, *arguments)


def _run_all(
    fabric: Fabric,
    recipe: Recipe | SeparationRecipe,
    folders: dict[int, Path],
    changes: tuple[str, ...],
    options: Options,
    results: Path | None,
    console: Console,
) -> list[dict[str, Any]]:
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    settings = recipe.settings.changed(changes)
    engine: Engine | None = None
    found = []
    for seed, folder in folders.items():
        path = folder / "result.json"
        if path.exists():
            found.append(json.loads(path.read_text()))
            continue
        curve: list[dict[str, float]] = []
        sizes: dict[str, int] = {}
        with shown(console, f"{recipe.name} seed {seed}") as show:
            start = time.perf_counter()
            if isinstance(recipe, SeparationRecipe):
                metrics = separate(recipe, seed, fabric.device, lambda done, total: show(done, total, "random models"))
            else:
                if engine is None:
                    engine = make_engine(recipe, settings, fabric, compile=options.compile, capture=options.capture)
                metrics, curve = _trained(engine, recipe, seed, folder, options, show)
                sizes = {"train_size": engine.data.train.size, "test_size": engine.data.test.size}
        result = {
            "row": recipe.name,
            "metrics": metrics,
            "paper": paper_number(recipe.name),
            "seed": seed,
            "epochs": settings.epochs,
            **sizes,
            "settings": asdict(settings),
            "changed": settings.differences(recipe.settings),
            "precision": options.precision,
            "wall_seconds": round(time.perf_counter() - start, 1),
            **provenance(fabric.device),
        }
        found.append(result)
        if fabric.global_rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            if curve:
                write_curve(folder / "curve.csv", curve)
            with path.open("x") as file:
                file.write(json.dumps(result, indent=1) + "\n")
            if results is not None:
                write_result(results, result, curve)
    return found


def _trained(
    engine: Engine, recipe: Recipe, seed: int, folder: Path, options: Options, show: Any
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415, slow to import, and only training writes

    training = Training(engine, recipe, seed, folder, options.checkpoint_every)
    if training.resume():
        show(training.epoch, engine.settings.epochs, "resumed")
    writer = (
        SummaryWriter(str(folder / "tensorboard"), purge_step=training.epoch) if engine.fabric.is_global_zero else None
    )

    def listen(done: int, total: int, row: dict[str, float]) -> None:
        show(done, total, spoken(row))
        if writer is not None:
            for name, value in row.items():
                if name not in ("epoch", "seconds"):
                    writer.add_scalar(name, value, done)

    try:
        metrics = training.run(listen)
    finally:
        if writer is not None:
            writer.close()
    return metrics, training.progress.curve


def load_run(folder: Path, recipe: Recipe | SeparationRecipe, options: Options) -> Engine:
    """The engine of a finished run of the recipe, with the weights that its first metric chose."""
    if not isinstance(recipe, Recipe):
        raise RunError(f"Expected a recipe that trains (got {recipe.name!r})")
    engine = make_engine(recipe, Settings(**read_run(folder)["settings"]), make_fabric(options))
    state = load_checkpoint(folder / "checkpoint.pt", engine.device)
    engine.model.load_state_dict(next(iter(state["best"].values()))["weights"])
    return engine


def read_run(folder: Path) -> dict[str, Any]:
    """The result of a finished run."""
    path = folder / "result.json"
    if not path.is_file():
        raise RunError(f"Expected a finished run with a result.json in {folder} (got none)")
    return json.loads(path.read_text())
