"""Judge the claims of `figures.toml`: each is a list of pairs of numbers, of which the first should be the smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from probsym.lab.report.document import Judgement, Mark
from probsym.lab.report.load import File
from probsym.lab.report.rows import Join, RunRows, along, averages, chosen, grouped, most_shared, with_value
from probsym.lab.text import brief, number

SUPPORTED = Mark("supported", "✓", "supported")
MIXED = Mark("mixed", "±", "mixed")
REFUTED = Mark("not-supported", "✗", "not supported")
OPEN = Mark("cannot-be-told", "?", "cannot be told")

Pairs = list[tuple[float, float]]


@dataclass(frozen=True)
class Claim:
    """What is claimed, the rule in words, and the rule as data; `figures.toml` says what the fields mean."""

    text: str
    rule: str
    kind: Literal["above", "rises", "falls", "higher", "lower", "within"]
    y: str
    x: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    most: str = ""
    each: str = ""
    since: float = 0.0
    until: float = 1.0
    column: str = "method"
    ours: str | float = "ps"
    theirs: Sequence[str | float] = ()
    bound: float = 1.0
    of: Sequence[str] = ()
    least: int = 1
    join: Join = ""


def judge(claim: Claim, files: Sequence[File], paper: str = "") -> Judgement:
    """What these files say of a claim: supported if all pairs do, mixed if some, not supported if none.

    Runs that do not belong together are never averaged, and those with too few pairs are left out.
    """
    groups = grouped(files, claim.join, methods=claim.kind not in ("higher", "lower"))
    compared = {label: KINDS[claim.kind](claim, chosen(group, claim.where)) for label, group in groups.items()}
    told = {label: pairs for label, pairs in compared.items() if len(pairs) >= claim.least}
    if not told:
        most = max(map(len, compared.values()), default=0)
        return Judgement(claim.text, claim.rule, OPEN, f"{most} of the {claim.least} comparisons that it takes", paper)
    holds = [smaller < larger for pairs in told.values() for smaller, larger in pairs]
    mark = SUPPORTED if all(holds) else MIXED if any(holds) else REFUTED
    return Judgement(claim.text, claim.rule, mark, _spoken(told, holds), paper)


def _spoken(told: Mapping[str, Pairs], holds: Sequence[bool]) -> str:
    """How many pairs hold, and which do not; the first and the last if all do."""
    words = [
        f"{label}: {brief(smaller)} < {brief(larger)}" if len(told) > 1 else f"{brief(smaller)} < {brief(larger)}"
        for label, pairs in told.items()
        for smaller, larger in pairs
    ]
    count = f"{sum(holds)} of {len(holds)} hold"
    if all(holds):
        return f"{count}, {' to '.join(dict.fromkeys((words[0], words[-1])))}"
    fails = [text for text, held in zip(words, holds, strict=True) if not held]
    return f"{count}, not {', '.join(fails[:3])}{', …' if len(fails) > 3 else ''}"


def _above(claim: Claim, runs: Sequence[RunRows]) -> Pairs:
    """The bound, and y at every x."""
    return [(claim.bound, value) for value in averages(runs, claim.x, claim.y).values()]


def _rises(claim: Claim, runs: Sequence[RunRows]) -> Pairs:
    """From each x to the next."""
    return list(pairwise(averages(most_shared(runs, claim.most), claim.x, claim.y).values()))


def _falls(claim: Claim, runs: Sequence[RunRows]) -> Pairs:
    """The last, and the bound times the first: for each value of a column if one is named, until a share of the way."""
    apart = (
        [with_value(runs, claim.each, value) for value in along(runs, claim.each, claim.y)] if claim.each else [runs]
    )
    pairs = []
    for some in apart:
        points = {x: y for x, y in averages(some, claim.x, claim.y).items() if isinstance(x, float)}
        ends = [end for run in some for row in run.rows if (end := number(row.get(f"{claim.x}s")))]  # a run's epochs
        kept = [y for x, y in points.items() if x <= claim.until * max([*ends, *points])]
        if len(kept) > 1:
            pairs.append((kept[-1], claim.bound * kept[0]))
    return pairs


def _lower(claim: Claim, runs: Sequence[RunRows]) -> Pairs:
    """Ours, and the bound times the best of theirs, at every x that all have, since a share of the way.

    The other way round for `higher`.
    """
    ours, *theirs = (
        averages(most_shared(with_value(runs, claim.column, name), claim.most), claim.x, claim.y)
        for name in (claim.ours, *claim.theirs)
    )
    theirs = [some for some in theirs if some]
    common = [x for x in ours if theirs and all(x in some for some in theirs)]
    start = claim.since * max((x for x in common if isinstance(x, float)), default=0.0)
    common = [x for x in common if isinstance(x, str) or x >= start]
    if claim.kind == "higher":
        return [(claim.bound * max(some[x] for some in theirs), ours[x]) for x in common]
    return [(ours[x], claim.bound * min(some[x] for some in theirs)) for x in common]


def _within(claim: Claim, runs: Sequence[RunRows]) -> Pairs:
    """Y, and the bound times the first of other columns that a row has; what is not finite is beyond any bound."""
    pairs = []
    for row in (row for run in runs for row in run.rows):
        size = next((size for name in claim.of if (size := number(row.get(name)))), None)
        value = row.get(claim.y)
        if size is not None and isinstance(value, float):
            pairs.append((float("inf") if number(value) is None else value, claim.bound * size))
    return pairs


KINDS: dict[str, Callable[[Claim, Sequence[RunRows]], Pairs]] = {
    "above": _above,
    "rises": _rises,
    "falls": _falls,
    "higher": _lower,
    "lower": _lower,
    "within": _within,
}
