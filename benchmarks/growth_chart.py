"""A chart of `growth.py`: time and memory of a training step by the number of items, a column for each kind of input.

Run: python benchmarks/growth_chart.py RESULT [RESULT ...] --out FILE. Of two results the second is drawn dashed.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.charts import draw_files
from probsym.lab.colours import COLOURS

ROWS = {"seconds": ("seconds", 1.0), "bytes": ("MiB", 2.0**20)}


def chart(results: list[dict[str, Any]]) -> Figure:
    """Time above, memory below, on logarithmic axes; one colour for each sampler, one kind of line for each machine."""
    settings = list(results[0]["series"])
    samplers = list(dict.fromkeys(name for setting in settings for name in results[0]["series"][setting]))
    figure = Figure(figsize=(3.4 * len(settings), 5.6), layout="constrained")
    panels = figure.subplots(2, len(settings), sharex="col", squeeze=False)
    for result, line in zip(results, ("-", "--"), strict=False):
        for column, setting in enumerate(settings):
            for name, series in result["series"][setting].items():
                for panel, (what, (_, unit)) in zip(panels[:, column], ROWS.items(), strict=True):
                    sizes, values = zip(
                        *((row["n"], row[what] / unit or math.nan) for row in series["rows"]), strict=True
                    )
                    colour = COLOURS[samplers.index(name)]
                    label = name if result is results[0] else None
                    panel.loglog(sizes, values, line, marker="o", ms=3, lw=1.2, color=colour, label=label)
    for column, setting in enumerate(settings):
        panels[0, column].set_title(setting)
        panels[1, column].set_xlabel("items n")
    for panel, (name, _) in zip(panels[:, 0], ROWS.values(), strict=True):
        panel.set_ylabel(name)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    handles = {handle.get_label(): handle for panel in panels[0] for handle in panel.get_legend_handles_labels()[0]}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=len(handles), fontsize=8)
    kinds = [f"{line} {result['hardware']}" for line, result in zip(("solid:", "dashed:"), results, strict=False)]
    figure.suptitle(", ".join(kinds), fontsize=9)
    return figure


if __name__ == "__main__":
    draw_files(chart, __doc__)
