"""How everything that takes a while tells of its progress."""

from collections.abc import Callable, Mapping

Show = Callable[[int, int, str | Mapping[str, float]], None]
"""Told how much is done, of how much, and what to say of it: words, or numbers by name."""
