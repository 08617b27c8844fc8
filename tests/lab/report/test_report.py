"""The report as files: what is on it, where it leads, what it escapes, and that nothing is overwritten."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from probsym.errors import RunError
from probsym.lab.report import gather, gather_runs, write_report
from probsym.lab.report.costs import cost_grid
from probsym.lab.report.document import Cell, Figure, Grid
from probsym.lab.report.figures import FIGURES, figures
from probsym.lab.report.markdown import escaped, grid_as_markdown
from probsym.lab.report.paper_tables import paper_grids
from probsym.lab.report.sections import documented
from probsym.lab.results import write_curve, write_result
from tests.lab.report import cases
from tests.lab.report.cases import HOSTILE, result, write_analysis, write_everything


class Page(HTMLParser):
    """Tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("report")
    page, markdown = write_report(gather(write_everything(folder / "results")), folder / "report.html")
    return page.read_text(), markdown.read_text()


def test_the_page_needs_nothing_else(files: tuple[str, str]) -> None:
    page = Page(files[0])
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not page.values("src")
    assert all(one.startswith(("#", "data:")) for one in page.values("href"))
    assert "@import" not in files[0]
    assert "url(" not in files[0]


def test_hostile_names_are_text(files: tuple[str, str]) -> None:
    for text in files:
        for word in ("<script", "<img", "<b>"):
            assert word not in text
    page = Page(files[0])
    assert HOSTILE in page.text
    assert "<img src=x>" in page.text


def test_every_link_leads_somewhere_and_no_anchor_is_taken_twice(files: tuple[str, str]) -> None:
    page = Page(files[0])
    anchors = page.values("id")
    assert len(anchors) == len(set(anchors))
    links = {one.removeprefix("#") for one in page.values("href") if one.startswith("#")}
    assert len(links) > 20
    assert links <= set(anchors)


def test_every_number_of_ours_leads_to_its_file(tmp_path: Path) -> None:
    gathered = gather(write_everything(tmp_path))
    anchors = {run.anchor for run in gathered.runs}
    cells = [cell for grid in paper_grids(gathered) for row in grid.rows for cell in row if cell.mark]
    assert len(cells) == 4
    assert all(cell.link in anchors for cell in cells)


def test_where_numbers_come_from_is_all_there(files: tuple[str, str]) -> None:
    for word in ("exp-classify/mlp-ps/seed-2.json", "two cores", "2.13", "c" * 12, "2026-01-02 03:04", "probsym train"):
        assert word in Page(files[0]).text
        assert escaped(word) in files[1]
    assert "c" * 13 not in files[0]


def test_tables_have_both_numbers_and_a_judgement(files: tuple[str, str]) -> None:
    assert "| MLP-PS | 0 |  | 0 | 3 (1 seed) ▽ | 100 | 99 ± 0.5 (3 seeds) ≈ |" in files[1]
    assert "| MLP-GA | 0 |  | 0 |  | 50 | 50 (1 seed) = |" in files[1]
    assert "ours with epochs=9" in files[1]
    assert "| GNN-PS | 0.00386 | 0.004 (1 seed) |" in files[1]
    assert "| MLP-PS |  |  |  |  | 3 (of 600) | 7 (of 1200) | 5 (of 600) | 1 (of 1200) |" in files[1]


def test_rows_of_no_table_are_shown(files: tuple[str, str]) -> None:
    assert f"| {escaped(HOSTILE)} |  | test accuracy | 12 (1 seed) | 10 |" in files[1]


def test_every_new_analysis_is_drawn(tmp_path: Path) -> None:
    found = [one for one in figures(gather(write_everything(tmp_path)).analyses) if isinstance(one, Figure)]
    titles = " ".join(one.title for one in found)
    for number in ("Figure 2", "Figure 4", "Figure 5", "Figure 6", "Figure 7", "Figure 8", "Figures 9 to 11"):
        assert f"({number})" in titles
    assert all(figure.charts for figure in found)
    states = {claim.verdict.state for figure in found for claim in figure.claims}
    assert states == {"supported"}


def test_runs_of_a_row_are_joined_where_they_belong_together(tmp_path: Path) -> None:
    analyses = gather(write_everything(tmp_path)).analyses
    found = {one.title: one for one in figures(analyses) if isinstance(one, Figure)}
    six = next(one for title, one in found.items() if "Figure 6" in title)
    assert [label for label, _ in six.legend] == [f"train draws {train}" for train in cases.TRAIN_DRAWS]
    assert all(chart.count("<polyline") == 6 for chart in six.charts)
    four = next(one for title, one in found.items() if "Figure 4" in title)
    assert four.charts[0].count("<circle") == 6
    eight = next(one for title, one in found.items() if "Figure 8" in title)
    assert [label for label, _ in eight.legend] == ["mlp-ga", "mlp-ps"]


