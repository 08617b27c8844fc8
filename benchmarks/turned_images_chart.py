"""A chart of `turned_images.py`: accuracy by orientation, one panel for each result.

Run: python benchmarks/turned_images_chart.py RESULT [RESULT ...] --out FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.charts import draw_files
from probsym.lab.colours import COLOURS

SHOWN = {
    "bare": "bare",
    "average": "exact average",
    "energy: entropy, tau 0": "Energy, entropy",
    "energy: head, tau 1": "Energy, learned head",
    "canonical": "Canonical",
    "learned": "Learned",
}


def chart(results: list[dict[str, Any]]) -> Figure:
    """Groups of bars, one for each quarter turn, with 95 % intervals; a line where the bare classifier is upright."""
    figure = Figure(figsize=(5.4 * len(results), 3.6), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, result in zip(panels, results, strict=True):
        width = 0.85 / len(SHOWN)
        for place, (name, label) in enumerate(SHOWN.items()):
            row = result["C4"]["rows"][name]
            at = [turn + (place - (len(SHOWN) - 1) / 2) * width for turn in range(4)]
            spread = [
                [abs(end - value) for value, end in zip(row["accuracy"], ends, strict=True)]
                for ends in zip(*row["interval"], strict=True)
            ]
            panel.bar(at, row["accuracy"], width, yerr=spread, color=COLOURS[place], label=label, error_kw={"lw": 0.8})
        panel.axhline(result["C4"]["rows"]["bare"]["accuracy"][0], color="black", lw=0.8, ls=":")
        panel.set_xticks(range(4), ["upright", "90°", "180°", "270°"])
        panel.set_ylim(40, None)
        panel.set_title(f"{result['classifier']}, {result['C4']['images']} images")
    panels[0].set_ylabel("accuracy, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SHOWN), fontsize=8)
    return figure


if __name__ == "__main__":
    draw_files(chart, __doc__)
