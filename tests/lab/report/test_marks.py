"""Better, worse, or no different as far as seeds tell."""

from __future__ import annotations

import pytest

from probsym.lab.report.marks import AHEAD, ALL, BEHIND, BETTER, LEGEND, NOISE, SAME, WORSE, judged


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
def test_judgements(ours: tuple[float, float | None, int], paper: float, larger: bool, wanted: object) -> None:
    assert judged(ours, paper, larger) == wanted


def test_few_seeds_say_less_than_many() -> None:
    assert judged((95.0, 1.0, 2), 90.0, larger=True) == NOISE
    assert judged((95.0, 1.0, 3), 90.0, larger=True) == BETTER
    assert judged((92.5, 1.0, 10), 90.0, larger=True) == BETTER
    assert judged((92.5, 1.0, 40), 90.0, larger=True) == BETTER


def test_the_scatter_of_evaluations_counts_for_a_single_seed() -> None:
    assert judged((49.7, None, 1), 50.0, True, evaluations=0.5) == NOISE
    assert judged((48.7, None, 1), 50.0, True, evaluations=0.5) == BEHIND


def test_every_sign_is_explained() -> None:
    assert len({one.sign for one in ALL}) == len(ALL)
    assert all(one.sign in LEGEND for one in ALL)
