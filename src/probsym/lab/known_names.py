"""Things by their names, with a complaint that has the nearest ones."""

import difflib
import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from probsym.errors import RecipeError

FEW = 12
"""How many names a message may list."""


def closest(name: str, known: Mapping[str, Any], what: str) -> Any:
    """What is known by that name, or a complaint with the nearest names."""
    if name not in known:
        raise RecipeError(f"Unknown {what} {name!r}{near_names(name, known)}")
    return known[name]


def matching(names: Sequence[str], known: Mapping[str, Any], what: str) -> list[Any]:
    """What is known by those names, which may hold "*" for anything; at least one for each."""
    matched: dict[str, Any] = {}
    for name in names:
        fits = fnmatch.filter(known, name) if "*" in name else [name]
        matched |= {fit: closest(fit, known, what) for fit in fits or [name]}
    return list(matched.values())


def near_names(name: str, known: Mapping[str, Any]) -> str:
    """A question after the names that are near, or all names if they are few, or nothing."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= FEW else ""
