"""What charts of benchmarks share: results from files, one figure into a file."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from probsym.lab.pictures.picture import save


def draw_files(chart: Callable[[list[dict[str, Any]]], Figure], description: str | None) -> None:
    """The command line RESULT [RESULT ...] --out FILE of a chart, which an existing file refuses."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    save(chart([json.loads(file.read_text()) for file in given.results]), given.out)
