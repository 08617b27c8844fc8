"""Better, worse, or no different as far as seeds tell."""

from __future__ import annotations

import math

import pytest

from probsym.lab.report.comparison import AHEAD, BEHIND, BETTER, LEGEND, MARKS, NOISE, SAME, WORSE, compare
from probsym.lab.report.document import Mark
from probsym.lab.results import Summary


@pytest.mark.parametrize(
    ("ours", "paper", "larger", "wanted"),
    [
        ((99.0, 0.1, 3), 90.0, True, BETTER),
        ((99.0, 0.1, 3), 90.0, False, WORSE),
        ((80.0, 0.1, 3), 90.0, True, WORSE),
        ((80.0, 5.0, 3), 90.0, True, NOISE),
        ((80.0, 5.0, 3), 90.0, False, NOISE),
        ((90.0, 5.0, 3), 90.0, True, SAME),
        ((0.0, 0.0, 3), 0.0, False, SAME),
        ((1.0, 0.0, 3), 0.0, False, WORSE),
        ((99.0, None, 1), 90.0, True, AHEAD),
        ((99.0, None, 1), 90.0, False, BEHIND),
        ((90.0, None, 1), 90.0, True, SAME),
    ],
)
def test_marks(ours: tuple[float, float | None, int], paper: float, larger: bool, wanted: Mark) -> None:
    assert kind(ours, paper, larger) == wanted.kind


def kind(ours: tuple[float, float | None, int], paper: float, larger: bool = True, scatter: float | None = None) -> str:
    mark = compare(Summary(*ours), paper, larger, scatter)
    assert mark is not None
    return mark.kind


def test_few_seeds_say_less_than_many() -> None:
    assert kind((95.0, 1.0, 2), 90.0) == NOISE.kind
    assert kind((95.0, 1.0, 3), 90.0) == BETTER.kind
    assert kind((92.5, 1.0, 10), 90.0) == BETTER.kind
    assert kind((92.5, 1.0, 40), 90.0) == BETTER.kind


@pytest.mark.parametrize(("seeds", "half"), [(2, 15.56), (3, 4.969), (10, 2.372), (11, 2.329)])
def test_the_paper_is_one_more_run(seeds: int, half: float) -> None:
    """Student's quantile times the deviation of the difference between a run and a mean of runs."""
    assert kind((90 + half - 0.01, 1.0, seeds), 90.0) == NOISE.kind
    assert kind((90 + half + 0.01, 1.0, seeds), 90.0) == BETTER.kind


def test_how_far_is_not_told_apart_is_said() -> None:
    mark = compare(Summary(80.0, 5.0, 3), 90.0, larger=True)
    assert mark is not None
    assert (mark.words, mark.detail) == ("cannot be told apart", "90 lies within 80 ± 25")


def test_the_scatter_of_evaluations_counts_for_a_single_seed() -> None:
    assert kind((49.7, None, 1), 50.0, scatter=0.5) == NOISE.kind
    assert kind((49.1, None, 1), 50.0, scatter=0.5) == NOISE.kind
    assert kind((48.9, None, 1), 50.0, scatter=0.5) == BEHIND.kind
    assert kind((49.7, None, 1), 50.0) == BEHIND.kind


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_compare(value: float) -> None:
    assert compare(Summary(value, None, 1), 50.0, larger=True) is None


def test_every_sign_is_explained() -> None:
    assert len({mark.sign for mark in MARKS}) == len(MARKS)
    assert all(mark.sign in LEGEND for mark in MARKS)
