"""The parts of a report, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probsym.lab.report.claims import SIGNS
from probsym.lab.report.costs import benchmark_grids, cost_grid
from probsym.lab.report.curves import curve_figures
from probsym.lab.report.document import Block, Cell, Document, Figure, Grid, Mark, Section, row_of
from probsym.lab.report.figures import drawn, figures, grouped, rows_of
from probsym.lab.report.gathered import CHECKED, Analysed, Gathered, Run, Source
from probsym.lab.report.marks import ALL, LEGEND
from probsym.lab.report.names import counted, said, slug
from probsym.lab.report.other_figures import EQUIVARIANCE
from probsym.lab.report.paper_tables import NOT_FINITE, control_grids, other_grid, paper_grids, tally

TITLE = "Probabilistic symmetrization: our numbers and the paper's"
LEAD = (
    "Made by probsym from result files and nothing else. Every number of ours leads to the file, command, commit and "
    "hardware that it came from.",
)


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
        Section("At a glance", "glance", _glance(gathered, [*shown, *evenness])),
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


def _glance(gathered: Gathered, shown: Sequence[Block]) -> list[Block]:
    tasks = dict.fromkeys(run.name.task for run in gathered.runs)
    rows = {run.row for run in gathered.runs}
    blocks: list[Block] = [
        f"{counted(len(gathered.runs), 'run')} of {counted(len(rows), 'row')} in {counted(len(tasks), 'task')}: "
        f"{', '.join(tasks)}."
    ]
    counts = tally(gathered)
    if counts:
        words = [f"{counts[mark.kind]} {mark.words} ({mark.sign})" for mark in ALL if mark.kind in counts]
        words += [f"{counts[NOT_FINITE]} {NOT_FINITE}"] if NOT_FINITE in counts else []
        blocks.append(f"Beside the paper's numbers, ours with nothing changed are: {', '.join(words)}.")
    blocks += _older(gathered)
    judged = [(figure, claim) for figure in shown if isinstance(figure, Figure) for claim in figure.claims]
    for title, papers in (("What the paper claims", True), ("What we claim ourselves", False)):
        claims = [
            row_of(Cell(claim.claim, link=figure.anchor), figure.title, _state(claim.verdict.state))
            for figure, claim in judged
            if bool(claim.paper) == papers
        ]
        if claims:
            head = ("claim", "figure", "our rows")
            blocks.append(Grid(f"{title}, and what our rows say", head, claims, words=len(head)))
    return blocks


def _older(gathered: Gathered) -> Iterator[str]:
    """Which files do not count, since there are newer ones of the same."""
    for one in gathered.older_runs:
        newer = next(run for run in gathered.runs if run.key == one.key)
        precisions = [str(run.content.get("precision", "not known")) for run in (one, newer)]
        words = (
            f" The one in precision {precisions[0]}, the other in {precisions[1]}." if len(set(precisions)) > 1 else ""
        )
        yield f"Run twice: {_words(one)}. {one.file} does not count beside the newer {newer.file}.{words}"
    for asked in gathered.older_analyses:
        latest = next(other for other in gathered.analyses if other.key == asked.key)
        of = f"{asked.analysis} of {_words(asked)}"
        yield f"Asked twice: {of}. {asked.file} does not count beside the newer {latest.file}."


def _words(one: Run | Analysed) -> str:
    return f"{one.row}, seed {one.seed}" + (f", {one.changed}" if one.changed else "")


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
    for run in (*gathered.runs, *gathered.older_runs):
        kinds.setdefault(f"Runs: {run.name.task}", []).append((_words(run), run))
    for one in (*gathered.analyses, *gathered.older_analyses):
        of = f" of {_words(one)}" if one.row else ""
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
