"""What belongs together: every seed counts once, precisions are said, charts keep apart what is of other runs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from probsym.errors import RunError
from probsym.lab.recipes import RECIPES
from probsym.lab.report import gather, gather_runs, write_report
from probsym.lab.report.curves import larger
from probsym.lab.report.document import Figure
from probsym.lab.report.figures import figures
from probsym.lab.report.gathered import labels_of
from probsym.lab.report.markdown import escaped
from probsym.lab.results import write_new, write_result
from tests.lab.report import cases
from tests.lab.report.cases import result, write_analysis


def write_run(folder: Path, seed: int = 0, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    one = result("exp-classify/mlp-ps", seed, test_accuracy=changes.pop("accuracy", 90.0))
    write_new(folder / "result.json", {**one, **changes})
    return folder


def table(folder: Path, *runs: Path) -> str:
    gathered = gather_runs(runs) if runs else gather(folder)
    return write_report(gathered, folder / "report.html")[1].read_text()


def test_a_seed_counts_once_by_its_newest_run(tmp_path: Path) -> None:
    old = write_run(tmp_path / "old", accuracy=10.0, date="2026-01-01")
    new = write_run(tmp_path / "new", accuracy=90.0, date="2026-02-01")
    other = write_run(tmp_path / "other", 1, accuracy=91.0)
    text = table(tmp_path, new, old, other)
    assert "| 100 | 90.5 ± 0.71 (2 seeds)" in text
    words = (
        f"Run twice: exp-classify/mlp-ps, seed 0. {old}/result.json does not count beside the newer {new}/result.json."
    )
    assert escaped(words) in text
    assert f"| exp-classify/mlp-ps, seed 0 | {escaped(str(old))}/result.json |" in text


def test_precisions_are_said_where_they_differ(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(seed), seed, precision=name) for seed, name in enumerate(("tf32", "32-true", "tf32"))
    ]
    assert "(3 seeds, in 32-true and tf32)" in table(tmp_path, *runs)
    again = write_run(tmp_path / "again", 0, precision="bf16-mixed", date="2027")
    (tmp_path / "report.html").unlink()
    (tmp_path / "report.md").unlink()
    text = table(tmp_path, *runs, again)
    assert "(3 seeds, in 32-true and bf16-mixed and tf32)" in text
    assert "The one in precision tf32, the other in bf16-mixed." in text


def test_an_analysis_made_twice_counts_once(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    path = write_analysis(tmp_path, "draws", "nbody/gnn-ps", [{"draws": 1, "loss": 1.0}])
    content = {**json.loads(path.read_text()), "date": "2027", "rows": [{"draws": 1, "loss": 2.0}]}
    path.with_name("seed-0.draws_2.json").write_text(json.dumps(content))
    found = gather(tmp_path)
    assert [one.rows[0]["loss"] for one in found.analyses] == [2.0]
    assert "Asked twice: draws of nbody/gnn-ps, seed 0." in table(tmp_path)


def test_labels_name_the_seed_where_there_are_several(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    for seed in (0, 1):
        write_analysis(tmp_path, "parts", "nbody/gnn-ps", [{"part": "all", "loss": 1.0 + seed, "stderr": 0.1}], seed)
    write_analysis(tmp_path, "parts", "nbody/gnn-ga", [{"part": "all", "loss": 3.0, "stderr": 0.1}])
    gathered = gather(tmp_path)
    assert set(labels_of(gathered.analyses).values()) == {"gnn-ga", "gnn-ps, seed 0", "gnn-ps, seed 1"}
    (figure,) = [one for one in figures(gathered.analyses) if isinstance(one, Figure)]
    assert figure.charts[0].count("<circle") == 3
    assert "gnn-ps, seed 1" in figure.charts[0]


def lines(folder: Path, title: str) -> tuple[list[str], Figure]:
    found = next(one for one in figures(gather(folder).analyses) if isinstance(one, Figure) and title in one.title)
    return [label for label, _ in found.legend], found


def test_lines_of_other_methods_and_settings_are_not_averaged(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    for train in (1, 2):
        for row, changed in (("mlp-ps", {}), ("mlp-ga", {}), ("mlp-ps", {"epochs": 3})):
            some = cases.sample_size_rows(train, 90.0 + len(changed))
            write_analysis(tmp_path, "sample_size", f"exp-classify/{row}", some, **changed, samples=train)
    labels, figure = lines(tmp_path, "Figure 4")
    assert labels == ["mlp-ga", "mlp-ps", "mlp-ps, epochs=3"]
    assert figure.charts[0].count("<circle") == 6
    six, _ = lines(tmp_path, "Figure 6")
    rows = ("mlp-ga", "mlp-ps, epochs=3", "mlp-ps")
    assert six == [f"{row}, train draws {n}" for row in rows for n in (1, 2)]


def test_seeds_are_averaged_where_all_have_a_point(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp-classify/mlp-ps", test_accuracy=1.0))
    write_analysis(tmp_path, "variance", "exp-classify/mlp-ps", cases.variance_rows())
    few = [row for row in cases.variance_rows(0.9) if row["draws"] < 100]
    write_analysis(tmp_path, "variance", "exp-classify/mlp-ps", few, 1)
    _, figure = lines(tmp_path, "Figure 7")
    assert [len(one.split()) for one in re.findall(r'points="(.*?)"', figure.charts[0])] == [3, 3, 3]


def test_bars_are_two_errors_and_dashes_what_draws_make(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    rows = [
        {"graph": "D_4", "method": "ps", "draws": 9, "spread": 2.0, "spread_stderr": 0.5, "from_draws": 1.5},
        {"graph": "D_4", "method": "canonical", "draws": 1, "spread": 4.0, "spread_stderr": 0.25, "from_draws": None},
    ]
    path = write_analysis(tmp_path, "inner_symmetry", "figures", rows)
    labels, figure = lines(tmp_path, "Figures 9")
    assert labels == ["ps", "canonical", "from draws alone"]
    assert "D_4: ps 2 ± 1, canonical 4 ± 0.5, from draws alone 1.5" in figure.charts[0]
    dots = dict(re.findall(r'"dot c\d"><title>(\w+): .*?<line x1="(.*?)"', figure.charts[0]))
    ends = {name: float(re.findall(rf'<title>{name}: .*?x2="(.*?)"', figure.charts[0])[0]) for name in dots}
    widths = {name: ends[name] - float(start) for name, start in dots.items()}
    assert widths["ps"] / widths["canonical"] == pytest.approx(math.log(3 / 1) / math.log(4.5 / 3.5), rel=0.02)
    dash = re.findall(r'reference"><title>from draws alone: 1.5</title><line x1="(.*?)" x2="(.*?)"', figure.charts[0])
    assert len(dash) == 1
    old = [
        {**{k: v for k, v in row.items() if k not in ("from_draws", "spread_stderr")}, "stderr": 1.5} for row in rows
    ]
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": old}))
    assert "ps 2, canonical 4, from draws alone 1.5" in lines(tmp_path, "Figures 9")[1].charts[0]


def test_runs_bring_what_was_asked_of_them(tmp_path: Path) -> None:
    results = tmp_path / "results"
    run = write_run(tmp_path / "runs" / "seed-0", date="2026-03-01")
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 1.0}])
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 2.0}], 1)
    write_analysis(results, "draws", "exp-classify/mlp-ps", [{"draws": 1, "loss": 3.0}], epochs=3)
    write_analysis(results, "inner_symmetry", "figures", cases.inner_rows())
    other = write_analysis(results, "parts", "exp-classify/mlp-ps", [{"part": "all", "loss": 1.0}])
    content = json.loads(other.read_text())
    other.write_text(json.dumps({**content, "run": {**content["run"], "date": "2020-01-01"}}))  # of another run
    write_result(results, result("exp/gin", not_separated=1.0))
    found = gather_runs([run], results)
    assert [one.row for one in found.runs] == ["exp-classify/mlp-ps"]
    assert [(one.analysis, one.rows[0]["loss"]) for one in found.analyses] == [("draws", 1.0)]
    assert gather_runs([run], tmp_path / "nowhere").analyses == []
    own = {**json.loads((results / "exp-classify/mlp-ps/seed-0.draws.json").read_text()), "analysis": "cost"}
    (run / "cost.json").write_text(json.dumps(own))
    assert {one.analysis for one in gather_runs([run], results).analyses} == {"cost", "draws"}


def test_draws_are_not_said_of_rows_that_draw_nothing(tmp_path: Path) -> None:
    shown = {
        "draws": ({"test_mse": 1.0, "test_mse_std": 0.1}, {}),
        "exact": ({"test_mse": 1.0, "test_mse_std": 0.0}, {}),
        "also": ({"test_mse": 1.0, "test_mse@2": 1.0}, {"also_test_samples": [2]}),
        "single": ({"test_mse": 1.0, "test_mse_std": 1e-8}, {"also_test_samples": [2]}),
    }
    for name, (metrics, settings) in shown.items():
        one = result(f"nbody/{name}-canonical", **metrics)
        write_result(tmp_path, {**one, "settings": {**one["settings"], **settings}})
    text = table(tmp_path)
    for name, draws in {"draws": "10", "exact": "", "also": "10", "single": ""}.items():
        assert f"| nbody/{name}-canonical |  | test mse | 1 (1 seed) | {draws} |" in text


def test_every_task_agrees_on_what_is_better() -> None:
    seen = set()
    for recipe in RECIPES.values():
        task = getattr(recipe, "task", None)
        for metric, more in getattr(getattr(task, "func", task), "selects", {}).items():
            assert larger(f"valid_{metric}") is more
            seen.add(metric)
    assert seen == {"loss", "accuracy", "mse", "mae", "ap"}
    for column in ("valid_hits@1", "valid_hits@3", "valid_mrr", "test_ap", "valid_accuracy_whole"):
        assert larger(column) is True
    for column in ("train_loss", "valid_mae", "test_mse", "not_separated"):
        assert larger(column) is False
    assert larger("valid_surprise") is None


def test_both_files_or_neither(tmp_path: Path) -> None:
    write_result(tmp_path / "results", result("exp/gin", not_separated=1.0))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Expected to write a report"):
        write_report(gather(tmp_path / "results"), tmp_path / "report.html", tmp_path / "file" / "report.md")
    assert not (tmp_path / "report.html").exists()
