"""What every analysis is given, and where its rows go."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from probsym.errors import RangeError
from probsym.lab.engine import Engine
from probsym.lab.progress import Show
from probsym.lab.provenance import provenance
from probsym.lab.results import result_path, write_new

Row = dict[str, Any]


@dataclass(frozen=True)
class Questions:
    """How much is asked.

    Args:
        examples: of the test set, from its first on; all if None.
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
            value = getattr(self, name)
            if value is not None and value < 1:
                raise RangeError(f"Expected {name} to be 1 or more (got {value})")


class Analysis(Protocol):
    """A function of a trained model with its data: rows of a table, all with the same names."""

    def __call__(self, engine: Engine, questions: Questions, show: Show) -> list[Row]: ...


def write_analysis(
    folder: Path, name: str, result: Mapping[str, Any], rows: Sequence[Row], questions: Questions, engine: Engine
) -> Path:
    """Write the rows beside the result of their run: `seed-N.NAME.json`, which says where they came from, and CSV."""
    path = result_path(folder, result["row"], result["seed"], result.get("changed"))
    path = path.with_name(f"{path.stem}.{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    of = {"analysis": name, "run": {key: result.get(key) for key in ("row", "seed", "changed", "commit", "date")}}
    write_new(path, {**of, "rows": list(rows), "questions": asdict(questions), **provenance(engine.device)})
    with path.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
