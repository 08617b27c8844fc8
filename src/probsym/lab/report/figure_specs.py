"""The figures that `figures.toml` declares; what their fields mean is said there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probsym.lab.report.claims import Claim
from probsym.lab.report.rows import Join


@dataclass(frozen=True)
class Lines:
    """A panel of lines."""

    title: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    reference: str = ""


@dataclass(frozen=True)
class Dots:
    """A panel of dots along tracks."""

    title: str
    values: Sequence[str]
    by: Sequence[str] = ()
    each: str = ""
    log: bool = False
    margin: str = ""
    reference: Sequence[str] = ()
    reference_title: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """A figure: the analysis whose rows it draws, its panels, and claims about it."""

    analysis: str
    title: str
    text: str
    panels: Sequence[Lines | Dots]
    claims: Sequence[Claim]
    paper: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    most: str = ""
    series: Sequence[str] = ()
    join: Join = ""
    apart: bool = False


def _spec(entry: dict[str, Any]) -> FigureSpec:
    panels: list[Lines | Dots] = [Lines(**panel) for panel in entry.pop("lines", ())]
    panels += [Dots(**panel) for panel in entry.pop("dots", ())]
    claims = [Claim(claim["text"], claim["rule"], **claim["judge"]) for claim in entry.pop("claim", ())]
    return FigureSpec(**entry, panels=panels, claims=claims)


FIGURES = [_spec(entry) for entry in tomllib.loads(Path(__file__).with_name("figures.toml").read_text())["figure"]]
