"""Whether our number is better than the paper's, worse, or no different as far as can be told."""

from __future__ import annotations

import math

from probsym.lab.report.document import Mark
from probsym.lab.report.names import said
from probsym.lab.results import Summary

SAME = Mark("same", "=", "the same")
NOISE = Mark("noise", "≈", "cannot be told apart")
BETTER = Mark("better", "▲", "better")
WORSE = Mark("worse", "▼", "worse")
AHEAD = Mark("ahead", "△", "better from one seed")
BEHIND = Mark("behind", "▽", "worse from one seed")
ALL = (BETTER, WORSE, NOISE, SAME, AHEAD, BEHIND)

LEGEND = (
    "▲ better than the paper, ▼ worse, = the same; ≈ cannot be told apart: the paper's number lies where one more run "
    "of ours would be expected, at 95 %. That is far for few seeds: 16 of their deviations to either side for two "
    "seeds, 5 for three, 2.4 for ten; the page has it as a number with every ≈. △ and ▽ are better and worse from a "
    "single seed, whose noise is not known; ≈ is then said if the paper's number is within two deviations of repeated "
    "evaluations of that run. Where settings were changed, nothing of this is said."
)

_QUANTILES = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Of Student's distribution at 97.5 %, from one degree of freedom on; 2.23 at ten, and falling."""


def judged(ours: Summary, paper: float, larger: bool, evaluations: float | None = None) -> Mark | None:
    """How our mean, deviation and number of seeds compare with the paper's number; None if ours is not finite.

    The paper's number is taken as one more run: the difference from our mean then has the deviation of a run, times
    `sqrt(1 + 1 / seeds)`. `evaluations` is the deviation of repeated evaluations of a single run.

    >>> fixed = judged(Summary(73.5, 11.0, 3), 79.5, larger=True)
    >>> fixed.words, fixed.detail
    ('cannot be told apart', '79.5 lies within 73.5 ± 55')
    >>> judged(Summary(99.07, 0.15, 3), 100.0, larger=True).words
    'worse'
    """
    mean, deviation, seeds, _ = ours
    if not math.isfinite(mean):
        return None
    if math.isclose(mean, paper, rel_tol=1e-6, abs_tol=1e-12):
        return SAME
    apart, half = abs(mean - paper), 2 * (evaluations or 0.0)
    if deviation is not None:
        quantile = _QUANTILES[seeds - 2] if seeds - 2 < len(_QUANTILES) else 2.23
        half = quantile * deviation * math.sqrt(1 + 1 / seeds)
    if apart <= half:
        return NOISE._replace(detail=f"{said(paper)} lies within {said(mean)} ± {said(half, 2)}")
    better = (mean > paper) == larger
    if deviation is None:
        return AHEAD if better else BEHIND
    return BETTER if better else WORSE
