"""What a chart shows, read from its SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

Point = tuple[float, float]


class Drawn:
    """The named groups of a chart: lines and dots, each with the points of its path and the places of its markers."""

    def __init__(self, chart: str) -> None:
        self.root = ElementTree.fromstring(chart)
        self.texts = [element.text or "" for element in self.root.iter("text")]
        self.titles = [element.text or "" for element in self.root.iter("title")][1:]
        groups = [element for element in self.root.iter("g") if element.find("title") is not None]
        self.paths = [_points(group) for group in groups]
        self.markers = [_markers(group) for group in groups]

    @property
    def dots(self) -> int:
        return sum(map(len, self.markers))

    def path(self, title: str) -> list[Point]:
        """The line or bar of the first group with this title."""
        return self.paths[self.titles.index(title)]


def _points(group: ElementTree.Element) -> list[Point]:
    paths = [path.get("d", "") for path in group.findall("path")]
    return [(float(x), float(y)) for path in paths for x, y in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path)]


def _markers(group: ElementTree.Element) -> list[Point]:
    places = [path.get("transform", "") for path in group.findall("g/path")]
    return [(float(x), float(y)) for place in places for x, y in re.findall(r"translate\((\S+) (\S+)\)", place)]
