"""A claim of the paper in our words, the rule that judges it, and what a judgement can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probsym.lab.report.document import Judged, Verdict
from probsym.lab.report.gathered import Analysed

SUPPORTED, MIXED, REFUTED, OPEN = "supported", "mixed", "not supported", "cannot be told"
SIGNS = {SUPPORTED: "✓", MIXED: "±", REFUTED: "✗", OPEN: "?"}


@dataclass(frozen=True)
class Claim:
    """A claim, the rule by which rows support it in words, and the same as a function of them."""

    text: str
    rule: str
    judge: Callable[[Sequence[Analysed]], Verdict]

    def on(self, files: Sequence[Analysed]) -> Judged:
        """What these rows say of it."""
        return Judged(self.text, self.rule, self.judge(files))


def summed_up(holds: Sequence[bool], numbers: str) -> Verdict:
    """All, some or none."""
    if not holds:
        return Verdict(OPEN, numbers or "nothing to compare")
    return Verdict(SUPPORTED if all(holds) else MIXED if any(holds) else REFUTED, numbers)
