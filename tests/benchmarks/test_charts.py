"""Charts of results in files."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from benchmarks.charts import draw_files
from probsym.errors import ProbsymError


def test_a_chart_is_drawn_from_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, out, seen = [tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "chart.png", list[Any]()
    for number, file in enumerate(files):
        file.write_text(json.dumps({"number": number}))
    monkeypatch.setattr("sys.argv", ["chart", *map(str, files), "--out", str(out)])

    def chart(results: list[dict[str, Any]]) -> Figure:
        seen.extend(results)
        return Figure()

    draw_files(chart, "A chart.\n\nMore.")
    assert seen == [{"number": 0}, {"number": 1}]
    assert out.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ProbsymError):
        draw_files(chart, None)
