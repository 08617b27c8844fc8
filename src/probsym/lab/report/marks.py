"""Whether our number is better than the paper's, worse, or no different as far as can be told."""

from __future__ import annotations

import math

from probsym.lab.report.document import Mark

SAME = Mark("same", "=", "the same")
NOISE = Mark("noise", "≈", "within noise")
BETTER = Mark("better", "▲", "better")
WORSE = Mark("worse", "▼", "worse")
AHEAD = Mark("ahead", "△", "better from one seed")
BEHIND = Mark("behind", "▽", "worse from one seed")
ALL = (BETTER, WORSE, NOISE, SAME, AHEAD, BEHIND)

LEGEND = (
    "▲ better than the paper, ▼ worse, = the same; ≈ no further apart than seeds are: the paper's number lies where "
    "one more run of ours would be expected, at 95 %. △ and ▽ are better and worse from a single seed, whose noise is "
    "not known; ≈ is then said if repeated evaluations of that run scatter as far."
)

_QUANTILES = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Of Student's distribution at 97.5 %, from one degree of freedom on; 2.23 at ten, and falling."""


def judged(ours: tuple[float, float | None, int], paper: float, larger: bool, evaluations: float | None = None) -> Mark:
    """How our mean, deviation and number of seeds compare with the paper's number.

    The paper's number is taken as one more run: the difference from our mean then has the deviation of a run, times
    `sqrt(1 + 1 / seeds)`. `evaluations` is the deviation of repeated evaluations of a single run.

    >>> judged((99.07, 0.15, 3), 100.0, larger=True).words, judged((73.5, 11.0, 3), 79.5, larger=True).words
    ('worse', 'within noise')
    """
    mean, deviation, seeds = ours
    apart = mean - paper
    if math.isclose(mean, paper, rel_tol=1e-6, abs_tol=1e-12):
        return SAME
    if deviation is None:
        if evaluations is not None and abs(apart) <= 2 * evaluations:
            return NOISE
        return AHEAD if (apart > 0) == larger else BEHIND
    quantile = _QUANTILES[seeds - 2] if seeds - 2 < len(_QUANTILES) else 2.23
    if abs(apart) <= quantile * deviation * math.sqrt(1 + 1 / seeds):
        return NOISE
    return BETTER if (apart > 0) == larger else WORSE
