"""How rows of analyses support a claim: one function a claim, from rows to a verdict with its numbers.

Claims about draws in training are in `training_draws`, those about falling numbers in `falling`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import chain

from probsym.lab.report.claims import OPEN, REFUTED, SUPPORTED, combined, summed_up
from probsym.lab.report.document import Verdict
from probsym.lab.report.gathered import Analysed, Row, labels_of
from probsym.lab.report.groups import Judge, apart, means, pairs_of, shared, with_number
from probsym.lab.report.names import number, said

PAPER_GRAPHS = ("S_6", "S_3 x S_2", "D_4")
FEWEST_DRAWS, FEWEST_EPOCHS = 4, 5
TOLERANCE = 1e-6


def entropy_drops_early(files: Sequence[Analysed]) -> Verdict:
    """By a twentieth or more within the first quarter of the epochs, and by half of the way to its least or more."""
    ps = [file for file in files if file.name.method == "ps"]
    labels = labels_of(ps)
    return combined([(labels[file.anchor], _entropy_drop(file.rows)) for file in ps])


def _entropy_drop(rows: Sequence[Row]) -> Verdict:
    points = pairs_of(rows, "epoch", "row_entropy")
    lengths = [value for name in ("epochs", "epoch") for row in rows if (value := number(row.get(name)))]
    early = [value for epoch, value in points if lengths and epoch <= max(lengths) / 4]
    if len(early) < 2 or len(points) == len(early):
        kept = f"{len(early)} of {len(points)} kept epochs"
        return Verdict(OPEN, f"{kept} in the first quarter, where it takes 2 and one later")
    first, least = points[0][1], min(value for _, value in points)
    values = [said(one, 3) for one in (first, min(early), least)]
    holds = first - min(early) >= max(0.05 * first, 0.5 * (first - least))
    return summed_up([holds], "{} at first, down to {} in the first quarter and to {} ever".format(*values))


def lower_with_ps(*columns: str) -> Judge:
    """That a learned distribution has less of each than a uniform one, at every number of draws, mean over seeds."""

    def group(files: Sequence[Analysed]) -> Verdict:
        holds, numbers, fewest = list[bool](), list[str](), 0
        for column in columns:
            lists = [
                [row for row in file.rows if row.get("method") == method and number(row.get(column)) is not None]
                for file in files
                for method in ("ps", "ga")
            ]
            draws = shared(lists, "draws")
            ps, ga = (dict(means(pairs_of(chain(*lists[place::2]), "draws", column))) for place in (0, 1))
            holds += [ps[one] < ga[one] for one in draws]
            fewest = len(draws) if not numbers else min(fewest, len(draws))
            ratios = [ps[one] / ga[one] for one in draws if ga[one] > 0]
            share = f"{said(min(ratios), 3)} to {said(max(ratios), 3)}" if ratios else "GA has none"
            numbers.append(f"{column.replace('_', ' ')} of PS over that of GA: {share}")
        if fewest < FEWEST_DRAWS:
            return Verdict(OPEN, f"{fewest} numbers of draws in common, where it takes {FEWEST_DRAWS}")
        return summed_up(holds, "; ".join(numbers))

    return lambda files: apart(files, group)


def larger_gradients_with_ps(files: Sequence[Analysed]) -> Verdict:
    """At every epoch that a pair of runs of the same base, settings and seed shares."""
    labels, parts = labels_of(files), []
    for ps, ga in _rivals(files):
        ours, theirs = (dict(pairs_of(one.rows, "epoch", "norm")) for one in (ps, ga))
        common = sorted(set(ours) & set(theirs))
        beyond = sum(epoch > 0 for epoch in common)
        if beyond < FEWEST_EPOCHS:
            verdict = Verdict(OPEN, f"{beyond} epochs in common beyond the first, where it takes {FEWEST_EPOCHS}")
        else:
            larger = [ours[epoch] > theirs[epoch] for epoch in common]
            ratios = [ours[epoch] / theirs[epoch] for epoch in common if theirs[epoch] > 0]
            times = f"{said(statistics.median(ratios), 3)} times (median)" if ratios else "those of GA are all 0"
            verdict = summed_up(larger, f"larger at {sum(larger)} of {len(common)} epochs, {times}")
        parts.append((labels[ps.anchor], verdict))
    return combined(parts)


def closer_inside_orbits(files: Sequence[Analysed]) -> Verdict:
    """That nodes of one orbit lie at least twice as close with draws as with a single element, graph by graph."""

    def group(files: Sequence[Analysed]) -> Verdict:
        holds, numbers, missing = [], [], []
        for graph in PAPER_GRAPHS:
            spread = [_spread(files, graph, method) for method in ("ps", "canonical")]
            ps, canonical = spread
            if ps is None or canonical is None:
                missing.append(graph)
            else:
                holds.append(2 * ps <= canonical)
                numbers.append(f"{graph}: {said(ps, 3)} (PS) against {said(canonical, 3)}")
        if missing:
            return Verdict(OPEN, f"nothing to compare for {', '.join(missing)}")
        return summed_up(holds, "; ".join(numbers))

    return apart(files, group)


def _spread(files: Sequence[Analysed], graph: str, method: str) -> float | None:
    """At the most draws that all files have for it, mean over these."""
    lists = [[row for row in file.rows if (row.get("graph"), row.get("method")) == (graph, method)] for file in files]
    most = shared(lists, "draws")[-1:]
    points = [
        point
        for some in lists
        for one in most
        for point in pairs_of(with_number(some, "draws", one), "draws", "spread")
    ]
    return means(points)[0][1] if points else None


def more_concentrated(files: Sequence[Analysed]) -> Verdict:
    """That a learned distribution is less spread than as many uniform draws, by one per cent or more."""
    holds, numbers, labels = [], [], labels_of(files)
    for file in files:
        for row in file.rows:
            model, uniform = number(row.get("model")), number(row.get("uniform"))
            if model is not None and uniform:
                holds.append(model <= 0.99 * uniform)
                what = f"{labels[file.anchor]}, {row.get('group')}, {row.get('measure')}"
                numbers.append(f"{what}: {said(model / uniform, 3)}")
    return summed_up(holds, f"as a share of uniform draws: {'; '.join(numbers)}" if numbers else "")


def equivariant(files: Sequence[Analysed]) -> Verdict:
    """That with the noise moved along no output is off by more than a millionth of the size of the predictions.

    Files that lack this size are judged by what the move changes, unless it changes nothing.
    """
    labels = labels_of(files)
    return combined([(labels[file.anchor], _kept(file.rows)) for file in files])


def _kept(rows: Sequence[Row]) -> Verdict:
    """Whether one model is equivariant: under every move."""
    broken, unknown, off = list[str](), list[str](), list[tuple[float, str]]()
    for row in rows:
        move, largest = str(row.get("move")), number(row.get("largest"))
        name = next((one for one in ("scale", "change") if number(row.get(one))), None)
        if largest is not None and name is not None:
            share = largest / float(row[name])
            off.append((share, f"{said(share, 2)} of the {'predictions' if name == 'scale' else 'change'} for {move}"))
            broken += [move] if not share <= TOLERANCE else []
        elif isinstance(row.get("largest"), float) and largest is None:
            broken.append(f"{move} (not finite)")
        else:
            unknown.append(move)
    numbers = [f"{len(rows) - len(broken) - len(unknown)} of {len(rows)} moves"]
    numbers += [f"at most {max(off)[1]}"] if off else []
    numbers += [f"broken by {', '.join(broken)}"] if broken else []
    numbers += [f"no size to compare with for {', '.join(unknown)}"] if unknown else []
    return Verdict(REFUTED if broken else OPEN if unknown or not rows else SUPPORTED, ", ".join(numbers))


def _rivals(files: Sequence[Analysed]) -> Iterator[tuple[Analysed, Analysed]]:
    def alike(one: Analysed) -> tuple[object, ...]:
        return one.name.task, one.name.base, one.seed, one.changed

    for ps in files:
        for ga in files:
            if alike(ps) == alike(ga) and (ps.name.method, ga.name.method) == ("ps", "ga"):
                yield ps, ga
