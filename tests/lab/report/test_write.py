"""The report as files: what is on it, where it leads, what it escapes, and that nothing is overwritten."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from probsym.errors import RunError, WriteError
from probsym.lab.report import load_results, write_report
from probsym.lab.report.document import Cell, Grid
from probsym.lab.report.write import markdown_text, render
from probsym.lab.results import write_result
from tests.fault_injection import Killed, full_at, killed_at
from tests.lab.report.cases import HOSTILE, result, write_everything


class Page(HTMLParser):
    """Tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("report")
    page, markdown = write_report(load_results(write_everything(folder / "results")), folder / "report.html")
    return page.read_text(), markdown.read_text()


def test_the_page_needs_nothing_else(files: tuple[str, str]) -> None:
    page = Page(files[0])
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not page.values("src")
    assert all(link.startswith(("#", "data:")) for link in page.values("href"))
    assert "@import" not in files[0]
    assert "url(" not in files[0]


def test_hostile_names_are_text(files: tuple[str, str]) -> None:
    for text in files:
        for word in ("<script", "<img", "<b>"):
            assert word not in text
    page = Page(files[0])
    assert HOSTILE in page.text
    assert "<img src=x>" in page.text


def test_every_link_leads_somewhere_and_no_anchor_is_taken_twice(files: tuple[str, str]) -> None:
    page = Page(files[0])
    anchors = page.values("id")
    assert len(anchors) == len(set(anchors))
    links = {link.removeprefix("#") for link in page.values("href") if link.startswith("#")}
    assert len(links) > 20
    assert links <= set(anchors)


def test_numbers_and_charts_are_on_the_page(files: tuple[str, str]) -> None:
    page = Page(files[0])
    assert re.search(r'<td><a href="#file-\d+">99 ± 0.5</a>', files[0])
    charts = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(charts) > 15
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert {"h1", "nav", "main", "figure", "details", "table", "caption"} <= {tag for tag, _ in page.tags}


def test_where_numbers_come_from_is_all_there(files: tuple[str, str]) -> None:
    for word in ("exp-classify/mlp-ps/seed-2.json", "two cores", "2.13", "c" * 12, "2026-01-02 03:04", "probsym train"):
        assert word in Page(files[0]).text
        assert markdown_text(word) in files[1]
    assert "c" * 13 not in files[0]


def test_tables_have_both_numbers_and_a_judgement(files: tuple[str, str]) -> None:
    assert "| MLP-PS | 0 |  | 0 | 3 (1 seed) ▽ | 100 | 99 ± 0.5 (3 seeds) ≈ |" in files[1]
    assert "| MLP-GA | 0 |  | 0 |  | 50 | 50 (1 seed) = |" in files[1]
    assert "ours with epochs=9" in files[1]
    assert "| GNN-PS | 0.00386 | 0.004 (1 seed) |" in files[1]
    assert "| MLP-PS |  |  |  |  | 3 (of 600) | 7 (of 1200) | 5 (of 600) | 1 (of 1200) |" in files[1]


@pytest.mark.parametrize("taken", ["report.html", "report.md"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    write_result(tmp_path, result("exp/gin", not_separated=1.0))
    (tmp_path / taken).write_text("mine")
    with pytest.raises(RunError, match=f"Expected no report at .*{taken}, which is never overwritten"):
        write_report(load_results(tmp_path), tmp_path / "report.html")
    assert (tmp_path / taken).read_text() == "mine"
    assert len(list(tmp_path.glob("report.*"))) == 1


def test_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp/gin", not_separated=1.0))
    with pytest.raises(RunError, match="Expected two files"):
        write_report(load_results(tmp_path), tmp_path / "report.md")
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="Expected to write"):
        write_report(load_results(tmp_path), tmp_path / "file" / "report.html")


def test_the_same_results_give_the_same_report(tmp_path: Path) -> None:
    data = load_results(write_everything(tmp_path / "results"))
    first, second = (write_report(data, tmp_path / name / "report.html")[0].read_bytes() for name in ("a", "b"))
    assert first == second


def test_markdown_means_what_it_says() -> None:
    grid = Grid("c", ("a|b", "x"), [(Cell("<b>_*`\n"), Cell("1", "note"))], (("", 1), ("over", 1)))
    assert render("table.md", grid=grid).splitlines() == [
        "| a\\|b | over, x |",
        "| --- | ---: |",
        "| &lt;b&gt;\\_\\*\\` | 1 (note) |",
    ]


def test_both_files_or_neither(tmp_path: Path) -> None:
    write_result(tmp_path / "results", result("exp/gin", not_separated=1.0))
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"Expected to write .*report\.html, .*is a file"):
        write_report(load_results(tmp_path / "results"), tmp_path / "report.html", tmp_path / "file" / "report.md")
    assert not (tmp_path / "report.html").exists()


def test_a_full_disk_or_a_kill_leaves_no_part_of_a_report(tmp_path: Path) -> None:
    data, page = load_results(write_everything(tmp_path / "results")), tmp_path / "report.html"
    with full_at(1000), pytest.raises(WriteError, match=r"Expected to write .*report\.html.*File too large"):
        write_report(data, page)
    assert not list(tmp_path.glob("*report*"))
    with pytest.raises(Killed), killed_at(1000):
        write_report(data, page)
    assert not list(tmp_path.glob("report.*"))
    assert all(place.exists() for place in write_report(data, page))
