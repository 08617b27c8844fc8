"""Colours that can be told apart, also without seeing red and green; the first few are those of every picture."""

COLOURS = ("#b8611b", "#1a7f5a", "#4a5fc1", "#8a3a86", "#7a6a00", "#0d7490", "#a8324a", "#5c6470")
"""On white."""
DARK_COLOURS = ("#ec9f5f", "#4cc99a", "#94a6ff", "#dd8fd8", "#d3bd45", "#58bfdc", "#f58a9c", "#b3bac6")
"""The same on a dark page, one for one."""