def test_a_study_of_no_run_is_drawn_too(tmp_path: Path) -> None:
    gathered = gather(write_everything(tmp_path))
    (study,) = [one for one in figures(gathered.analyses) if isinstance(one, Figure) and "Figures 9" in one.title]
    assert study.title == "Nodes that a symmetry of the graph exchanges (Figures 9 to 11)"
    assert study.charts[0].count("<circle") == 6
    assert study.sources == [("figures/seed-0.inner_symmetry.json", "analysis-figures-seed-0-inner-symmetry")]


def test_every_drawing_of_the_registry_has_a_place(tmp_path: Path) -> None:
    assert {one.analysis for one in FIGURES} == {
        *("concentration", "cost", "draws", "parts", "tolerance"),
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
    found = [one for one in figures(gather(tmp_path).analyses) if isinstance(one, Figure)]
    assert len(found) == 6
    assert sum(len(one.charts) for one in found) == 5  # no independent draws among these


def test_odd_analyses_and_values_are_shown_all_the_same(tmp_path: Path) -> None:
    write_result(tmp_path, result("nbody/gnn-ps", test_mse=1.0))
    write_analysis(tmp_path, "unheard-of", "nbody/gnn-ps", [{"a": [1, 2], "b": None, "c": {"d": 1}}, {"e": "x" * 100}])
    for drawing in FIGURES:
        write_analysis(tmp_path, drawing.analysis, "exp/mlp-ps", [{"draws": None, "epoch": "x", "method": 1}])
    write_analysis(tmp_path, "entropy", "tiny/mlp-ps", [])
    write_report(gather(tmp_path), tmp_path / "report.html")
    assert "x" * 61 not in (tmp_path / "report.md").read_text()


def test_curves_are_grouped_thinned_and_coloured_by_method(tmp_path: Path) -> None:
    for method in ("ps", "ga"):
        write_result(tmp_path, result(f"exp-classify/mlp-{method}", test_accuracy=50.0), cases.curve(0.01, 2000))
        write_result(tmp_path, result(f"exp-classify/gin-id-{method}", test_accuracy=50.0), cases.curve(0.01))
    for samples in (1, 2):
        changed = {"samples": samples}
        write_result(tmp_path, result("exp-classify/mlp-ps", 0, changed, test_accuracy=50.0), cases.curve(0.01))
    section = next(one for one in documented(gather(tmp_path)).sections if one.anchor == "curves")
    plain, other = section.blocks
    assert isinstance(plain, Figure)
    assert isinstance(other, Figure)
    assert dict(plain.legend) == {"ga": "c0", "ps": "c1"}
    assert len(plain.charts) == 4
    assert all(len(points.split()) <= 125 for chart in plain.charts for points in re.findall(r'points="(.*?)"', chart))
    assert "16 epochs" in plain.text
    assert other.title.endswith("with other settings")
    assert [label for label, _ in other.legend] == ["ps, samples=1", "ps, samples=2"]


def test_costs_have_the_step_of_the_benchmark(files: tuple[str, str]) -> None:
    line = next(one for one in files[1].splitlines() if one.startswith("| exp-classify/mlp-ps | two cores"))
    assert "| 3 | 3.5 s | 2 s | 50 ms | 5 ms (captured, two cores) |" in line
    assert "| step\\_seconds / captured | 5 ms |" in files[1]
    assert "| a / b | \\[1, 2\\] |" in files[1]


def test_records_of_a_benchmark_are_a_table(files: tuple[str, str]) -> None:
    assert "| kernels | 2 rows, in a table below |" in files[1]
    table = files[1][files[1].index("steps, kernels: 2 rows") :].splitlines()
    assert "| kernel | calls | seconds |" in table[:4]
    assert "| product | 2 | 5.12 ms |" in table[:6]
    assert "| a\\|b&lt;c&gt; |  | 100 ms |" in table[:6]
    assert "a|b&lt;c&gt;" in files[0]
    assert "b<c>" not in files[0]


def test_a_time_shorter_than_its_training_is_left_out(tmp_path: Path) -> None:
    for seed, training in enumerate((2.0, 3.55)):  # of 3.5 s in all, which is rounded
        write_result(tmp_path, result("exp-classify/mlp-ps", seed, test_accuracy=99.0, train_seconds=training))
    (row,) = cost_grid(gather(tmp_path)).rows
    assert [cell.text for cell in row[3:7]] == ["2", "3.5 s", "2.77 s", "69.4 ms"]
    write_result(tmp_path, result("exp-classify/mlp-ps", 2, test_accuracy=99.0, train_seconds=4.0))
    (row,) = cost_grid(gather(tmp_path)).rows
    assert [cell.text for cell in row[3:6]] == ["3", "", "3.18 s"]


def test_runs_are_reported_by_themselves(tmp_path: Path) -> None:
    write_everything(tmp_path / "results")
    for seed in (0, 1):
        folder = tmp_path / "runs" / "exp-classify" / "mlp-ps" / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(result("exp-classify/mlp-ps", seed, test_accuracy=97.0)))
        write_curve(folder / "curve.csv", cases.curve(0.1))
    one = gather_runs([tmp_path / "runs" / "exp-classify" / "mlp-ps" / "seed-1"])
    assert [run.content["seed"] for run in one.runs] == [1]
    assert len(one.runs[0].curve) == 40
    both = gather_runs([tmp_path / "runs", tmp_path / "runs" / "exp-classify"])
    assert [run.content["seed"] for run in both.runs] == [0, 1]
    with pytest.raises(RunError, match=r"Expected a finished run with a result\.json"):
        gather_runs([tmp_path / "runs", tmp_path / "nowhere"])
    (tmp_path / "runs" / "result.json").write_text("{}")
    with pytest.raises(RunError, match="to be the result of a run"):
        gather_runs([tmp_path / "runs"])


