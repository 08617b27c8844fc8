"""Write a report: the page, and its tables as Markdown, never over files that are there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from probsym._internal.atomic_write import atomic_write
from probsym.errors import RunError
from probsym.lab.colours import COLOURS, DARK_COLOURS
from probsym.lab.report.load import ReportData
from probsym.lab.report.sections import LEAD, TITLE, document
from probsym.lab.text import slug


def markdown_text(value: Any) -> Markup:
    """A text that means itself in a table of Markdown: no markup, no new columns, no new lines.

    >>> print(markdown_text("a|b <i>"))
    a\\|b &lt;i&gt;
    """
    if isinstance(value, Markup):
        return value
    text = re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(str(value).split()))
    return Markup(text.replace("<", "&lt;").replace(">", "&gt;"))


def render(template: str, **values: Any) -> str:
    """A template of this package with these values; whatever is no Markup is escaped, as HTML or as Markdown."""
    finalize = markdown_text if template.endswith(".md") else None
    environment = Environment(
        loader=PackageLoader("probsym.lab.report"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"slug": slug}
    return environment.get_template(template).render(values)


def check_places(page: Path, markdown: Path | None = None) -> tuple[Path, Path]:
    """The two files of a report, by default side by side; refused if either is there, or both are the same."""
    beside = page.parent / f"{page.stem}.md" if markdown is None else markdown
    if beside == page:
        raise RunError(f"Expected two files, one for the page and one for Markdown (got {page} for both)")
    for path in (page, beside):
        if path.exists():
            raise RunError(f"Expected no report at {path}, which is never overwritten (got one)")
    return page, beside


def write_report(
    data: ReportData, page: Path, markdown: Path | None = None, *, title: str = TITLE, lead: Sequence[str] = LEAD
) -> tuple[Path, Path]:
    """Write the page, and its tables as Markdown, both or neither; both paths."""
    places = check_places(page, markdown)
    contents = document(data, title, lead)
    texts = (
        render("page.html", document=contents, palettes=(COLOURS, DARK_COLOURS)),
        render("report.md", document=contents),
    )
    with atomic_write(*places, overwrite=False) as partials:
        for partial, text in zip(partials, texts, strict=True):
            partial.write_text(text, encoding="utf-8", errors="replace")
    return places
