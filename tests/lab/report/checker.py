"""What can be wrong with a page in a browser, as a list in words; an empty one for a page that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.report.browser import TAB, Browser

PHONE, DESKTOP = 360, 1280

LAYOUT = """
const faults = [], root = document.documentElement;
if (root.scrollWidth > arguments[0]) faults.push(`the page is ${root.scrollWidth} wide at ${arguments[0]}`);
for (const node of document.querySelectorAll('details')) node.open = true;
for (const node of document.querySelectorAll('img, svg, table')) {
  const box = node.getBoundingClientRect();
  if (box.width < 20 || box.height < 20) faults.push(`${node.tagName} of ${box.width} by ${box.height}`);
}
if (root.scrollWidth > arguments[0]) faults.push(`the page is ${root.scrollWidth} wide at ${arguments[0]}, unfolded`);
for (const node of document.querySelectorAll('img, svg')) {
  if (!node.getAttribute('alt') && !(node.getAttribute('aria-label') && node.querySelector('title')))
    faults.push(`${node.tagName} without a name`);
}
for (const node of document.querySelectorAll('table')) {
  if (!node.caption || !node.caption.textContent) faults.push('a table without a caption');
  if (!node.closest('[tabindex="0"]')) faults.push('a table in no box that scrolls');
}
let level = 0;
for (const node of document.querySelectorAll('h1, h2, h3, h4')) {
  const next = Number(node.tagName[1]);
  if (next > level + 1) faults.push(`${node.tagName} after a heading of level ${level}`);
  level = next;
}
return faults;
"""

CONTRAST = """
const channels = text => text.match(/[\\d.]+/g).map(Number);
const light = node => { const c = node / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 };
const luminance = c => 0.2126 * light(c[0]) + 0.7152 * light(c[1]) + 0.0722 * light(c[2]);
const behind = node => {
  for (let at = node; at; at = at.parentElement) {
    const c = channels(getComputedStyle(at).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const faults = [];
for (const kind of arguments[0]) for (const node of [...document.querySelectorAll(kind)].slice(0, 3)) {
  const style = getComputedStyle(node), ink = channels(node instanceof SVGElement ? style.fill : style.color);
  const a = luminance(ink), b = luminance(behind(node)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faults.push(`${kind}: contrast ${ratio.toFixed(2)}`);
}
return faults;
"""
TEXTS = ["p", "h1", "h2", "h3", "a", "td", "th", "li", "summary", ".note", ".mark", ".rule", "strong", "text"]


def problems(browser: Browser, page: Path, width: int = DESKTOP, scheme: str = "light") -> list[str]:
    """Everything that is wrong with a page at a width and in a colour scheme."""
    browser.open(page, width, scheme=scheme)
    wrong = [f"console: {message}" for message in browser.complaints()]
    wrong += [f"request: {address}" for address in browser.requests() if address != page.resolve().as_uri()]
    return wrong + browser.run(LAYOUT, width) + browser.run(CONTRAST, TEXTS)


def stops(browser: Browser, most: int) -> list[dict[str, Any]]:
    """Where Tab leads, stop by stop: the element, whether its focus can be seen, and where it is."""
    script = """
    const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
    return {text: node.textContent.slice(0, 40), kind: node.className, tag: node.tagName, top: box.top,
            bottom: box.bottom, seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0};
    """
    places = []
    for _ in range(most):
        browser.press(TAB)
        places.append(browser.run(script))
    return places
