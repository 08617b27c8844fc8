"""Make matplotlib's SVG a part of a page: named for those who cannot see it, themed by the page, without ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

SVG, HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def inline(svg: str, title: str, description: str, names: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """The same picture as an element of HTML.

    Shapes that are referred to by id are copied to where they are used, and all ids dropped: many charts share a page.

    Args:
        svg: what matplotlib wrote.
        title: of the picture.
        description: what it shows, for screen readers.
        names: titles of groups by their id, shown when pointed at.
        variables: names of the page's CSS variables by the colour that they replace.
    """
    root = ElementTree.fromstring(svg)
    shapes = {f"#{path.get('id')}": path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("id")}
    for element in list(root.iter()):
        for child in list(element):
            if child.tag in (f"{SVG}defs", f"{SVG}metadata"):
                element.remove(child)
        if element.tag == f"{SVG}use":
            element.tag = f"{SVG}path"
            element.set("d", shapes[element.attrib.pop(HREF)])
            element.set("transform", f"translate({element.attrib.pop('x')} {element.attrib.pop('y')})")
        element.tag = element.tag.removeprefix(SVG)
        name = names.get(element.attrib.pop("id", ""))
        element.attrib.pop("clip-path", None)  # nothing lies outside the axes
        element.tail = None
        _rewrite(element, variables)
        if name is not None:
            _add_title(element, name)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"role": "img", "aria-label": f"{title}. {description}"}
    _add_title(root, title)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _add_title(element: ElementTree.Element, text: str) -> None:
    title = ElementTree.Element("title")
    title.text = text
    element.insert(0, title)


def _rewrite(element: ElementTree.Element, variables: Mapping[str, str]) -> None:
    """Colours become variables, fonts are the page's, and a tenth of a point is as fine as anyone sees."""
    if style := element.get("style"):
        style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", re.sub(r"font-family:[^;]*;?", "", style))
        for colour, variable in variables.items():
            style = style.replace(colour, f"var({variable})")
        element.set("style", style)
    if element.tag != "text":
        element.text = None  # indentation
    for attribute in ("d", "transform"):
        if text := element.get(attribute):
            element.set(attribute, re.sub(r"(\.\d)\d+", r"\1", " ".join(text.split())))