def test_what_was_superseded_does_not_count(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp/gin", not_separated=600.0))
    write_result(tmp_path / "superseded", result("exp/gin", 1, not_separated=1.0))
    write_analysis(tmp_path / "superseded", "draws", "exp/gin", [{"draws": 1}])
    found = gather(tmp_path)
    assert (len(found.runs), len(found.analyses)) == (1, 0)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Expected results in .*nowhere"):
        gather(tmp_path / "nowhere")
    write_result(tmp_path, {**result("exp/gin"), "metrics": [1]})
    with pytest.raises(RunError, match=r"seed-0\.json to have metrics"):
        gather(tmp_path)
    (tmp_path / "exp" / "gin" / "seed-0.json").write_text("{")
    with pytest.raises(RunError, match=r"seed-0\.json to be JSON"):
        gather(tmp_path)


def test_a_broken_curve_is_named(tmp_path: Path) -> None:
    path = write_result(tmp_path, result("exp/gin", not_separated=1.0))
    path.with_suffix(".csv").write_text("epoch,train_loss\n1,much\n")
    with pytest.raises(RunError, match=r"seed-0\.csv to be the curve"):
        write_report(gather(tmp_path), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("taken", ["report.html", "report.md"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    write_result(tmp_path, result("exp/gin", not_separated=1.0))
    (tmp_path / taken).write_text("mine")
    with pytest.raises(RunError, match=f"Expected no report at .*{taken}, which is never overwritten"):
        write_report(gather(tmp_path), tmp_path / "report.html")
    assert (tmp_path / taken).read_text() == "mine"
    assert len(list(tmp_path.glob("report.*"))) == 1


def test_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    write_result(tmp_path, result("exp/gin", not_separated=1.0))
    with pytest.raises(RunError, match="Expected two files"):
        write_report(gather(tmp_path), tmp_path / "report.md")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Expected to write"):
        write_report(gather(tmp_path), tmp_path / "file" / "report.html")


def test_the_same_results_give_the_same_report(tmp_path: Path) -> None:
    gathered = gather(write_everything(tmp_path / "results"))
    one, other = (write_report(gathered, tmp_path / name / "report.html")[0].read_bytes() for name in ("a", "b"))
    assert one == other


def test_markdown_means_what_it_says() -> None:
    grid = Grid("c", ("a|b", "x"), [(Cell("<b>_*`\n"), Cell("1", "note"))], (("", 1), ("over", 1)))
    assert grid_as_markdown(grid).splitlines() == [
        "| a\\|b | over, x |",
        "| --- | ---: |",
        "| &lt;b&gt;\\_\\*\\` | 1 (note) |",
    ]
