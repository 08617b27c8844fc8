"""Claims are judged from rows: supported, not supported, mixed, or not to be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from probsym.lab.report.document import Verdict
from probsym.lab.report.figures import FIGURES
from probsym.lab.report.gathered import Analysed
from probsym.lab.report.other_figures import EQUIVARIANCE
from tests.lab.report import cases


def file(rows: list[dict[str, Any]], row: str = "exp-classify/mlp-ps", **changed: Any) -> Analysed:
    content: Mapping[str, Any] = {"analysis": "", "run": {"row": row, "seed": 0, "changed": changed}, "rows": rows}
    return Analysed(f"{row}{changed}", f"{row}{changed}", content)


def verdicts(title: str, *files: Analysed) -> list[Verdict]:
    drawing = next(one for one in (*FIGURES, EQUIVARIANCE) if one.title.startswith(title))
    return [claim.on(files).verdict for claim in drawing.claims]


def states(title: str, *files: Analysed) -> list[str]:
    return [one.state for one in verdicts(title, *files)]


def trained(**changed: Any) -> list[Analysed]:
    rows = {train: cases.sample_size_rows(train) for train in cases.TRAIN_DRAWS}
    rows = {train: [{**row, **changed} for row in some] for train, some in rows.items()}
    return [file(some, samples=train) for train, some in rows.items()]


def test_entropy() -> None:
    (found,) = verdicts("Entropy of the learned", file(cases.entropy_rows()))
    assert found.state == "supported"
    assert "3 at first" in found.numbers
    rising = [{**row, "row_entropy": 2 + row["epoch"] / 40} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(rising)) == ["not supported"]
    late = [{**row, "row_entropy": 3 - (row["epoch"] > 30)} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(late)) == ["not supported"]
    assert states("Entropy of the learned", file(cases.entropy_rows()), file(late, "exp-classify/gin-id-ps")) == [
        "mixed"
    ]
    assert states("Entropy of the learned", file(rising, "exp-classify/mlp-ga")) == ["cannot be told"]


def test_training_draws() -> None:
    assert states("Accuracy by", *trained()) == ["supported"]
    assert states("Accuracy by", *trained(accuracy=94.0)) == ["not supported"]
    low = file(cases.sample_size_rows(1, accuracy=60.0), samples=1)
    assert states("Accuracy by", low, *trained()[1:]) == ["mixed"]
    assert states("Entropy by", *trained()) == ["supported"]
    assert states("Entropy by", *trained(row_entropy=2.0)) == ["not supported"]
    assert states("Variance and loss", *trained()) == ["supported"] * 4
    assert states("Variance and loss", *trained(output_variance=1.0, loss_variance=1.0, loss_mean=1.0)) == [
        "not supported",
        "not supported",
        "cannot be told",
        "not supported",
    ]


def test_without_accuracy_nothing_is_told_of_it() -> None:
    rows = [{name: value for name, value in row.items() if name != "accuracy"} for row in cases.sample_size_rows(5)]
    assert states("Accuracy by", file(rows)) == ["cannot be told"]


def test_variance() -> None:
    (found,) = verdicts("Variance under", file(cases.variance_rows()))
    assert found.state == "supported"
    assert "0.3 to 0.3" in found.numbers
    assert states("Variance under", file(cases.variance_rows(2.0))) == ["not supported"]
    rows = [{**row, "loss_variance": 1.0 if row["method"] == "ps" else 0.5} for row in cases.variance_rows()]
    assert states("Variance under", file(rows)) == ["mixed"]
    assert states("Variance under", file(cases.variance_rows()[:3])) == ["cannot be told"]


def test_gradients() -> None:
    ps, ga = file(cases.gradient_rows(1.0)), file(cases.gradient_rows(0.01), "exp-classify/mlp-ga")
    (found,) = verdicts("Norm of", ps, ga)
    assert found.state == "supported"
    assert "larger at 8 of 8 epochs, 100 times" in found.numbers
    assert states("Norm of", file(cases.gradient_rows(0.001)), ga) == ["not supported"]
    assert states("Norm of", ps) == ["cannot be told"]
    assert states("Norm of", ps, file(cases.gradient_rows(0.01), "exp-classify/gin-ga")) == ["cannot be told"]
    mixed = [{**row, "norm": 1e-9 if row["epoch"] == 0 else row["norm"]} for row in cases.gradient_rows(1.0)]
    assert states("Norm of", file(mixed), ga) == ["mixed"]


def test_inner_symmetry() -> None:
    assert states("Nodes that", file(cases.inner_rows())) == ["supported"]
    assert states("Nodes that", file(cases.inner_rows(0.5, 0.5))) == ["not supported"]


@pytest.mark.parametrize(("loss", "wanted"), [(0.1, "supported"), (1.05, "supported"), (1.4, "not supported")])
def test_draws_may_rise_within_their_noise(loss: float, wanted: str) -> None:
    values = {1: 2.0, 2: 1.0, 5: loss}
    rows = [{"draws": draws, "loss": value, "spread": 0.05, "part": "all"} for draws, value in values.items()]
    assert states("Test error by number", file(rows)) == [wanted]


def test_equivariance_and_concentration() -> None:
    moves = [{"move": "all", "largest": 1e-15, "change": 1.0}, {"move": "n: moved", "largest": 0.3, "change": 1.0}]
    (found,) = verdicts("What is left", file(moves))
    assert found.state == "mixed"
    assert "1 of 2 moves; at most 0.3" in found.numbers
    rows = [{"group": "n", "measure": "entropy", "model": 1.598, "uniform": 1.599}]
    assert states("How far", file(rows)) == ["not supported"]
    assert states("How far", file([{**rows[0], "model": 1.0}])) == ["supported"]


def test_no_rows_and_odd_rows_are_no_hindrance() -> None:
    odd = [{"draws": "many", "epoch": None, "norm": float("nan"), "method": 3, "spread": True}]
    for drawing in (*FIGURES, EQUIVARIANCE):
        for claim in drawing.claims:
            assert claim.on([]).verdict.state == "cannot be told"
            assert claim.on([file(odd)]).verdict.state == "cannot be told"
