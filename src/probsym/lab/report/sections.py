"""The parts of a report, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from probsym.lab.report.claims import SIGNS
from probsym.lab.report.costs import benchmark_grids, cost_grid
from probsym.lab.report.curves import curve_figures
from probsym.lab.report.document import Block, Cell, Document, Figure, Grid, Mark, Section, row_of
from probsym.lab.report.figures import drawn, figures, grouped, rows_of
from probsym.lab.report.gathered import Analysed, Gathered, Source
from probsym.lab.report.marks import ALL, LEGEND
from probsym.lab.report.names import counted, said, slug
from probsym.lab.report.other_figures import EQUIVARIANCE
from probsym.lab.report.paper_tables import control_grids, marks_of, other_grid, paper_grids

TITLE = "Probabilistic symmetrization: our numbers and the paper's"
LEAD = (
    "Made by probsym from result files and nothing else. Every number of ours leads to the file, command, commit and "
    "hardware that it came from.",
)
CHECKED = "check"
"""Rows of `testing.assert_equivariant`, as the demonstration writes them."""


def documented(gathered: Gathered, title: str = TITLE, lead: Sequence[str] = LEAD) -> Document:
    """The whole report."""
    grids = paper_grids(gathered)
    asked = [one for one in gathered.analyses if one.analysis not in (EQUIVARIANCE.analysis, CHECKED)]
    shown = figures(asked)
    evenness = _equivariance(gathered.analyses)
    other = other_grid(gathered)
    controls = control_grids(gathered)
    benchmarks = benchmark_grids(gathered.benchmarks)
    sections = (
        Section("At a glance", "glance", _glance(gathered, grids, [*shown, *evenness])),
        Section("The paper's tables", "tables", [LEGEND, *grids] if grids else []),
        Section("What separation counts are worth", "controls", [CONTROLS, *controls] if controls else []),
        Section("Rows beside the paper's", "others", [other] if other else []),
        Section("Learning curves", "curves", curve_figures(gathered.runs)),
        Section("What trained models say", "figures", shown),
        Section("Equivariance", "equivariance", evenness),
        Section("Cost", "cost", [cost_grid(gathered)]),
        Section("Benchmarks", "benchmarks", [BENCHMARKS, *benchmarks] if benchmarks else []),
        Section("Where the numbers come from", "provenance", _provenance(gathered)),
    )
    return Document(title, lead, [one for one in sections if one.blocks])


CONTROLS = (
    "A pair that is left is not separated. By the paper's protocol a graph may be “separated” from a relabelled copy "
    "of itself as well, by the noise of the draws alone: these are the copies apart. The calibrated protocol is a test "
    "at 5 % for each row."
)
BENCHMARKS = "Every number of every benchmark file, the latest file first."


def _glance(gathered: Gathered, grids: Sequence[Grid], shown: Sequence[Block]) -> list[Block]:
    tasks = dict.fromkeys(run.name.task for run in gathered.runs)
    rows = {run.row for run in gathered.runs}
    blocks: list[Block] = [
        f"{counted(len(gathered.runs), 'run')} of {counted(len(rows), 'row')} in {counted(len(tasks), 'task')}: "
        f"{', '.join(tasks)}."
    ]
    tally = Counter(marks_of(grids))
    if tally:
        words = ", ".join(f"{tally[mark]} {mark.words} ({mark.sign})" for mark in ALL if mark in tally)
        blocks.append(f"Beside the paper's numbers, ours are: {words}.")
    judged = [(figure, claim) for figure in shown if isinstance(figure, Figure) for claim in figure.claims]
    claims = [
        row_of(Cell(claim.claim, link=figure.anchor), figure.title, _state(claim.verdict.state))
        for figure, claim in judged
    ]
    if claims:
        blocks.append(
            Grid("What the paper claims, and what our rows say", ("claim", "figure", "our rows"), claims, words=3)
        )
    return blocks


def _state(state: str) -> Cell:
    return Cell(state, mark=Mark(slug(state), SIGNS[state], ""))


def _equivariance(files: Sequence[Analysed]) -> list[Block]:
    found: list[Block] = [drawn(EQUIVARIANCE, group, rows_of(group)) for group in grouped(EQUIVARIANCE, files)]
    checked = [
        row_of(
            Cell(file.row, file.changed, link=file.anchor),
            *(said(row.get(name), 2) for name in ("examples", "error")),
            f"{said(row.get('left_out'))} of {said(row.get('draws'))}",
        )
        for file in files
        if file.analysis == CHECKED
        for row in file.rows
    ]
    if checked:
        found.append(
            "The error is the largest relative difference between the outputs for an input and for a moved copy, draw "
            "by draw, with the noise moved along. Draws in which two scores are so close that rounding may swap them "
            "are left out."
        )
        found.append(Grid("Checked draw by draw", ("row", "examples", "equivariance error", "draws left out"), checked))
    return found


def _provenance(gathered: Gathered) -> list[Block]:
    kinds: dict[str, list[tuple[str, Source]]] = {}
    for run in gathered.runs:
        words = f"{run.row}, seed {run.content['seed']}" + (f", {run.changed}" if run.changed else "")
        kinds.setdefault(f"Runs: {run.name.task}", []).append((words, run))
    for one in gathered.analyses:
        of = f" of {one.row}, seed {one.seed}" if one.row else ""
        kinds.setdefault(f"Analyses: {one.name.task or 'of no run'}", []).append((f"{one.analysis}{of}", one))
    for source in gathered.benchmarks:
        kinds.setdefault("Benchmarks", []).append((str(source.content.get("benchmark", "")), source))
    head = ("what", "file", "date", "hardware", "torch", "commit", "command")
    return [
        Grid(
            title,
            head,
            [row_of(words, source.file, *(_origin(source, name) for name in head[2:])) for words, source in some],
            anchors=[source.anchor for _, source in some],
            words=len(head),
        )
        for title, some in kinds.items()
    ]


def _origin(source: Source, name: str) -> str:
    """As the file has it, but for what is longer than it says."""
    text = str(source.content.get(name, ""))
    if name == "date":
        return text[:16].replace("T", " ")
    return text[:12] + text[40:] if name == "commit" else text
