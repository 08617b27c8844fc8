"""Claims about models that were trained with different numbers of draws: which of these it takes, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from probsym.lab.report.claims import MIXED, OPEN, SUPPORTED, combined, summed_up
from probsym.lab.report.document import Verdict
from probsym.lab.report.falling import error_of_mean, fall
from probsym.lab.report.gathered import Analysed, Row
from probsym.lab.report.groups import Judge, apart, means, pairs_of, shared, with_number
from probsym.lab.report.names import number, said

PAPER_DRAWS = (1, 2, 5, 10, 20, 50)
LEAST = 4
COVERAGE = "It takes models trained with 4 of the paper's 6 numbers of draws, with 1 and with 20 or 50 among them."
RISING = (
    "Supported if it rises from the fewest to the most draws in training, and with every step between but one, at the "
    f"most draws that all models were asked with. {COVERAGE}"
)

Told = tuple[Verdict, Iterable[float]]
"""A verdict, and the numbers of training draws that it was told from."""


def of_learned(tell: Callable[[list[list[Row]]], Told]) -> Judge:
    """A judge of models that learned a distribution, apart for each row and settings; only if enough were trained."""

    def group(files: Sequence[Analysed]) -> Verdict:
        verdict, draws = tell([file.rows for file in files])
        there = _there(draws)
        if not _enough(there):
            missing = ", ".join(str(one) for one in PAPER_DRAWS if one not in there)
            return Verdict(OPEN, f"from {len(there)} of {len(PAPER_DRAWS)}: nothing with {missing} draws in training")
        return Verdict(verdict.state, f"{verdict.numbers} (from {len(there)} of {len(PAPER_DRAWS)})")

    def judge(files: Sequence[Analysed]) -> Verdict:
        return apart([file for file in files if file.name.method == "ps"], group, training_draws=True)

    return judge


def accuracy_above(least: float, draws: int) -> Judge:
    """That every number of training draws comes to some accuracy, mean over seeds."""

    def tell(files: list[list[Row]]) -> Told:
        rows = [row for some in files for row in with_number(some, "draws", draws)]
        points = means(pairs_of(rows, "train_draws", "accuracy"))
        numbers = ", ".join(f"{said(value)} % with {said(train)}" for train, value in points)
        return summed_up([value > least for _, value in points], numbers), [train for train, _ in points]

    return of_learned(tell)


def rises(column: str, words: str) -> Judge:
    """That a number, at the most draws that all were asked with, is larger the more draws a model was trained with."""

    def tell(files: list[list[Row]]) -> Told:
        most = shared(files, "draws")[-1:]
        rows = [row for some in files for draws in most for row in with_number(some, "draws", draws)]
        points = means(pairs_of(rows, "train_draws", column))
        holds = [b > a for (_, a), (_, b) in pairwise(points)]
        numbers = f"{words} " + ", ".join(f"{said(value, 3)} with {said(train)}" for train, value in points)
        found = summed_up(holds, numbers)
        # one step back in a rising row is still a tendency, which is what was claimed
        if found.state == MIXED and points[-1][1] > points[0][1] and sum(holds) == len(holds) - 1:
            found = Verdict(SUPPORTED, f"{numbers}: rising but for one step")
        return found, [train for train, _ in points]

    return of_learned(tell)


def loss_falls() -> Judge:
    """That the mean loss of every model falls with the draws in inference."""

    def tell(files: list[list[Row]]) -> Told:
        draws = shared(files, "draws")
        rows = [row for some in files for row in some if number(row.get("draws")) in draws]
        trained = sorted({train for row in rows if (train := number(row.get("train_draws"))) is not None})
        found = {one: fall(with_number(rows, "train_draws", one), "loss_mean", error_of_mean) for one in trained}
        verdict = combined([(f"trained with {said(train)}", one) for train, one in found.items()])
        told = _there(train for train, one in found.items() if one.state != OPEN)
        return verdict if _enough(told) else Verdict(OPEN, verdict.numbers), trained

    return of_learned(tell)


def one_draw_trains_worst() -> Judge:
    """That the model trained with one draw has the largest loss, at every number of draws that all were asked with."""

    def tell(files: list[list[Row]]) -> Told:
        rows = [row for some in files for row in some]
        holds, trained = [], list[set[float]]()
        for draws in shared(files, "draws"):
            losses = dict(means(pairs_of(with_number(rows, "draws", draws), "train_draws", "loss_mean")))
            trained.append(set(losses))
            if 1 in losses and len(losses) > 1:
                holds.append(losses[1] > max(value for train, value in losses.items() if train != 1))
        numbers = f"the largest loss at {sum(holds)} of {len(holds)} numbers of draws" if holds else ""
        return summed_up(holds, numbers), set.intersection(*trained) if trained else ()

    return of_learned(tell)


def _there(draws: Iterable[float]) -> list[int]:
    found = set(draws)
    return [one for one in PAPER_DRAWS if one in found]


def _enough(there: Sequence[int]) -> bool:
    return len(there) >= LEAST and 1 in there and (20 in there or 50 in there)
