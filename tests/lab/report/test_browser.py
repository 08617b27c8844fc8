"""The page in a real browser: nothing asked for, nothing complained of, readable at any width and in both schemes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from probsym.lab.report import load_results, write_report
from probsym.lab.report.document import Figure, Grid
from probsym.lab.report.sections import document
from tests.lab.report import browser as programs
from tests.lab.report.browser import Browser
from tests.lab.report.cases import write_everything
from tests.lab.report.checker import DESKTOP, PHONE, problems, stops

RESULTS = Path(__file__).resolve().parents[3] / "results"
BAD = """<!doctype html><html lang="en"><body><h1>A</h1><h3>B</h3><img src="http://127.0.0.1:9/x.png" alt="x">
<p style="color: #aaa; background: #fff">hard to read</p><div style="width: 1500px">wide</div>
<table><tr><td>1</td></tr></table><svg></svg><script>console.error("broken")</script></body></html>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    needed = {"chromium": programs.CHROMIUM, "chromedriver": programs.DRIVER}
    missing = " and no ".join(name for name, path in needed.items() if not path)
    if missing and programs.REQUIRED:
        pytest.fail(f"Expected chromium and chromedriver, since PROBSYM_BROWSER is set (got no {missing})")
    if missing:
        pytest.skip(f"no {missing} here; Debian has the packages chromium and chromium-driver")
    window = Browser()
    yield window
    window.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of a small folder with everything in it, and of the real results."""
    folder = tmp_path_factory.mktemp("pages")
    write_report(load_results(write_everything(folder / "small")), folder / "small.html")
    write_report(load_results(RESULTS), folder / "real.html")
    return {name: folder / f"{name}.html" for name in ("small", "real")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", ["small", "real"])
def test_nothing_is_wrong(browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    assert problems(browser, pages[name], width, scheme) == []


def test_what_is_wrong_is_noticed(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(BAD)
    wrong = "\n".join(problems(browser, page, DESKTOP))
    for word in ("request: http://127.0.0.1:9/x.png", "broken", "wide at 1280", "contrast 2.", "H3 after"):
        assert word in wrong
    for word in ("svg without a name", "table without a caption", "in no box"):
        assert word in wrong


def test_everything_is_on_the_page(browser: Browser, pages: dict[str, Path]) -> None:
    sections = document(load_results(pages["small"].with_suffix(""))).sections
    blocks = [block for section in sections for block in section.blocks]
    figures = [block for block in blocks if isinstance(block, Figure)]
    tables = [block for block in (*blocks, *(figure.grid for figure in figures)) if isinstance(block, Grid)]
    wanted = [sum(len(figure.charts) for figure in figures), len(tables), len(figures), len(sections)]
    assert min(wanted) >= 8
    browser.open(pages["small"])
    script = "return arguments[0].map(one => document.querySelectorAll(one).length)"
    assert browser.run(script, ["svg", "table", "figure", "section"]) == wanted


def test_the_schemes_differ(browser: Browser, pages: dict[str, Path]) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.open(pages["small"], scheme=scheme)
        page = browser.run("return getComputedStyle(document.body).backgroundColor")
        colours.append(
            (page, browser.run("return getComputedStyle(document.querySelector('svg g > title + path')).stroke"))
        )
    assert all(light != dark for light, dark in zip(*colours, strict=True))


def test_keys_lead_everywhere(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["small"])
    places = stops(browser, 80)
    assert places[0]["kind"] == "skip"
    assert places[0]["top"] >= 0
    for kind in ("scroll", "skip"):
        assert any(place["kind"] == kind for place in places)
    assert any(place["tag"] == "SUMMARY" for place in places)
    assert [place for place in places if not place["seen"] and place["tag"] != "BODY"] == []


def test_the_skip_link_and_folds_work_by_keys(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["small"])
    browser.press("\ue004")
    browser.press("\ue007")
    assert browser.run("return document.activeElement.id") == "content"
    browser.run("document.querySelector('summary').focus()")
    browser.press("\ue007")
    assert browser.run("return document.querySelector('details').open") is True


def test_a_wide_table_scrolls_in_its_box(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["real"], PHONE)
    wide = "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
    assert browser.run(wide) > 3


def test_numbers_lead_to_where_they_come_from(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["real"])
    browser.run("document.querySelector('#tables td a').click()")
    target = browser.run("return document.querySelector('tr:target').textContent")
    assert "seed-0.json" in target
    assert "probsym train" in target
