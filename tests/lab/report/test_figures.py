"""Figures of analyses: each has its place, keeps apart what is of other runs, and shows what it cannot draw as rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from probsym.lab.report import load_results, write_report
from probsym.lab.report.document import Figure, Grid
from probsym.lab.report.figure_specs import FIGURES
from probsym.lab.report.figures import figures
from probsym.lab.results import write_result
from tests.lab.report import cases
from tests.lab.report.cases import result, write_analysis, write_everything
from tests.lab.report.svg import Drawn


def drawn(folder: Path) -> dict[str, Figure]:
    blocks = figures(load_results(folder).analyses)
    return {block.title: block for block in blocks if isinstance(block, Figure)}


def figure(folder: Path, title: str) -> tuple[list[str], Figure]:
    chosen = next(block for name, block in drawn(folder).items() if title in name)
    return [label for label, _ in chosen.legend], chosen


def test_every_analysis_of_the_paper_is_drawn(tmp_path: Path) -> None:
    by_name = drawn(write_everything(tmp_path))
    for number in ("Figure 2", "Figure 4", "Figure 5", "Figure 6", "Figure 7", "Figure 8", "Figures 9 to 11"):
        assert f"({number})" in " ".join(by_name)
    assert all(block.sources and (block.charts or block.grid) for block in by_name.values())
    assert {claim.mark.words for block in by_name.values() for claim in block.claims} == {"supported"}


def test_runs_of_a_row_are_joined_where_they_belong_together(tmp_path: Path) -> None:
    write_everything(tmp_path)
    labels, six = figure(tmp_path, "Figure 6")
    assert labels == [f"train draws {train}" for train in cases.TRAIN_DRAWS]
    assert all(Drawn(chart).titles == labels for chart in six.charts)
    assert Drawn(figure(tmp_path, "Figure 4")[1].charts[0]).dots == 6
    assert figure(tmp_path, "Figure 8")[0] == ["mlp-ga", "mlp-ps"]


def test_lines_of_other_methods_and_settings_are_not_averaged(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    for train in (1, 2):
        for row, changed in (("mlp-ps", {}), ("mlp-ga", {}), ("mlp-ps", {"epochs": 3})):
            some = cases.sample_size_rows(train, 90.0 + len(changed))
            write_analysis(tmp_path, "sample_size", f"exp-classify/{row}", some, **changed, samples=train)
    labels, four = figure(tmp_path, "Figure 4")
    assert labels == ["mlp-ga", "mlp-ps, as in the paper", "mlp-ps, epochs=3"]
    assert Drawn(four.charts[0]).dots == 6
    assert figure(tmp_path, "Figure 6")[0] == [f"{row}, train draws {n}" for row in labels for n in (1, 2)]


def test_seeds_are_averaged_where_all_have_a_point(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    write_analysis(tmp_path, "variance", "exp-classify/mlp-ps", cases.variance_rows())
    few = [row for row in cases.variance_rows(0.9) if row["draws"] < 100]
    write_analysis(tmp_path, "variance", "exp-classify/mlp-ps", few, 1)
    _, seven = figure(tmp_path, "Figure 7")
    assert [len(path) for path in Drawn(seven.charts[0]).paths] == [3, 3, 3]


def test_every_run_is_named_where_runs_are_not_joined(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    for seed in (0, 1):
        write_analysis(tmp_path, "parts", "nbody/gnn-ps", [{"part": "all", "loss": 1.0 + seed, "stderr": 0.1}], seed)
    write_analysis(tmp_path, "parts", "nbody/gnn-ga", [{"part": "all", "loss": 3.0, "stderr": 0.1}])
    chart = Drawn(figure(tmp_path, "parts of the test set")[1].charts[0])
    assert chart.dots == 3
    assert {"gnn-ga", "gnn-ps, seed 0", "gnn-ps, seed 1"} <= set(chart.texts)


def test_charts_of_single_runs_share_their_axes(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    for seed, size in enumerate((1.0, 1e-3)):
        rows = [{"coupling": "quasi", "draws": draws, "part": "all", "variance": size / draws} for draws in (1, 10)]
        write_analysis(tmp_path, "draws", "nbody/gnn-ps", rows, seed)
    labels, coupled = figure(tmp_path, "coupled")
    large, small = (Drawn(chart) for chart in coupled.charts)
    assert labels == ["quasi"]
    assert large.texts[:-2] == small.texts[:-2]
    assert max(y for _, y in large.paths[0]) < min(y for _, y in small.paths[0])


def test_bars_are_two_errors_and_dashes_what_draws_make(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    rows = [
        {"graph": "D_4", "method": "ps", "draws": 9, "spread": 2.0, "spread_stderr": 0.5, "from_draws": 1.5},
        {"graph": "D_4", "method": "canonical", "draws": 1, "spread": 4.0, "spread_stderr": 0.25, "from_draws": None},
    ]
    path = write_analysis(tmp_path, "inner_symmetry", "figures", rows)
    labels, nine = figure(tmp_path, "Figures 9")
    assert labels == ["ps", "canonical", "from draws alone"]
    assert "D_4: ps 2 ± 1, canonical 4 ± 0.5, from draws alone 1.5" in nine.charts[0]
    chart = Drawn(nine.charts[0])
    widths = [chart.path(name)[-1][0] - chart.path(name)[0][0] for name in ("ps: 2", "canonical: 4")]
    assert widths[0] / widths[1] == pytest.approx(math.log(3 / 1) / math.log(4.5 / 3.5), rel=0.02)
    (x, top), (_, bottom) = chart.path("from draws alone: 1.5")
    assert bottom > top
    assert chart.path("ps: 2")[0][0] < x < chart.path("ps: 2")[1][0]
    older = [
        {**{k: v for k, v in row.items() if k not in ("from_draws", "spread_stderr")}, "stderr": 1.5} for row in rows
    ]
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": older}))
    assert "ps 2, canonical 4, from draws alone 1.5" in figure(tmp_path, "Figures 9")[1].charts[0]


def test_a_study_of_no_run_is_drawn_too(tmp_path: Path) -> None:
    _, study = figure(write_everything(tmp_path), "Figures 9")
    assert study.title == "Nodes that a symmetry of the graph exchanges (Figures 9 to 11)"
    assert Drawn(study.charts[0]).dots == 6
    assert [title for title, _ in study.sources] == ["figures/seed-0.inner_symmetry.json"]


def test_every_declared_figure_is_drawn(tmp_path: Path) -> None:
    assert {spec.analysis for spec in FIGURES} == {
        *("concentration", "cost", "draws", "parts", "tolerance", "equivariance", "check"),
        *("entropy", "sample_size", "variance", "gradient", "inner_symmetry"),
    }
    rows = {
        "concentration": [{"group": "n: S()", "measure": "row entropy", "model": 1.0, "uniform": 2.0}],
        "cost": [{"stage": "base", "draws": 1, "ms": 2.0}, {"stage": "sampler", "draws": 1, "ms": 3.0}],
        "draws": [{"coupling": "quasi", "draws": 1, "part": "all", "loss": 1.0, "variance": 0.5}],
        "parts": [{"part": "all", "loss": 1.0, "stderr": 0.1}, {"part": "calm", "loss": 0.5, "stderr": None}],
        "tolerance": [{"tolerance": 0.1, "draws": 30.0}, {"tolerance": 0.01, "draws": 300.0}],
    }
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    for name, some in rows.items():
        write_analysis(tmp_path, name, "nbody/gnn-ps", some)
    by_name = drawn(tmp_path)
    assert len(by_name) == 6
    assert sum(len(block.charts) for block in by_name.values()) == 5  # no independent draws among these


def test_rows_are_shown_once_for_each_analysis(tmp_path: Path) -> None:
    grids = [block.grid for block in drawn(write_everything(tmp_path)).values() if block.grid]
    assert len({grid.caption for grid in grids}) == len(grids) == 7
    assert [grid.caption for grid in grids if not grid.folded] == ["Rows of the analysis “check”, demo"]


def test_odd_analyses_and_values_are_shown_all_the_same(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    write_analysis(tmp_path, "unheard-of", "nbody/gnn-ps", [{"a": [1, 2], "b": None, "c": {"d": 1}}, {"e": "x" * 100}])
    for spec in FIGURES:
        write_analysis(tmp_path, spec.analysis, "exp/mlp-ps", [{"draws": None, "epoch": "x", "method": 1}])
    write_analysis(tmp_path, "entropy", "tiny/mlp-ps", [])
    (grid,) = [block for block in figures(load_results(tmp_path).analyses) if isinstance(block, Grid)]
    assert grid.caption == "Rows of the analysis “unheard-of”, nbody"
    assert [cell.text for cell in grid.rows[0]] == ["gnn-ps", "[1, 2]", "", "{'d': 1}", ""]
    write_report(load_results(tmp_path), tmp_path / "report.html")
    assert "x" * 61 not in (tmp_path / "report.md").read_text()
