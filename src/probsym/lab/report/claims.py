"""A claim in our words, the rule that judges it, and what a judgement can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probsym.lab.report.document import Judged, Verdict
from probsym.lab.report.gathered import Analysed

SUPPORTED, MIXED, REFUTED, OPEN = "supported", "mixed", "not supported", "cannot be told"
SIGNS = {SUPPORTED: "✓", MIXED: "±", REFUTED: "✗", OPEN: "?"}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of our own, the rule by which rows support it, and that rule as a function."""

    text: str
    rule: str
    judge: Callable[[Sequence[Analysed]], Verdict]

    def on(self, files: Sequence[Analysed], paper: str = "") -> Judged:
        """What these rows say of it; with the figure of the paper that claims it, if one does."""
        return Judged(self.text, self.rule, self.judge(files), paper)


def summed_up(holds: Sequence[bool], numbers: str) -> Verdict:
    """All, some or none."""
    if not holds:
        return Verdict(OPEN, numbers or "nothing to compare")
    return Verdict(SUPPORTED if all(holds) else MIXED if any(holds) else REFUTED, numbers)


def combined(parts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """What several groups of runs say together, each by its title: mixed if they disagree, each with what it says.

    Groups of which nothing can be told do not count beside others.
    """
    if not parts:
        return Verdict(OPEN, "nothing to compare")
    told = {verdict.state for _, verdict in parts} - {OPEN}
    state = OPEN if not told else told.pop() if len(told) == 1 else MIXED
    apart = len({verdict.state for _, verdict in parts}) > 1
    texts = []
    for title, (said, numbers) in parts:
        text = f"{said}, {numbers}" if apart else numbers
        texts.append(f"{title}: {text}" if title else text)
    return Verdict(state, "; ".join(texts))
