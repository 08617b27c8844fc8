"""Learning curves: grouped by task and settings, thinned, coloured by method."""

from __future__ import annotations

from pathlib import Path

from probsym.lab.recipes import RECIPES
from probsym.lab.report import load_results
from probsym.lab.report.curves import POINTS, curve_figures, is_better_low, metric_of
from probsym.lab.results import write_result
from tests.lab.report import cases
from tests.lab.report.cases import result
from tests.lab.report.svg import Drawn


def test_curves_are_grouped_thinned_and_coloured_by_method(tmp_path: Path) -> None:
    for method in ("ps", "ga"):
        write_result(tmp_path, result(f"exp-classify/mlp-{method}", test_accuracy=50.0), cases.curve(0.01, 2000))
        write_result(tmp_path, result(f"exp-classify/gin-id-{method}", test_accuracy=50.0), cases.curve(0.01))
    for samples in (1, 2):
        changed = {"samples": samples}
        write_result(tmp_path, result("exp-classify/mlp-ps", 0, changed, test_accuracy=50.0), cases.curve(0.01))
    plain, other = curve_figures(load_results(tmp_path).runs)
    assert dict(plain.legend) == {"ga": "c0", "ps": "c1"}
    charts = [Drawn(chart) for chart in plain.charts]
    assert len(charts) == 4
    assert {len(path) for chart in charts for path in chart.paths} == {40, POINTS}
    assert "16 epochs" in plain.text
    assert other.title.endswith("with other settings")
    assert [label for label, _ in other.legend] == ["ps, samples=1", "ps, samples=2"]


def test_rows_without_a_method_have_charts_of_their_own(tmp_path: Path) -> None:
    for row in ("exp-classify/gin", "exp-classify/gcn", "exp-classify/mlp-ps"):
        write_result(tmp_path, result(row, test_accuracy=50.0), cases.curve(0.01))
    (figure,) = curve_figures(load_results(tmp_path).runs)
    titles = [Drawn(chart).root.findtext("title") for chart in figure.charts]
    assert titles[2:] == [f"exp-classify, not symmetrized: {name}" for name in ("validation accuracy", "training loss")]
    assert Drawn(figure.charts[2]).titles == ["gcn", "gin"]


def test_the_metric_is_that_of_the_papers_table(tmp_path: Path) -> None:
    steps = [{"epoch": 1.0, "train_loss": 1.0, "valid_loss": 1.0, "valid_mse": 1.0, "valid_other": 1.0}]
    for row in ("nbody/gnn-ps", "tiny/gnn-ps"):
        write_result(tmp_path, result(row, test_mse=1.0), steps)
    assert [metric_of(run) for run in load_results(tmp_path).runs] == ["valid_mse", "valid_mse"]
    write_result(tmp_path, result("nbody/gnn-ga", test_mse=1.0), [{"epoch": 1.0, "train_loss": 1.0}])
    assert metric_of(load_results(tmp_path).runs[0]) == "train_loss"


def test_losses_end_at_a_billionth(tmp_path: Path) -> None:
    steps = [{"epoch": float(epoch), "train_loss": 10.0 ** -(10 * epoch)} for epoch in range(4)]
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0), steps)
    (chart,) = (Drawn(chart) for figure in curve_figures(load_results(tmp_path).runs) for chart in figure.charts)
    heights = [y for _, y in chart.paths[0]]
    assert heights[0] < heights[1] == heights[2] == heights[3]


def test_every_task_agrees_on_what_is_better() -> None:
    seen = set()
    for recipe in RECIPES.values():
        task = getattr(recipe, "task", None)
        for metric, larger in getattr(getattr(task, "func", task), "selects", {}).items():
            assert is_better_low(f"valid_{metric}") is not larger
            seen.add(metric)
    assert seen == {"loss", "accuracy", "mse", "mae", "ap"}
    for column in ("valid_hits@1", "valid_hits@3", "valid_mrr", "test_ap", "valid_accuracy_whole", "valid_surprise"):
        assert not is_better_low(column)
    for column in ("train_loss", "train_total", "valid_mae", "test_mse", "not_separated"):
        assert is_better_low(column)
