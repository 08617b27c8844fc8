"""The sections of a report, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probsym.lab.report.comparison import LEGEND, MARKS
from probsym.lab.report.costs import cost_grid
from probsym.lab.report.curves import curve_figures
from probsym.lab.report.document import Block, Cell, Document, Figure, Grid, Section, cells
from probsym.lab.report.figures import figures
from probsym.lab.report.load import File, ReportData, by_key
from probsym.lab.report.paper_tables import NOT_FINITE, NOT_RUN, control_grids, other_grid, paper_grids, tally
from probsym.lab.text import counted

TITLE = "Probabilistic symmetrization: our numbers and the paper's"
LEAD = (
    "Made by probsym from result files and nothing else. Every number of ours leads to the file, command, commit and "
    "hardware that it came from.",
)
CONTROLS = (
    "A pair that is left is not separated. By the paper's protocol a graph may be “separated” from a relabelled copy "
    "of itself as well, by the noise of the draws alone: these are the copies apart. The calibrated protocol is a test "
    "at 5 % for each row."
)
ORIGIN = ("date", "hardware", "torch", "commit", "command")


def document(data: ReportData, title: str = TITLE, lead: Sequence[str] = LEAD) -> Document:
    """The whole report."""
    shown = figures(data.analyses)
    other = other_grid(data)
    sections = (
        Section("At a glance", "glance", list(_glance(data, shown))),
        Section("The paper's tables", "tables", _explained(LEGEND, paper_grids(data))),
        Section("What separation counts are worth", "controls", _explained(CONTROLS, control_grids(data))),
        Section("Rows beside the paper's", "others", [other] if other else []),
        Section("Learning curves", "curves", curve_figures(data.runs)),
        Section("What trained models say", "figures", shown),
        Section("Cost", "cost", [cost_grid(data)]),
        Section("Where the numbers come from", "provenance", list(_provenance(data))),
    )
    return Document(title, lead, [section for section in sections if section.blocks])


def _explained(text: str, grids: Sequence[Grid]) -> list[Block]:
    return [text, *grids] if grids else []


def _glance(data: ReportData, shown: Sequence[Block]) -> Iterator[Block]:
    tasks = dict.fromkeys(run.name.task for run in data.runs)
    rows = counted(len({run.row for run in data.runs}), "row")
    yield f"{counted(len(data.runs), 'run')} of {rows} in {counted(len(tasks), 'task')}: {', '.join(tasks)}."
    counts = tally(data)
    kinds = [f"{counts[mark.kind]} {mark.words} ({mark.sign})" for mark in MARKS if mark.kind in counts]
    kinds += [f"{counts[kind]} {kind}" for kind in (NOT_FINITE, NOT_RUN) if kind in counts]
    if set(counts) - {NOT_RUN}:
        yield f"Beside the paper's numbers, ours with nothing changed are: {', '.join(kinds)}."
    for file in data.older:
        newer = next(other for other in (*data.runs, *data.analyses) if other.key == file.key)
        note = f"There are two of {file.title}. {file.file} does not count beside the newer {newer.file}."
        old, new = (str(either.content.get("precision", "not known")) for either in (file, newer))
        yield note + (f" The precision of the older is {old}, of the newer {new}." if old != new else "")
    judged = [(figure, claim) for figure in shown if isinstance(figure, Figure) for claim in figure.claims]
    for title, of_paper in (("What the paper claims", True), ("What we claim ourselves", False)):
        claims = [
            cells(Cell(claim.claim, link=figure.anchor), figure.title, Cell(claim.mark.words, mark=claim.mark))
            for figure, claim in judged
            if bool(claim.paper) == of_paper
        ]
        if claims:
            yield Grid(f"{title}, and what our rows say", ("claim", "figure", "our rows"), claims, words=3)


def _provenance(data: ReportData) -> Iterator[Grid]:
    def kind_of(file: File) -> str:
        return f"Analyses: {file.name.task or 'of no run'}" if file.analysis else f"Runs: {file.name.task}"

    kinds = by_key(sorted((*data.runs, *data.analyses, *data.older), key=lambda file: bool(file.analysis)), kind_of)
    for kind, files in kinds.items():
        rows = [cells(file.title, file.file, *(_origin(file, name) for name in ORIGIN)) for file in files]
        head = ("what", "file", *ORIGIN)
        yield Grid(kind, head, rows, anchors=[file.anchor for file in files], words=len(head))


def _origin(file: File, name: str) -> str:
    text = str(file.content.get(name, ""))
    if name == "date":
        return text[:16].replace("T", " ")
    return text[:12] + text[40:] if name == "commit" else text  # what follows a commit says that files were changed
