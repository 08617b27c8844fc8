"""How rows of analyses support a claim: one function a claim, from rows to a verdict with its numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from probsym.lab.report.claims import MIXED, SUPPORTED, summed_up
from probsym.lab.report.document import Verdict
from probsym.lab.report.drawing import most_draws
from probsym.lab.report.gathered import Analysed, Row, labels_of
from probsym.lab.report.names import number, said


def pairs_of(rows: Iterable[Row], x: str, y: str) -> list[tuple[float, float]]:
    """Numbers of two columns, in the order of the first; rows that lack one are passed over."""
    found = [(number(row.get(x)), number(row.get(y))) for row in rows]
    return sorted((a, b) for a, b in found if a is not None and b is not None)


def means(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """One point for each x, in order: the mean of those that share it."""
    by_x: dict[float, list[float]] = {}
    for x, y in points:
        by_x.setdefault(x, []).append(y)
    return [(x, statistics.fmean(by_x[x])) for x in sorted(by_x)]


def entropy_drops_early(files: Sequence[Analysed]) -> Verdict:
    """By a twentieth or more within the first quarter of the epochs, and more than half of the way to its least."""
    holds, numbers = [], []
    for file in files:
        points = pairs_of(file.rows, "epoch", "row_entropy")
        if file.name.method != "ps" or len(points) < 3:
            continue
        first, (start, last) = points[0][1], (points[0][0], points[-1][0])
        early = min(value for epoch, value in points if epoch <= start + (last - start) / 4)
        least = min(value for _, value in points)
        holds.append(first - early >= max(0.05 * first, 0.5 * (first - least)))
        values = [said(one, 3) for one in (first, early, least)]
        numbers.append("{}: {} at first, down to {} in the first quarter and to {} ever".format(file.row, *values))
    return summed_up(holds, "; ".join(numbers))


def accuracy_above(least: float, draws: int) -> Callable[[Sequence[Analysed]], Verdict]:
    """That every number of training draws comes to some accuracy."""

    def judge(files: Sequence[Analysed]) -> Verdict:
        rows = [row for file in files for row in file.rows if row.get("draws") == draws]
        points = pairs_of(rows, "train_draws", "accuracy")
        numbers = ", ".join(f"{said(value)} % with {said(train)}" for train, value in points)
        return summed_up([value > least for _, value in points], numbers)

    return judge


def rises_with_training_draws(column: str, words: str) -> Callable[[Sequence[Analysed]], Verdict]:
    """That a number, at the most draws that were asked for, is larger the more draws a model was trained with."""

    def judge(files: Sequence[Analysed]) -> Verdict:
        points = means([point for file in files for point in pairs_of(most_draws(file.rows), "train_draws", column)])
        holds = [b > a for (_, a), (_, b) in pairwise(points)]
        ends = [points[-1][1] > points[0][1]] if len(points) > 1 else []
        numbers = f"{words} " + ", ".join(f"{said(value, 3)} with {said(train)}" for train, value in points)
        found = summed_up(holds, numbers)
        # one step back in a rising row is still a tendency, which is what was claimed
        if found.state == MIXED and all(ends) and sum(holds) >= len(holds) - 1 and len(holds) > 2:
            return Verdict(SUPPORTED, f"{numbers}: rising but for one step")
        return found

    return judge


def falls_with_draws(column: str, margin: str = "") -> Callable[[Sequence[Analysed]], Verdict]:
    """That a number falls with the draws in every run, apart from twice the margins of its own."""

    def judge(files: Sequence[Analysed]) -> Verdict:
        holds, numbers, labels = [], [], labels_of(files)
        for file in files:
            rows = [row for row in file.rows if row.get("part", "all") == "all"]
            rows = [row for row in rows if row.get("coupling", "independent") == "independent"]
            points, margins = pairs_of(rows, "draws", column), dict(pairs_of(rows, "draws", margin))
            if len(points) < 2:
                continue
            steps = [b - a <= 2 * (margins.get(m, 0) + margins.get(n, 0)) for (m, a), (n, b) in pairwise(points)]
            holds.append(all(steps) and points[-1][1] < points[0][1])
            numbers.append(f"{labels[file.anchor]}: {said(points[0][1], 3)} to {said(points[-1][1], 3)}")
        return summed_up(holds, "; ".join(numbers))

    return judge


def one_draw_trains_worst(files: Sequence[Analysed]) -> Verdict:
    """That the model trained with one draw has the largest loss at every number of draws."""
    rows = [row for file in files for row in file.rows]
    holds = []
    for draws in sorted({number(row.get("draws")) or 0 for row in rows}):
        losses = dict(means(pairs_of([row for row in rows if row.get("draws") == draws], "train_draws", "loss_mean")))
        if 1 in losses and len(losses) > 1:
            holds.append(losses[1] == max(losses.values()))
    return summed_up(holds, f"the largest loss at {sum(holds)} of {len(holds)} numbers of draws" if holds else "")


def lower_with_ps(*columns: str) -> Callable[[Sequence[Analysed]], Verdict]:
    """That a learned distribution has less of each than a uniform one, at every number of draws."""

    def judge(files: Sequence[Analysed]) -> Verdict:
        rows = [row for file in files for row in file.rows]
        holds, numbers = [], []
        for column in columns:
            ps, ga = (
                dict(
                    means(
                        [
                            point
                            for row in rows
                            if row.get("method") == one
                            for point in pairs_of([row], "draws", column)
                        ]
                    )
                )
                for one in ("ps", "ga")
            )
            ratios = [ps[draws] / ga[draws] for draws in sorted(set(ps) & set(ga)) if ga[draws] > 0]
            holds += [one < 1 for one in ratios]
            if ratios:
                share = f"{said(min(ratios), 2)} to {said(max(ratios), 2)}"
                numbers.append(f"{column.replace('_', ' ')} of PS over that of GA: {share}")
        return summed_up(holds, "; ".join(numbers))

    return judge


def larger_gradients_with_ps(files: Sequence[Analysed]) -> Verdict:
    """At every epoch that a pair of runs of the same base, settings and seed shares."""
    holds: list[bool] = []
    numbers = []
    for ps, ga in _rivals(files):
        ours, theirs = (dict(pairs_of(one.rows, "epoch", "norm")) for one in (ps, ga))
        common = sorted(set(ours) & set(theirs))
        larger = [ours[epoch] > theirs[epoch] for epoch in common]
        holds += larger
        if common:
            middle = statistics.median(ours[epoch] / theirs[epoch] for epoch in common if theirs[epoch] > 0)
            numbers.append(
                f"{ps.row}: larger at {sum(larger)} of {len(common)} epochs, {said(middle, 3)} times (median)"
            )
    return summed_up(holds, "; ".join(numbers))


def closer_inside_orbits(files: Sequence[Analysed]) -> Verdict:
    """That nodes of one orbit lie at least twice as close with draws as with a single element, graph by graph."""
    rows = [row for file in files for row in file.rows]
    holds, numbers = [], []
    for graph in dict.fromkeys(str(row.get("graph")) for row in rows):
        spread = {}
        for method in ("ps", "canonical"):
            chosen = most_draws([row for row in rows if (str(row.get("graph")), row.get("method")) == (graph, method)])
            values = [value for value in (number(row.get("spread")) for row in chosen) if value is not None]
            if values:
                spread[method] = statistics.fmean(values)
        if len(spread) == 2:
            holds.append(2 * spread["ps"] <= spread["canonical"])
            numbers.append(f"{graph}: {said(spread['ps'], 3)} (PS) against {said(spread['canonical'], 3)}")
    return summed_up(holds, "; ".join(numbers))


def more_concentrated(files: Sequence[Analysed]) -> Verdict:
    """That a learned distribution is less spread than as many uniform draws, by one per cent or more."""
    holds, numbers = [], []
    for file in files:
        for row in file.rows:
            model, uniform = number(row.get("model")), number(row.get("uniform"))
            if model is not None and uniform:
                holds.append(model <= 0.99 * uniform)
                numbers.append(f"{file.row}, {row.get('group')}, {row.get('measure')}: {said(model / uniform, 3)}")
    return summed_up(holds, f"as a share of uniform draws: {'; '.join(numbers)}" if numbers else "")


def equivariant(files: Sequence[Analysed]) -> Verdict:
    """That with the noise moved along no output changes by more than a millionth of what the move changes."""
    holds, worst = [], (0.0, "")
    for file in files:
        for row in file.rows:
            largest, change = number(row.get("largest")), number(row.get("change"))
            if largest is not None and change:
                holds.append(largest <= 1e-6 * change)
                worst = max(worst, (largest / change, f"{file.row}, {row.get('move')}"))
    numbers = f"{sum(holds)} of {len(holds)} moves; at most {said(worst[0], 2)} of the change, for {worst[1]}"
    return summed_up(holds, numbers if holds else "")


def _rivals(files: Sequence[Analysed]) -> Iterator[tuple[Analysed, Analysed]]:
    for ps in files:
        for ga in files:
            same = (ps.name.task, ps.name.base, ps.seed, ps.changed) == (
                ga.name.task,
                ga.name.base,
                ga.seed,
                ga.changed,
            )
            if same and (ps.name.method, ga.name.method) == ("ps", "ga"):
                yield ps, ga
