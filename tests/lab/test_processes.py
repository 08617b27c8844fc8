"""Two processes that train together do what one does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from probsym.errors import NonFiniteError
from probsym.lab.checkpoint import load_checkpoint
from tests.lab.cases import CPU, FAILING, PRECISE, run_quietly

TWO = replace(CPU, processes=2)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = []
    for name, options in (("one", CPU), ("two", TWO)):
        folder = tmp_path_factory.mktemp(name)
        (result,) = run_quietly(PRECISE, folder, options=options)
        found.append((result, load_checkpoint(folder / PRECISE.name / "seed-0" / "checkpoint.pt")))
        assert json.loads((folder / PRECISE.name / "seed-0" / "result.json").read_text()) == result
    return found


def test_losses_agree_over_all_epochs(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    (_, one), (_, two) = both
    assert len(one["curve"]) == len(two["curve"]) == 3
    for first, second in zip(one["curve"], two["curve"], strict=True):
        for name in ("train_loss", "train_total", "valid_loss"):
            assert first[name] == pytest.approx(second[name], abs=1e-5)


def test_weights_and_statistics_agree(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    (_, one), (_, two) = both
    assert one["model"].keys() == two["model"].keys()
    assert any("running_var" in name for name in one["model"])
    for name, value in one["model"].items():
        torch.testing.assert_close(two["model"][name], value, rtol=1e-4, atol=1e-4, msg=name)


def test_metrics_agree(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    (one, _), (two, _) = both
    assert two["metrics"]["test_loss"] == pytest.approx(one["metrics"]["test_loss"], abs=1e-4)
    assert two["metrics"]["best_epoch_loss"] == one["metrics"]["best_epoch_loss"]


def test_errors_of_the_processes_are_typed(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match="in epoch 3"):
        run_quietly(FAILING, tmp_path, options=TWO)
