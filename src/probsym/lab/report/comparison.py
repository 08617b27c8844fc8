"""Whether our number is better than the paper's, worse, or no different as far as can be told."""

from __future__ import annotations

import math

from scipy.special import stdtrit

from probsym.lab.report.document import Mark
from probsym.lab.results import Summary
from probsym.lab.text import brief

SAME = Mark("same", "=", "the same")
NOISE = Mark("noise", "≈", "cannot be told apart")
BETTER = Mark("better", "▲", "better")
WORSE = Mark("worse", "▼", "worse")
AHEAD = Mark("ahead", "△", "better from one seed")
BEHIND = Mark("behind", "▽", "worse from one seed")
MARKS = (BETTER, WORSE, NOISE, SAME, AHEAD, BEHIND)

LEGEND = (
    "▲ better than the paper, ▼ worse, = the same. ≈ cannot be told apart: the paper's number lies in the 95 % "
    "prediction interval for one more run of ours. With few seeds this interval is wide: 16 standard deviations over "
    "the seeds to either side for two seeds, 5 for three, 2.4 for ten. Every ≈ states its interval. △ better and ▽ "
    "worse, from a single seed, so the noise between seeds is not known; here ≈ means that the paper's number is "
    "within two standard deviations of repeated evaluations of that run. Runs with changed settings are not compared."
)


def compare(ours: Summary, paper: float, larger: bool, evaluations: float | None = None) -> Mark | None:
    """How our mean over seeds compares with the paper's number; None if ours is not finite.

    The paper's number is taken as one more run: the difference from our mean then has the deviation of a run, times
    `sqrt(1 + 1 / seeds)`. `larger` says whether more is better, `evaluations` is the deviation of repeated evaluations
    of a single run.

    >>> compare(Summary(73.5, 11.0, 3), 79.5, larger=True).detail
    '79.5 lies within 73.5 ± 55'
    >>> compare(Summary(99.07, 0.15, 3), 100.0, larger=True).words
    'worse'
    """
    mean, deviation, seeds, _ = ours
    if not math.isfinite(mean):
        return None
    if math.isclose(mean, paper, rel_tol=1e-6, abs_tol=1e-12):
        return SAME
    if deviation is None:
        half = 2 * (evaluations or 0.0)
    else:
        half = float(stdtrit(seeds - 1, 0.975)) * deviation * math.sqrt(1 + 1 / seeds)
    if abs(mean - paper) <= half:
        return NOISE._replace(detail=f"{brief(paper)} lies within {brief(mean)} ± {brief(half, 2)}")
    better = (mean > paper) == larger
    if deviation is None:
        return AHEAD if better else BEHIND
    return BETTER if better else WORSE
