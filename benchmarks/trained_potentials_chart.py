"""Pictures and tables of `trained_potentials.py` and of the results of its runs, for `docs/potentials.md`.

Run: python benchmarks/trained_potentials_chart.py [--results results] [--docs docs]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from probsym.lab.colours import COLOURS
from probsym.lab.pictures.picture import check_place, save
from probsym.lab.results import read_curve, result_path

FILE = "benchmarks/trained_potentials_cpu.json"
PAGE, CURVES = "potentials.md", "pictures/acetylacetone-curves.png"
PATHS, ERRORS = "pictures/acetylacetone-paths.png", "pictures/acetylacetone-errors.png"
BEGIN, END = "<!-- begin: trained_potentials_chart.py -->\n", "<!-- end: trained_potentials_chart.py -->\n"
AXES = {"dihedral": "angle of the turn about a bond, degrees", "h_transfer": "difference of O-H distances, Å"}
KINDS = {"energy": "energy, meV", "forces": "forces, meV/Å"}
SETS = {"300k": "300 K", "600k": "600 K"}
METRICS = [f"test_{kind}_{name}" for name in SETS for kind in KINDS]
METRICS += [f"test_energy_{path}" for path in AXES]


class Tested(NamedTuple):
    """A run, or one with other elements in the test."""

    name: str
    seed: int
    epochs: int
    passes: int
    metrics: dict[str, float]


def tested(result: dict[str, Any], results: Path) -> list[Tested]:
    """All runs with their errors, which the folder of results has."""
    rows = []
    for run in result["runs"]:
        own = json.loads(result_path(results, run["row"], run["seed"], run["changed"]).read_text())
        for elements, row in run["elements"].items():
            name = method(run) if elements == run["own"] else f"{method(run)}, {elements}"
            metrics = own["metrics"] if elements == run["own"] else row.get("errors")
            if metrics is not None:
                rows.append(Tested(name, run["seed"], own["epochs"], row["passes"], metrics))
    return rows


def method(run: dict[str, Any]) -> str:
    """How a run was trained."""
    return str(run["row"]).rpartition("-")[2]


def paths_chart(result: dict[str, Any]) -> Figure:
    """A panel for each path: the reference, and each run as far as it stays near."""
    figure, runs = Figure(figsize=(10.8, 4.0), layout="constrained"), result["runs"]
    panels = figure.subplots(1, len(AXES))
    for panel, (path, label) in zip(panels, AXES.items(), strict=True):
        at, reference = (result["paths"][path][name] for name in ("coordinate", "energy_mev"))
        panel.plot(at, reference, "k", lw=2, label="reference")
        for place, name in enumerate(dict.fromkeys(method(run) for run in runs)):
            for i, run in enumerate(run for run in runs if method(run) == name):
                panel.plot(at, run["paths_mev"][path], color=COLOURS[place], lw=1, label=None if i else name)
        panel.set_xlabel(label)
        panel.set_ylim(-max(reference), 3 * max(reference))
    panels[0].set_ylabel("energy, meV")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]), fontsize=8)
    return figure


def errors_chart(rows: Sequence[Tested]) -> Figure:
    """A panel for energies and one for forces: bars by method at both temperatures, dots for seeds."""
    figure = Figure(figsize=(10.8, 4.0), layout="constrained")
    names, width = list(dict.fromkeys(row.name for row in rows)), 0.38
    panels = figure.subplots(1, len(KINDS))
    for panel, (kind, label) in zip(panels, KINDS.items(), strict=True):
        for place, (temperature, title) in enumerate(SETS.items()):
            for i, name in enumerate(names):
                values = [row.metrics[f"test_{kind}_{temperature}"] for row in rows if row.name == name]
                at = i + (place - 0.5) * width
                panel.bar(at, statistics.mean(values), width, color=COLOURS[place], label=None if i else title)
                panel.plot([at] * len(values), values, "k.", ms=3)
        panel.set_xticks(range(len(names)), [name.replace(", ", "\n", 1) for name in names], rotation=30, fontsize=8)
        panel.set_ylabel(f"root mean square error of {label}")
    panels[0].legend(fontsize=8)
    return figure


def curves_chart(runs: Sequence[dict[str, Any]], results: Path) -> Figure:
    """The loss in validation of each run by the share of its calls of the base, of which all runs have equally many."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    panel = figure.subplots()
    for place, name in enumerate(dict.fromkeys(map(method, runs))):
        for i, run in enumerate(run for run in runs if method(run) == name):
            path = result_path(results, run["row"], run["seed"], run["changed"]).with_suffix(".csv")
            curve = [row for row in read_curve(path) if "valid_loss" in row]
            at = [row["epoch"] / curve[-1]["epoch"] for row in curve]
            losses = [row["valid_loss"] for row in curve]
            panel.plot(at, losses, color=COLOURS[place], lw=1, label=None if i else name)
    panel.set_yscale("log")
    panel.set_xlabel("share of the calls in training")
    panel.set_ylabel("loss in validation")
    panel.legend(fontsize=8, ncols=2)
    return figure


def tables(result: dict[str, Any], results: Path) -> str:
    """What the page has between its two comments."""
    heads = ["trained with", "seed", "epochs", "passes in a test"]
    heads += [f"{label.partition(',')[0]}, {title}" for title in SETS.values() for label in KINDS.values()]
    errors: list[list[Any]] = [[*heads, "dihedral", "proton"]]
    errors += [[*row[:-1], *(f"{row.metrics[name]:.1f}" for name in METRICS)] for row in tested(result, results)]
    span = f"{result['picoseconds']:g} ps"
    motions: list[list[Any]] = [["trained with", "seed", "elements", "passes", *KINDS.values(), "conservative"]]
    motions[0] += ["force error, eV/Å", f"rise in {span}, meV", "largest change, meV"]
    for run in result["runs"]:
        for elements, row in run["elements"].items():
            cells = [method(run), run["seed"], elements, row["passes"]]
            cells += [_short(row[f"spread_{kind}_mev"]) for kind in KINDS]
            cells += ["yes" if row["conservative"] else "no"]
            keys = ("largest_force_error", "drift_mev", "largest_mev")
            motions.append([*cells, *(_short(row[key]) if key in row else "" for key in keys)])
    pictures = (
        f"![Root mean square errors of energies and forces at 300 K and 600 K by method]({ERRORS})\n",
        f"![Energies along both paths, reference and every method]({PATHS})\n",
        f"![Loss in validation of every method during training]({CURVES})\n",
    )
    files = f"Numbers are from `results/acetylacetone` and `results/{FILE}`.\n"
    return "\n".join((_table(errors), *pictures, _table(motions), files))


def _short(number: float) -> str:
    """Two digits, or all before the point."""
    return f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"


def _table(rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def block_of(page: str) -> str:
    """What stands between the two comments of a page."""
    return page[page.index(BEGIN) + len(BEGIN) : page.index(END)]


def with_block(page: str, text: str) -> str:
    """The page with another text between its comments."""
    return page[: page.index(BEGIN) + len(BEGIN)] + text + page[page.index(END) :]


def main() -> None:
    """Draw results from files, and write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    given = parser.parse_args()
    result = json.loads((given.results / FILE).read_text())
    for picture in (PATHS, ERRORS, CURVES):
        check_place(given.docs / picture)
    save(paths_chart(result), given.docs / PATHS)
    save(errors_chart(tested(result, given.results)), given.docs / ERRORS)
    save(curves_chart(result["runs"], given.results), given.docs / CURVES)
    page = given.docs / PAGE
    page.write_text(with_block(page.read_text(), tables(result, given.results)))


if __name__ == "__main__":
    main()
