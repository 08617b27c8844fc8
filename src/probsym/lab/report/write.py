"""Writing a report: the page and its tables in Markdown, never over files that are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from probsym.errors import RunError
from probsym.lab.report.gathered import Gathered
from probsym.lab.report.markdown import as_markdown
from probsym.lab.report.page import as_page
from probsym.lab.report.sections import LEAD, TITLE, documented


def check_places(page: Path, markdown: Path | None = None) -> tuple[Path, Path]:
    """The two files of a report, by default side by side; refused if either is there, or both are the same."""
    beside = page.with_suffix(".md") if markdown is None else markdown
    if beside == page:
        raise RunError(f"Expected two files, one for the page and one for Markdown (got {page} for both)")
    for path in (page, beside):
        if path.exists():
            raise RunError(f"Expected no report at {path}, which is never overwritten (got one)")
    return page, beside


def write_report(
    gathered: Gathered,
    page: Path,
    markdown: Path | None = None,
    *,
    title: str = TITLE,
    lead: Sequence[str] = LEAD,
) -> tuple[Path, Path]:
    """Write the page, and its tables as Markdown, both or neither; both paths."""
    places = check_places(page, markdown)
    document = documented(gathered, title, lead)
    begun: list[Path] = []
    for path, text in zip(places, (as_page(document), as_markdown(document)), strict=True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                begun.append(path)
                file.write(text)
        except OSError as error:
            for one in begun:
                one.unlink(missing_ok=True)
            raise RunError(f"Expected to write a report to {path} (got: {error})") from error
    return places
