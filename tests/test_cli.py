"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from probsym import cli
from probsym.errors import Stopped
from probsym.lab import recipes
from probsym.lab.analyses import ANALYSES, STUDIES
from probsym.lab.pictures import PICTURES, SKETCHES
from probsym.lab.recipes.demo import DecoratedCycles
from tests.lab.cases import CPU, RECIPES, SEPARATION, metrics_of, run_quietly

ROOT = Path(__file__).resolve().parents[1]
WITH_DATA = (Path(os.environ.get("PROBSYM_DATA", "")) / "exp_graphsat.npz").is_file()
Capture = pytest.CaptureFixture[str]
TINY = ["tiny/mlp-ps", "--device", "cpu", "--set", "epochs=1"]


class Commands:
    """Calls the command line in this process, with small recipes beside the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["probsym", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        return code, *self.capsys.readouterr()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Commands:
    monkeypatch.setattr(recipes, "RECIPES", {**recipes.RECIPES, **RECIPES})
    monkeypatch.setattr(cli, "console", Console(width=200))
    monkeypatch.setattr(cli, "errors", Console(width=200, stderr=True))
    return Commands(monkeypatch, capsys)


def outside(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} | {"COLUMNS": ""}
    command = [sys.executable, "-m", "probsym.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


# from outside


@pytest.mark.slow
def test_help_names_the_commands() -> None:
    done = outside("--help")
    assert done.returncode == 0
    for name in ("list", "train", "evaluate", "analyse", "inspect", "picture", "table", "report", "check", "demo"):
        assert re.search(rf"│ {name} +", done.stdout)


@pytest.mark.slow
def test_names_can_be_read_where_nobody_says_how_wide_the_page_is() -> None:
    done = outside("list")
    assert done.returncode == 0
    for name in (name for name in recipes.RECIPES if not name.endswith(("gin-id-ps-fixed-noise", "-sum"))):
        assert name in done.stdout
    for word in ("MLP-PS, fixed noise", "published only", "not run yet"):
        assert word in done.stdout


# list, table, report, check


def test_the_list_has_recipes_numbers_and_states(call: Commands, tmp_path: Path) -> None:
    code, output, errors = call("list", "--results", tmp_path)
    assert (code, errors) == (0, "")
    assert "exp-classify/mlp-ps " in output
    (line,) = [line for line in output.splitlines() if line.startswith("Besides: ")]
    assert {"demo/mlp-ps", "demo/mlp-ga", "demo/mlp-canonical", "exp/gin-sum"} <= set(line.replace(",", "").split())


@pytest.mark.parametrize("number", [1, 7])
def test_tables_are_shown(call: Commands, tmp_path: Path, number: int) -> None:
    code, output, errors = call("table", number, "--results", tmp_path)
    assert (code, errors) == (0, "")
    assert f"Table {number}." in output
    assert "GRAPH8c" in output


def test_results_are_shown_in_their_table(call: Commands, tmp_path: Path) -> None:
    fields = dict.fromkeys(("command", "commit", "hardware", "torch", "date"), "")
    result = {"row": "exp-classify/mlp-ps", "seed": 0, "metrics": {"test_accuracy": 98.76}, **fields}
    (tmp_path / "one.json").write_text(json.dumps(result))
    assert "98.76" in call("table", 1, "--results", tmp_path)[1]
    assert "98.76" in call("list", "--results", tmp_path)[1]
    (tmp_path / "one.json").write_text("{")
    code, _, errors = call("table", 1, "--results", tmp_path)
    assert code == 1
    assert errors.startswith("RunError: Expected")


def test_table_1_has_a_row_for_every_method(call: Commands) -> None:
    lines = call("table", 1, "--results", ROOT / "results")[1].splitlines()
    first = lines[: next(i for i, line in enumerate(lines) if line.startswith("└")) + 1]
    assert "Table 1" in first[0]
    rows = [line.split("│") for line in first if line.startswith("│")]
    methods = [row[1].strip() for row in rows]
    assert {"MLP-GA", "MLP-FA", "MLP-Canonical", "MLP-PS"} <= set(methods)
    assert "98.84" in rows[methods.index("MLP-PS")][-2]


def test_the_report_of_all_results(call: Commands, tmp_path: Path) -> None:
    code, _, errors = call("report", "--results", ROOT / "results", "--out", tmp_path / "report.html")
    assert (code, errors) == (0, "")
    assert (tmp_path / "report.md").exists()


def test_results_and_runs_are_reported(call: Commands, tmp_path: Path) -> None:
    assert call("train", *TINY, "--out", tmp_path / "runs", "--results", tmp_path / "results")[0] == 0
    page, markdown = tmp_path / "all.html", tmp_path / "tables.md"
    code, output, errors = call("report", "--results", tmp_path / "results", "--out", page, "--markdown", markdown)
    assert (code, errors) == (0, "")
    assert output == f"Report: {page}\nMarkdown: {markdown}\n"
    assert "tiny/mlp-ps" in page.read_text()
    assert "tiny/mlp-ps" in markdown.read_text()
    run = tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0"
    assert call("report", run, "--results", tmp_path / "nowhere", "--out", tmp_path / "run.html")[0] == 0
    assert "seed-0/result.json" in (tmp_path / "run.md").read_text()
    assert call("analyse", "cost", run, "--examples", 2, "--samples", 1, "--results", tmp_path / "results")[0] == 0
    assert call("report", run, "--results", tmp_path / "results", "--out", tmp_path / "asked.html")[0] == 0
    assert "Where the time of a prediction goes" in (tmp_path / "asked.md").read_text()
    before = page.read_bytes()
    code, output, errors = call("report", "--results", tmp_path / "results", "--out", page)
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert "never overwritten" in errors
    assert page.read_bytes() == before
    code, _, errors = call("report", tmp_path / "nowhere", "--out", tmp_path / "other.html")
    assert code == 1
    assert errors.startswith("RunError: Expected a finished run")


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "x" * 300),
        ("list", "--results", "x" * 300),
        ("picture", "inner_symmetry", "--out", f"{'x' * 300}.png"),
        ("report", "--out", "x" * 300),
        ("report", "--out", "."),
    ],
    ids=lambda words: words[0],
)
def test_places_that_cannot_be_are_one_line(call: Commands, words: tuple[str, ...]) -> None:
    code, output, errors = call(*words)
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert "Error: " in errors


def test_names_of_files_are_printed_as_they_are(
    call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SKETCHES, "inner_symmetry", lambda device, seed: Figure((1, 1)))
    results = tmp_path / "[/results]"
    assert call("train", *TINY, "--out", tmp_path / "runs", "--results", results)[0] == 0
    run = tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0"
    code, output, _ = call("analyse", "cost", run, "--examples", 2, "--samples", 1, "--results", results)
    assert code == 0
    assert f"Written: {results}" in output
    assert f"Report: {results}" in call("report", "--results", results, "--out", results / "report.html")[1]
    place = tmp_path / "[red].png"
    assert f"Picture: {place}" in call("picture", "inner_symmetry", "--out", place)[1]


@pytest.mark.parametrize("words", [("table", 9), ("table", "one"), ("table",), ("trane",), ("list", "--nothing")])
def test_wrong_words_exit_with_2(call: Commands, words: tuple[object, ...]) -> None:
    code, output, errors = call(*words)
    assert code == 2
    assert errors
    assert not output


@pytest.mark.parametrize(
    "words", [("--seed", "x"), ("--processes", "0"), ("--checkpoint-every", "-1"), ("--nothing",), ("--seed",)]
)
def test_wrong_options_exit_with_2(call: Commands, words: tuple[str, ...], tmp_path: Path) -> None:
    code, _, errors = call("train", *TINY, "--out", tmp_path, *words)
    assert code == 2
    assert words[0] in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not WITH_DATA, reason="no EXP in PROBSYM_DATA")
def test_check_finds_everything(call: Commands) -> None:
    code, output, _ = call("check")
    assert code == 0
    sets = ("exp", "graph8c", "pattern", "peptides-func", "peptides-struct", "pcqm-contact")
    for word in ("torch", "lightning", *(f"data: {name}" for name in sets), "checksum right"):
        assert word in output
    assert "missing" not in output


def test_check_fails_where_data_are_missing(call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    code, output, _ = call("check")
    assert code == 1
    assert re.search(r"data: exp +│ missing", output)
    assert re.search(r"data: pattern +│ not yet +│ generated in seconds when first used", output)
    assert re.search(r"data: pcqm-contact +│ not yet +│ downloaded when first used", output)


def test_check_fails_where_data_are_broken(call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    (tmp_path / "peptides_func.npz").write_bytes(b"half")
    code, output, _ = call("check")
    assert code == 1
    assert re.search(r"data: peptides-func +│ missing", output)


# train


def test_training_prints_and_writes_the_metrics(call: Commands, tmp_path: Path) -> None:
    code, output, errors = call("train", *TINY, "--out", tmp_path / "runs", "--results", tmp_path / "results")
    assert (code, errors) == (0, "")
    result = json.loads((tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0" / "result.json").read_text())
    assert result["changed"] == {"epochs": 1}
    assert result["command"] == "probsym train tiny/mlp-ps --device cpu --set epochs=1"
    assert f"{result['metrics']['test_loss']:.6g}" in output
    assert (tmp_path / "results" / "tiny" / "mlp-ps" / "epochs=1" / "seed-0.json").exists()


def test_several_seeds_are_as_separate_runs(call: Commands, tmp_path: Path) -> None:
    code, output, _ = call("train", *TINY, "--seed", 3, "--seed", 5, "--out", tmp_path / "together")
    assert code == 0
    assert "seed 3" in output
    assert "seed 5" in output
    for seed in (5, 3):
        assert call("train", *TINY, "--seed", seed, "--out", tmp_path / "apart")[0] == 0
        together, apart = (
            json.loads((tmp_path / name / "tiny" / "mlp-ps" / f"seed-{seed}" / "result.json").read_text())
            for name in ("together", "apart")
        )
        assert metrics_of(together) == metrics_of(apart)
    assert not (tmp_path / "together" / "tiny" / "mlp-ps" / "seed-0").exists()


def test_several_recipes_run_one_after_the_other(call: Commands, tmp_path: Path) -> None:
    code, _, _ = call("train", "tiny/mlp-*a", "tiny/plain", "--device", "cpu", "--set", "epochs=1", "--out", tmp_path)
    assert code == 0
    assert {path.name for path in (tmp_path / "tiny").iterdir()} == {"mlp-ga", "mlp-fa", "plain"}


def test_the_demo_recipes_train(call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DecoratedCycles.__init__, "__defaults__", (40,))
    changes = ["epochs=1", "batch_size=20", "samples=1", "eval_samples=1"]
    words = [word for change in changes for word in ("--set", change)]
    code, output, _ = call("train", "demo/mlp-ps", *words, "--device", "cpu", "--out", tmp_path)
    assert code == 0
    assert "test_accuracy" in output


@pytest.mark.parametrize(
    "words", [("tiny/mlp-sp",), ("tiny/*x",), (*TINY, "--set", "epoch=1"), (*TINY, "--set", "decay=x")]
)
def test_unknown_names_and_keys_exit_with_2(call: Commands, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, output, errors = call("train", *words, "--out", tmp_path)
    assert code == 2
    assert errors.startswith(("Expected", "Unknown"))
    assert errors.count("\n") == 1
    assert not output
    assert not list(tmp_path.iterdir())


def test_suggestions_are_given(call: Commands, tmp_path: Path) -> None:
    assert "did you mean tiny/mlp-ps" in call("train", "tiny/mlp-sp", "--out", tmp_path)[2]
    assert "did you mean exp-classify/mlp-ps" in call("train", "exp-clasify/mlp-ps", "--out", tmp_path)[2]
    assert "did you mean epochs" in call("train", *TINY, "--set", "epoch=1", "--out", tmp_path)[2]


def test_nothing_is_overwritten(call: Commands, tmp_path: Path) -> None:
    assert call("train", *TINY, "--out", tmp_path)[0] == 0
    path = tmp_path / "tiny" / "mlp-ps" / "seed-0" / "result.json"
    before = path.read_bytes()
    code, _, errors = call("train", *TINY, "--out", tmp_path)
    assert code == 1
    assert errors.startswith("RunError: Expected")
    code, output, _ = call("train", *TINY, "--out", tmp_path, "--resume")
    assert code == 0
    assert "test_accuracy" in output
    assert path.read_bytes() == before


def test_a_loss_that_is_not_finite_is_one_line(call: Commands, tmp_path: Path) -> None:
    code, _, errors = call("train", "tiny/failing", "--device", "cpu", "--checkpoint-every", "0", "--out", tmp_path)
    assert code == 1
    assert errors.startswith("NonFiniteError: Expected finite scores from the net for axis 'n' (got NaN")
    assert "in epoch 3; " in errors
    assert str(tmp_path / "tiny" / "failing" / "seed-0" / "checkpoint.pt") in errors


def test_an_interrupt_says_where_the_checkpoint_is(
    call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Stopped("the checkpoint is there")

    monkeypatch.setattr("probsym.lab.run.run", stopped)
    code, _, errors = call("train", *TINY, "--out", tmp_path)
    assert code == 130
    assert errors == "Interrupted: the checkpoint is there\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--device", "tpu"),
        ("--precision", "fp9"),
        ("--set", "batch_size=0"),
        ("--set", "learning_rate=-1"),
        ("--set", "samples=0"),
        ("--capture",),
        ("--out", "FILE"),
        ("--results", "FILE"),
    ],
    ids=" ".join,
)
def test_what_cannot_work_is_one_line_and_no_traceback(call: Commands, tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    given = [str(file) if word == "FILE" else word for word in words]
    code, _, errors = call("train", *TINY, "--out", tmp_path / "runs", *given)
    assert code in (1, 2)
    assert "Error: " in errors


@pytest.mark.parametrize("content", [b"", b"broken"])
def test_a_broken_checkpoint_is_one_line(call: Commands, tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "tiny" / "mlp-ps" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").write_bytes(content)
    code, _, errors = call("train", *TINY, "--out", tmp_path, "--resume")
    assert code == 1
    assert errors.startswith("RunError: Expected")
    assert (folder / "checkpoint.pt").read_bytes() == content


def test_a_terminal_is_no_hindrance(call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "console", Console(width=200, force_terminal=True))
    code, output, _ = call("train", *TINY, "--out", tmp_path)
    assert code == 0
    assert "━" in output


# evaluate


def numbers(output: str) -> dict[str, tuple[str, str]]:
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│ test_" in line]
    return {name: (now, before) for name, now, before in rows}


def test_evaluation_finds_what_the_run_found(call: Commands, tmp_path: Path) -> None:
    (result,) = run_quietly(RECIPES["tiny/mlp-ps"], tmp_path, (7,))
    folder = tmp_path / "tiny" / "mlp-ps" / "seed-7"
    code, output, errors = call("evaluate", folder, "--device", "cpu")
    assert (code, errors) == (0, "")
    metrics = numbers(output)
    assert set(metrics) == {"test_loss", "test_accuracy"}
    for name, (now, before) in metrics.items():
        assert now == before == f"{result['metrics'][name]:.6g}"


def test_evaluation_with_other_draws_finds_other_numbers(call: Commands, tmp_path: Path) -> None:
    run_quietly(RECIPES["tiny/mlp-ps"], tmp_path)
    folder = tmp_path / "tiny" / "mlp-ps" / "seed-0"
    now, before = numbers(call("evaluate", folder, "--device", "cpu", "--samples", 40)[1])["test_loss"]
    assert now != before
    assert abs(float(now) - float(before)) < 0.1
    repeated = numbers(call("evaluate", folder, "--device", "cpu", "--repeats", 3)[1])
    assert float(repeated["test_loss_std"][0]) > 0


def test_evaluation_repeats_as_the_run_did(call: Commands, tmp_path: Path) -> None:
    run_quietly(RECIPES["tiny/mlp-ps"], tmp_path, changes=["test_repeats=3"])
    metrics = numbers(call("evaluate", tmp_path / "tiny" / "mlp-ps" / "seed-0", "--device", "cpu")[1])
    now, before = metrics["test_loss"]
    assert now == before


def test_a_run_without_a_test_can_be_tested_later(call: Commands, tmp_path: Path) -> None:
    run_quietly(RECIPES["tiny/mlp-ps"], tmp_path, changes=["test_repeats=0"])
    metrics = numbers(call("evaluate", tmp_path / "tiny" / "mlp-ps" / "seed-0", "--device", "cpu")[1])
    assert float(metrics["test_loss"][0]) > 0


def test_evaluation_leaves_the_run_as_it_is(call: Commands, tmp_path: Path) -> None:
    run_quietly(RECIPES["tiny/plain"], tmp_path)
    folder = tmp_path / "tiny" / "plain" / "seed-0"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert call("evaluate", folder, "--device", "cpu")[0] == 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_what_is_no_finished_run_is_one_line(call: Commands, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, _, errors = call("evaluate", folder)
        assert code == 1
        assert errors.startswith("RunError: Expected a finished run")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"row": "tiny/mlp-ps", "seed": 0, "settings": {}}'])
def test_a_broken_result_is_one_line(call: Commands, tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    code, _, errors = call("evaluate", tmp_path, "--device", "cpu")
    assert code == 1
    assert errors.startswith("RunError: Expected")


def test_runs_are_analysed_and_the_rows_kept(call: Commands, tmp_path: Path) -> None:
    assert call("train", *TINY, "--out", tmp_path / "runs")[0] == 0
    run = tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0"
    words = ("analyse", "draws", run, "--samples", 4, "--repeats", 2, "--examples", 5, "--device", "cpu")
    code, output, errors = call(*words, "--results", tmp_path / "results")
    assert (code, errors) == (0, "")
    kept = json.loads((tmp_path / "results" / "tiny" / "mlp-ps" / "epochs=1" / "seed-0.draws.json").read_text())
    assert {row["draws"] for row in kept["rows"]} == {1, 2, 4}
    assert f"{kept['rows'][0]['loss']:.5g}" in output
    code, _, errors = call(*words, "--results", tmp_path / "results")
    assert (code, errors.count("\n")) == (1, 1)
    assert "never overwritten" in errors


def test_a_run_is_inspected(call: Commands, tmp_path: Path) -> None:
    assert call("train", *TINY, "--out", tmp_path / "runs")[0] == 0
    run = tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0"
    words = ("inspect", run, "--examples", 5, "--samples", 4, "--repeats", 2, "--device", "cpu", "--stderr", 0.01)
    code, output, _ = call(*words)
    assert code == 0
    for word in ("n: moved", "independent", "row entropy", "sampler", "eval_samples="):
        assert word in output


def test_runs_that_kept_weights_are_analysed_over_training(call: Commands, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "tiny" / "mlp-ps" / "seed-0"
    assert call("train", *TINY, "--keep-every", 1, "--out", tmp_path / "runs")[0] == 0
    assert sorted(path.name for path in (run / "weights").iterdir()) == ["epoch-0000.pt", "epoch-0001.pt"]
    code, _, errors = call("analyse", "entropy", run, "--device", "cpu", "--results", tmp_path / "results")
    assert (code, errors) == (0, "")
    kept = json.loads((tmp_path / "results" / "tiny" / "mlp-ps" / "epochs=1" / "seed-0.entropy.json").read_text())
    assert [(row["epoch"], row["draws"]) for row in kept["rows"]] == [(0, 50), (1, 50)]
    assert kept["questions"] == {"examples": None, "samples": 50, "seed": 0}
    assert call("picture", "permutations", run, "--device", "cpu", "--out", tmp_path / "a.png")[0] == 0
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_runs_without_kept_weights_are_refused_in_one_line(call: Commands, tmp_path: Path) -> None:
    assert call("train", *TINY, "--out", tmp_path)[0] == 0
    for name in ("entropy", "gradient"):
        code, _, errors = call("analyse", name, tmp_path / "tiny" / "mlp-ps" / "seed-0", "--device", "cpu")
        assert (code, errors.count("\n")) == (1, 1)
        assert "--keep-every" in errors


@pytest.mark.parametrize("vain", ["--samples", "--repeats"])
def test_what_an_analysis_never_uses_is_refused_in_one_line(call: Commands, tmp_path: Path, vain: str) -> None:
    code, _, errors = call("analyse", "gradient", tmp_path, vain, 3)
    assert (code, errors.count("\n")) == (1, 1)
    assert "gradient to be asked with examples, seed" in errors
    assert vain.removeprefix("--") in errors


def test_what_needs_no_run_takes_none(call: Commands, tmp_path: Path) -> None:
    words = ("analyse", "inner_symmetry", "--samples", 20, "--repeats", 1, "--device", "cpu", "--results", tmp_path)
    code, _, errors = call(*words)
    assert (code, errors) == (0, "")
    kept = json.loads((tmp_path / "figures" / "seed-0.inner_symmetry.json").read_text())
    assert kept["run"] is None
    assert {row["method"] for row in kept["rows"]} == {"ps", "canonical"}
    assert {"command", "commit", "hardware"} <= set(kept)
    assert kept["questions"] == {"samples": 20, "repeats": 1, "seed": 0}
    assert "never overwritten" in call(*words)[2]
    picture = ("picture", "--out", tmp_path / "a.png")
    for wrong in (
        ("analyse", "inner_symmetry", tmp_path),
        ("analyse", "draws"),
        (*picture, "systems"),
        (*picture, "inner_symmetry", tmp_path),
    ):
        code, _, errors = call(*wrong)
        assert (code, errors.count("\n")) == (1, 1)
        assert "run" in errors


def test_help_names_all_analyses_and_pictures() -> None:
    assert cli._one_of("analyses").replace(" or ", ", ").split(", ") == sorted({**ANALYSES, **STUDIES})
    assert cli._one_of("pictures").replace(" or ", ", ").split(", ") == sorted({**PICTURES, **SKETCHES})


def test_unknown_analyses_come_with_suggestions(call: Commands, tmp_path: Path) -> None:
    code, _, errors = call("analyse", "draw", tmp_path)
    assert code == 2
    assert "did you mean draws" in errors


def test_separation_cannot_be_evaluated(call: Commands, tmp_path: Path) -> None:
    run_quietly(replace(SEPARATION, models=1), tmp_path, options=CPU)
    code, _, errors = call("evaluate", tmp_path / "tiny" / "separation" / "seed-0")
    assert code == 1
    assert "recipe that trains" in errors


@pytest.mark.parametrize("words", [("list",), ("table", "1")])
def test_a_folder_of_results_that_is_not_there_is_said(call: Commands, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, printed, said = call(*words, "--results", str(tmp_path / "nowhere"))
    assert code == 0
    assert "MLP-PS" in printed or "mlp-ps" in printed
    assert f"there is no folder {tmp_path / 'nowhere'}" in said
    _, _, said = call(*words, "--results", str(tmp_path))
    assert said == ""
