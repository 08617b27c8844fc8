"""Docstrings become reStructuredText in which nothing but code between backticks has a meaning."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "_extensions"))

from plain_docstrings import converted, escaped  # type: ignore[import-not-found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`x` and *inputs, |a|", r"``x`` and \*inputs, \|a\|"),
        ("trailing_ and in_side", r"trailing\_ and in_side"),
        ("two `samples`s", r"two ``samples``\ s"),
        ("``twice``", "``twice``"),
    ],
)
def test_a_line(text: str, wanted: str) -> None:
    assert escaped(text) == wanted


def test_indented_blocks_and_doctests_stay_as_they_are() -> None:
    lines = ["By averaging:", "", "    phi(x) = E[ *f ]", "", "Then `x`.", "", ">>> f(*x)", "`y`", "", "*z"]
    wanted = ["By averaging::", "", "    phi(x) = E[ *f ]", "", "Then ``x``.", "", ">>> f(*x)", "`y`", "", r"\*z"]
    assert converted(lines) == wanted


def test_sections_are_left_to_their_reader() -> None:
    assert converted(["Args:", "", "    x: `y`"]) == ["Args:", "", "    x: ``y``"]
