"""What every analysis is given, and where its rows go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from probsym._internal.json_file import read_object
from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.engine import Engine
from probsym.lab.examples import Examples, Stored
from probsym.lab.json_with_table import mend_table, table_text, write_new
from probsym.lab.kept_weights import KeptWeights
from probsym.lab.provenance import provenance
from probsym.lab.results import result_path
from probsym.ops.argument_checks import check_size
from probsym.symmetrized import Symmetrized

AT_ONCE = 4_000
"""Rows of the base in one call, so that memory stays small."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Questions:
    """How much is asked.

    Args:
        examples: of the set that is asked about, mostly the test set, from its first on; all if None.
        samples: draws, at most.
        repeats: how often with draws of their own.
        seed: of the draws.
    """

    examples: int | None = None
    samples: int = 200
    repeats: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("examples", "samples", "repeats"):
            if getattr(self, name) is not None:
                check_size(getattr(self, name), name)


class Analysis(Protocol):
    """A function of a trained model with its data: rows of a table, all with the same names."""

    def __call__(self, engine: Engine, questions: Questions, show: Show) -> list[Row]: ...


class Study(Protocol):
    """The same without a run: of models and data of its own, on a device."""

    def __call__(self, device: torch.device, questions: Questions, show: Show) -> list[Row]: ...


def test_set(engine: Engine, questions: Questions) -> tuple[Stored, int, dict[str, Tensor]]:
    """The test set, how many of it are asked about, and the parts that the task tells apart, booleans over these.

    Parts without an example among them are left out.
    """
    examples = engine.data.test
    count = asked_of(examples, questions)
    parts = {"all": torch.ones(count, dtype=torch.bool)}
    parts |= {name: part[:count].cpu() for name, part in engine.task.test_parts().items()}
    return examples, count, {name: part for name, part in parts.items() if part.any()}


def asked_of(part: Stored, questions: Questions) -> int:
    """How many examples of a set are asked about."""
    return part.size if questions.examples is None else min(questions.examples, part.size)


def in_parts(examples: Stored, count: int, draws: int) -> Iterator[Examples]:
    """The first examples, so few at a time that with these draws of each the base has `AT_ONCE` rows at most."""
    step = max(1, AT_ONCE // draws)
    for start in range(0, count, step):
        yield examples.take(slice(start, min(start + step, count)))


def after(before: int, show: Show, total: int, note: str) -> Callable[[int], None]:
    """What to tell how much is done of a part, where so much was done before it."""
    return lambda done: show(before + done, total, note)


def weights_of(engine: Engine) -> KeptWeights:
    """What the run of a model can tell of its earlier weights, refused where there is no run."""
    if engine.kept_weights is None:
        raise RunError("Expected the model of a run (got one from elsewhere, whose earlier weights nobody knows)")
    return engine.kept_weights


def kept_weights_of(engine: Engine) -> KeptWeights:
    """The same, refused unless weights were kept over training."""
    kept = weights_of(engine)
    if not kept.epochs:
        raise RunError(f"Expected a run that kept its weights, by `train --keep-every` (got none in {kept.folder})")
    return kept


def drawing_model(engine: Engine) -> Symmetrized:
    """The model, refused unless it averages over draws."""
    if not isinstance(engine.model, Symmetrized) or not engine.draws:
        raise RunError("Expected a model that averages over draws (got one that draws nothing, or once)")
    return engine.model


def redrawing_model(engine: Engine) -> Symmetrized:
    """The same, refused also if its noise is fixed: repeats say nothing of the variance where all are the same."""
    model = drawing_model(engine)
    if fixed_noise(engine):
        raise RunError("Expected a model that draws anew in every repeat (got one whose noise is fixed)")
    return model


def fixed_noise(engine: Engine) -> bool:
    """Whether the draws are a function of the example, so that they differ among each other but not by repeat."""
    model = engine.model
    return isinstance(model, Symmetrized) and bool(getattr(model.sampler, "fixed_noise", False))


def differing(engine: Engine, questions: Questions) -> Questions:
    """The questions with one repeat where all would be the same, whose deviation would look like certainty."""
    return replace(questions, repeats=1) if fixed_noise(engine) else questions


def precise(targets: Tensor) -> Tensor:
    """Targets in float64, or as they are if they are classes."""
    return targets.double() if targets.is_floating_point() else targets


def numbers_of(losses: Tensor) -> Row:
    """Of losses (repeats, examples): their mean, and its standard error over repeats and over examples.

    `spread` is what the draws leave open, and `stderr` what the size of the test set does; None where one of either is
    too few to tell.
    """
    repeats, examples = losses.shape
    spread = float(losses.mean(1).std()) / repeats**0.5 if repeats > 1 else None
    stderr = float(losses.mean(0).std()) / examples**0.5 if examples > 1 else None
    return {"loss": float(losses.mean()), "spread": spread, "stderr": stderr}


def analysis_path(folder: Path, name: str, result: Mapping[str, Any]) -> Path:
    """Where the rows of an analysis belong, refused if there are some: `seed-N.NAME.json` beside the result."""
    path = result_path(folder, result["row"], result["seed"], result.get("changed"))
    path = path.with_name(f"{path.stem}.{name}.json")
    if path.exists():
        content = read_object(path)
        mend_table(path.with_suffix(".csv"), content, lambda: table_text(content.get("rows") or []))
        raise RunError(f"Expected no analysis at {path}, which is never overwritten (got one)")
    return path


def study(questions: Questions) -> dict[str, Any]:
    """What stands for the result of a run where there is none: rows of studies go to `figures/seed-N.NAME.json`."""
    return {"row": "figures", "seed": questions.seed}


def write_analysis(
    folder: Path,
    name: str,
    result: Mapping[str, Any],
    rows: Sequence[Row],
    questions: Mapping[str, Any],
    device: torch.device,
) -> Path:
    """Write the rows beside the result of their run, with what was asked and where they came from, and as CSV."""
    path = analysis_path(folder, name, result)
    run = {key: result.get(key) for key in ("row", "seed", "changed", "commit", "date")} if "date" in result else None
    of = {"analysis": name, "run": run, "rows": list(rows), "questions": dict(questions)}
    write_new(path, {**of, **provenance(device)}, path.with_suffix(".csv"), table_text(rows))
    return path
