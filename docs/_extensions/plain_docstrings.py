"""Docstrings are plain text with `code` in backticks and indented blocks; this makes reStructuredText of them."""

import re
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring

SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Example:", "Examples:", "Note:", "Yields:")


def escaped(line: str) -> str:
    """A line of text in which nothing but code between backticks has a meaning."""
    parts = re.split(r"(`+[^`]*`+)", line)
    text = [re.sub(r"([*|\\])|(?<=\w)(_)(?=\W|$)", r"\\\1\2", part) for part in parts[::2]]
    code = [f"``{part.strip('`').strip()}``" for part in parts[1::2]]
    spaced = [
        *(f"{span}\\ " if re.match(r"\w", after) else span for span, after in zip(code, text[1:], strict=True)),
        "",
    ]
    return "".join(before + span for before, span in zip(text, spaced, strict=True))


def converted(lines: list[str]) -> list[str]:
    """The same docstring as reStructuredText; doctests and indented blocks stay as they are."""
    converted_lines: list[str] = []
    literal: int | None = None  # how far the text before an indented block was indented
    doctest = False
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        doctest = bool(line.strip()) and (doctest or line.lstrip().startswith(">>>"))
        if doctest or literal is not None or not line.strip():
            converted_lines.append(line)
            continue
        rest = lines[place + 1 :]
        block = len(rest) > 1 and not rest[0].strip() and len(rest[1]) - len(rest[1].lstrip()) > indent
        if block and line.strip() not in SECTIONS and not rest[1].lstrip().startswith(">>>"):
            literal = indent
            converted_lines.append(escaped(line) + (":" if line.endswith(":") else "\n\n::"))
        else:
            converted_lines.append(escaped(line))
    return "\n".join(converted_lines).split("\n")


def convert(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Called for every docstring; sections such as "Args:" are those of classes and functions."""
    lines[:] = converted(lines)
    if what in ("class", "exception", "function", "method"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, thing, options).lines()


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", convert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
