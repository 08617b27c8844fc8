"""The built site: links, requests and the reference as files, and its pages in a real browser.

`make site-test` builds the site and names its folder in PROBSYM_SITE; without that, these tests are skipped.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.docs.public_names import public_names
from tests.lab.report import browser as programs
from tests.lab.report.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("PROBSYM_SITE", "")).resolve()
PHONE, DESKTOP = 360, 1280
pytestmark = pytest.mark.skipif("PROBSYM_SITE" not in os.environ, reason="PROBSYM_SITE names no built site")


class Page(HTMLParser):
    """What a page links to, loads and can be jumped to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given or (tag == "link" and "href" in given):
            self.loads.append(given.get("src") or given["href"])


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    parsed = {path: Page(path) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts}
    assert len(parsed) > 30
    return parsed


def test_internal_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            address, place = urldefrag(link)
            if re.match(r"\w+:", address):
                continue
            target = (path.parent / unquote(address.partition("?")[0])).resolve() if address else path
            if not target.exists() or (place and target in pages and unquote(place) not in pages[target].places):
                broken.append((path.name, link))
    assert broken == []


def test_nothing_is_loaded_from_outside(pages: dict[Path, Page]) -> None:
    outside = [(path.name, resource) for path, page in pages.items() for resource in page.loads if "//" in resource]
    styles = [
        path.name
        for path in SITE.rglob("*.css")
        if re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", path.read_text())
    ]
    assert (outside, styles) == ([], [])


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    places = set().union(*(page.places for path, page in pages.items() if path.parent.name == "reference"))
    assert [name for name in public_names() if name not in places] == []


def test_every_example_has_a_page_with_a_picture_and_its_output() -> None:
    names = [path.stem for path in (ROOT / "examples").glob("*.py")]
    assert len(names) >= 7
    for name in names:
        text = (SITE / "gallery" / f"{name}.html").read_text()
        assert f"sphx_glr_{name}_001.png" in text
        assert "sphx-glr-script-out" in text


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the site is served, since a browser lets no file search through others."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not (programs.CHROMIUM and programs.DRIVER):
        (pytest.fail if programs.REQUIRED else pytest.skip)("no chromium and chromedriver here")
    window = Browser()
    yield window
    window.close()


@pytest.mark.parametrize(("width", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_pages_are_quiet_local_and_fit(
    browser: Browser, address: str, pages: dict[Path, Page], width: int, scheme: str
) -> None:
    wrong = []
    for path in pages:
        if "_modules" in path.parts or path.name == "report.html":  # sources; the report has tests of its own
            continue
        browser.open(f"{address}/{path.relative_to(SITE)}", width, scheme=scheme)
        wrong += [(path.name, message) for message in browser.complaints()]
        wrong += [(path.name, request) for request in browser.requests() if not request.startswith(address)]
        wide = browser.run("return document.documentElement.scrollWidth")
        wrong += [(path.name, f"{wide} wide")] if wide > width else []
        blank = "return [...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
        wrong += [(path.name, image) for image in browser.run(blank)]
    assert wrong == []


def test_the_schemes_differ(browser: Browser, address: str) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.open(f"{address}/index.html", scheme=scheme)
        colours.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


def test_search_finds_pages(browser: Browser, address: str) -> None:
    browser.open(f"{address}/search.html?q=canonicalization")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        links = browser.run("return [...document.querySelectorAll('#search-results li a')].map(one => one.href)")
        if links:
            break
        time.sleep(0.2)
    assert any("samplers" in link for link in links)
    assert browser.complaints() == []


def test_formulas_are_drawn(browser: Browser, address: str) -> None:
    browser.open(f"{address}/index.html")
    assert browser.run("return document.querySelector('math').getBoundingClientRect().width") > 100
