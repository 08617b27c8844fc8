"""SVG as a part of a page: no ids, no references, names and variables in their places."""

from __future__ import annotations

from probsym.lab.report.inline_svg import inline

SVG = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 9 9">
 <metadata>today</metadata><defs><style>*{stroke: red}</style></defs>
 <g id="named"><defs><path id="m1" d="M 0 0.123456"/></defs>
  <use xlink:href="#m1" x="1.26" y="2" style="fill: #ffffff"/>
  <path id="other" d="M 1 2" clip-path="url(#c)"/>
 </g>
 <text style="font: 10px 'DejaVu Sans', sans-serif; text-anchor: end">#ffffff id="x"</text>
</svg>"""


def test_a_picture_becomes_a_part_of_a_page() -> None:
    assert inline(SVG, "A title", "what it shows", {"named": "a name"}, {"#ffffff": "--paper"}) == (
        '<svg viewBox="0 0 9 9" role="img" aria-label="A title. what it shows"><title>A title</title>'
        '<g><title>a name</title><path style="fill: var(--paper)" d="M 0 0.1" transform="translate(1.2 2)"></path>'
        '<path d="M 1 2"></path></g>'
        '<text style="font-size: 10px; text-anchor: end">#ffffff id="x"</text></svg>'
    )
