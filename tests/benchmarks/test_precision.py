"""What the comparison of precisions refuses before anything is trained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import precision, recipe_runs
from probsym.lab.run import Options
from tests.lab.cases import RECIPES

WORDS = ["tiny/mlp-ps", "test_accuracy", "--precision", "32-true", "--set", "epochs=1"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes of a second, and no processes in which to train them."""
    monkeypatch.setattr(recipe_runs, "RECIPES", RECIPES)
    monkeypatch.setattr(precision, "ProcessPoolExecutor", lambda *_: pytest.fail("something is trained"))


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["precision.py", *words])
    with pytest.raises(SystemExit) as stop:
        precision.main()
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_misspelt_metric(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(monkeypatch, capsys, WORDS[0], "test_acuracy", *WORDS[2:])
    assert "test_accuracy, " in told
    assert "(got test_acuracy)" in told


@pytest.mark.parametrize("more", [("--precision", "32-true"), ("--seed", "1", "--seed", "2", "--seed", "1")])
def test_the_same_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    assert f"expected every {more[0].removeprefix('--')} once" in refused(monkeypatch, capsys, *WORDS, *more)


def test_a_precision_that_there_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "invalid choice: 'half'" in refused(monkeypatch, capsys, *WORDS, "--precision", "half")


def test_metrics_are_those_that_a_run_reports(tmp_path: Path) -> None:
    metric, changes = "test_accuracy_at_end@2_std", ["epochs=1", "test_repeats=3", "also_test_samples=1,2"]
    assert metric in precision.metrics(WORDS[0], changes)
    assert len(precision.errors(WORDS[0], metric, [0], changes, Options("cpu"), tmp_path)) == 1
