"""Claims are judged from rows: supported, not supported, mixed, or not to be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from probsym.lab.analyses.inner_symmetry import GRAPHS
from probsym.lab.report.claims import judge
from probsym.lab.report.document import Judgement
from probsym.lab.report.figure_specs import FIGURES
from probsym.lab.report.load import File
from tests.lab.report import cases

SAMPLE_SIZE = ("Accuracy by", "Entropy by", "Variance and loss")
"""The figures of models trained with different numbers of draws."""
OPEN = "cannot be told"


def file(rows: list[dict[str, Any]], row: str = "exp-classify/mlp-ps", seed: int = 0, **changed: Any) -> File:
    name = f"{row}{seed}{changed}"
    return File(name, name, {"rows": rows}, {"row": row, "seed": seed, "changed": changed})


def judged(title: str, *files: File) -> list[Judgement]:
    spec = next(spec for spec in FIGURES if spec.title.startswith(title))
    return [judge(claim, files) for claim in spec.claims]


def states(title: str, *files: File) -> list[str]:
    return [judgement.mark.words for judgement in judged(title, *files)]


def trained(*draws: int, row: str = "exp-classify/mlp-ps", seed: int = 0, **columns: Any) -> list[File]:
    """Models trained with these numbers of draws, with some columns changed: to a value, or by a function of them."""
    files = []
    for train in draws or cases.TRAIN_DRAWS:
        values = {name: value(train) if callable(value) else value for name, value in columns.items()}
        rows = [{**usual, **values} for usual in cases.sample_size_rows(train)]
        files.append(file(rows, row, seed, samples=train))
    return files


def sample_size_states(*files: File) -> set[str]:
    return {state for title in SAMPLE_SIZE for state in states(title, *files)}


def test_every_rule_is_said_in_words() -> None:
    claims = [claim for spec in FIGURES for claim in spec.claims]
    assert len(claims) == 14
    assert all(claim.rule.startswith("Supported if ") for claim in claims)
    assert all(claim.y and (claim.x or claim.kind == "within") for claim in claims)


def test_entropy() -> None:
    (judgement,) = judged("Entropy of the learned", file(cases.entropy_rows()))
    assert (judgement.mark.words, judgement.numbers) == ("supported", "1 of 1 hold, 1.404 < 2.85")
    rising = [{**row, "row_entropy": 2 + row["epoch"] / 40} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(rising)) == ["not supported"]
    late = [{**row, "row_entropy": 3 - (row["epoch"] > 30)} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(late)) == ["not supported"]
    both = judged("Entropy of the learned", file(cases.entropy_rows()), file(late, "exp-classify/gin-id-ps"))
    assert [judgement.mark.words for judgement in both] == ["mixed"]
    assert both[0].numbers == "1 of 2 hold, not gin-id-ps: 3 < 2.85"
    assert states("Entropy of the learned", file(rising, "exp-classify/mlp-ga")) == [OPEN]


@pytest.mark.parametrize(("early", "wanted"), [(2.86, "not supported"), (2.84, "supported")])
def test_entropy_falls_by_a_twentieth(early: float, wanted: str) -> None:
    rows = [{**row, "row_entropy": 3.0 if not row["epoch"] else early} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(rows)) == [wanted]


def test_the_first_quarter_is_that_of_the_run() -> None:
    """Weights may be kept for a part of it; two epochs of the first quarter have to be known."""
    late = [{**row, "row_entropy": 3 - (row["epoch"] > 20)} for row in cases.entropy_rows()]
    for epochs, wanted in ((40, "not supported"), (120, "supported")):
        assert states("Entropy of the learned", file([{**row, "epochs": epochs} for row in late])) == [wanted]
    few = [row for row in cases.entropy_rows() if row["epoch"] in (0, 20, 40)]
    (judgement,) = judged("Entropy of the learned", file(few))
    assert (judgement.mark.words, judgement.numbers) == (OPEN, "0 of the 1 comparisons that it takes")


def test_training_draws() -> None:
    assert states("Accuracy by", *trained()) == ["supported"]
    assert states("Accuracy by", *trained(accuracy=94.0)) == ["not supported"]
    low = file(cases.sample_size_rows(1, accuracy=60.0), samples=1)
    assert states("Accuracy by", low, *trained()[1:]) == ["mixed"]
    assert states("Entropy by", *trained()) == ["supported"]
    assert states("Entropy by", *trained(row_entropy=2.0)) == ["not supported"]
    assert states("Variance and loss", *trained()) == ["supported"] * 4
    flat = trained(output_variance=1.0, loss_variance=1.0, loss_mean=1.0)
    assert states("Variance and loss", *flat) == ["not supported"] * 4


@pytest.mark.parametrize(("draws", "enough"), [((1, 2, 5, 20), True), ((1, 5, 20), False)])
def test_few_of_the_papers_models_tell_nothing(draws: tuple[int, ...], enough: bool) -> None:
    wanted = {"supported"} if enough else {OPEN}
    assert {state for title in SAMPLE_SIZE[:2] for state in states(title, *trained(*draws))} == wanted
    assert set(states("Variance and loss", *trained(*draws))[:3]) == wanted
    if not enough:
        assert states("Accuracy by", *trained(*draws, accuracy=0.0)) == [OPEN]
    assert states("Variance and loss", *trained(2, 5, 10, 20))[3] == OPEN  # none with a single draw


def rising(*values: float) -> str:
    of = dict(zip(cases.TRAIN_DRAWS, values, strict=True))
    (state,) = states("Entropy by", *trained(row_entropy=of.get))
    return state


def test_what_rises_does_so_at_every_step() -> None:
    assert rising(1, 2, 3, 4, 5, 6) == "supported"
    assert rising(1, 3, 2, 4, 5, 6) == "mixed"
    assert rising(6, 5, 4, 3, 2, 1) == "not supported"


def test_models_are_compared_at_the_most_draws_that_all_have() -> None:
    """One model was asked with more draws, where its variance is small; what counts is what all were asked with."""
    files = trained()
    more = [*cases.sample_size_rows(50), {**cases.sample_size_rows(50)[-1], "draws": 500, "output_variance": 1e-9}]
    files[-1] = file(
        [{**row, "row_entropy": 0.0 if row["draws"] == 500 else row["row_entropy"]} for row in more], samples=50
    )
    assert states("Entropy by", *files) == ["supported"]
    assert states("Variance and loss", *files)[:2] == ["supported"] * 2
    odd = [
        [{**row, "row_entropy": row["row_entropy"] if row["draws"] == 50 else 1 / train} for row in model.rows]
        for train, model in zip(cases.TRAIN_DRAWS, trained(), strict=True)
    ]
    files = [file(rows, samples=train) for train, rows in zip(cases.TRAIN_DRAWS, odd, strict=True)]
    assert states("Entropy by", *files) == ["supported"]  # at the most draws, not at others


def test_group_averaging_says_nothing_of_learned_distributions() -> None:
    good, bad = trained(), trained(row="exp-classify/mlp-ga", accuracy=50.0, row_entropy=3.0, output_variance=1.0)
    assert sample_size_states(*bad) == {OPEN}
    assert sample_size_states(*good, *bad) == {"supported"}


def test_a_short_run_is_not_averaged_with_a_full_one() -> None:
    short = [
        file(model.rows, samples=train, epochs=3)
        for train, model in zip(cases.TRAIN_DRAWS, trained(accuracy=50.0), strict=True)
    ]
    (judgement,) = judged("Accuracy by", *trained(), *short)
    assert judgement.mark.words == "mixed"
    assert judgement.numbers.startswith("6 of 12 hold, not mlp-ps, epochs=3: 95 < 50, mlp-ps, epochs=3: 95 < 50")
    assert judgement.numbers.endswith(", …")
    assert states("Accuracy by", *trained(), short[0]) == ["supported"]


def test_seeds_are_averaged() -> None:
    (judgement,) = judged("Accuracy by", *trained(), *trained(seed=1, accuracy=94.0))
    assert (judgement.mark.words, judgement.numbers[:27]) == ("supported", "6 of 6 hold, 95 < 95.51 to ")


def test_without_accuracy_nothing_is_told_of_it() -> None:
    rows = [{name: value for name, value in row.items() if name != "accuracy"} for row in cases.sample_size_rows(5)]
    assert states("Accuracy by", file(rows)) == [OPEN]


@pytest.mark.parametrize(("last", "wanted"), [(0.1, "supported"), (0.94, "supported"), (0.96, "not supported")])
def test_a_loss_falls_by_a_twentieth_or_more(last: float, wanted: str) -> None:
    rows = [{"draws": draws, "loss": loss, "part": "all"} for draws, loss in ((1, 1.0), (2, 0.5), (5, last))]
    assert states("Test error by number", file(rows)) == [wanted]
    parts = [{**row, "part": "calm", "loss": 9.0} for row in rows]
    assert states("Test error by number", file([*rows, *parts])) == [wanted]
    assert states("Test error by number", file(rows[:1])) == [OPEN]


def test_a_loss_has_to_fall_for_every_model() -> None:
    files = trained(loss_mean=0.5)
    assert states("Variance and loss", *trained()[:5], files[5])[2] == "mixed"


def test_variance() -> None:
    assert states("Variance under", file(cases.variance_rows())) == ["supported"] * 2
    assert states("Variance under", file(cases.variance_rows(2.0))) == ["not supported"] * 2
    rows = [{**row, "loss_variance": 1.0 if row["method"] == "ps" else 0.5} for row in cases.variance_rows()]
    assert states("Variance under", file(rows)) == ["supported", "not supported"]
    assert states("Variance under", file(cases.variance_rows()[:4])) == [OPEN] * 2
    few, _ = judged("Variance under", file([row for row in cases.variance_rows() if row["draws"] > 1]))
    assert (few.mark.words, few.numbers) == (OPEN, "3 of the 4 comparisons that it takes")


def test_variances_of_other_settings_or_draws_are_not_averaged() -> None:
    good, bad = file(cases.variance_rows()), file(cases.variance_rows(1.5), epochs=3)
    judgement, _ = judged("Variance under", good, bad)
    assert judgement.mark.words == "mixed"
    assert "4 of 8 hold, not mlp, epochs=3: 1.5 < 1, " in judgement.numbers
    half = file([row for row in cases.variance_rows() if row["draws"] > 1], seed=1)
    assert states("Variance under", good, half) == [OPEN] * 2


def test_gradients() -> None:
    ps, ga = file(cases.gradient_rows(1.0)), file(cases.gradient_rows(0.01), "exp-classify/mlp-ga")
    (judgement,) = judged("Norm of", ps, ga)
    assert (judgement.mark.words, judgement.numbers) == ("supported", "7 of 7 hold, 0.06 < 6 to 0.36 < 36")
    assert states("Norm of", file(cases.gradient_rows(0.001)), ga) == ["not supported"]
    assert states("Norm of", ps) == [OPEN]
    assert states("Norm of", ps, file(cases.gradient_rows(0.01), "exp-classify/gin-ga")) == [OPEN]
    mixed = [{**row, "norm": 1e-9 if row["epoch"] == 5 else row["norm"]} for row in cases.gradient_rows(1.0)]
    (judgement,) = judged("Norm of", file(mixed), ga)
    assert (judgement.mark.words, judgement.numbers) == ("mixed", "6 of 7 hold, not 0.06 < 1e-09")


@pytest.mark.parametrize(("last", "wanted"), [(80, "supported"), (100, "mixed"), (120, "mixed")])
def test_gradients_count_from_where_the_papers_figure_begins(last: int, wanted: str) -> None:
    """At epoch 100 of 2,000; until `last`, PS has the smaller gradient."""
    ps = [{"epoch": epoch, "norm": float(epoch > last)} for epoch in range(0, 2001, 20)]
    ga = [{**row, "norm": 0.5} for row in ps]
    assert states("Norm of", file(ps), file(ga, "exp-classify/mlp-ga")) == [wanted]


def test_gradients_of_other_seeds_and_settings_are_no_rivals() -> None:
    ps = file(cases.gradient_rows(1.0))
    for ga in (
        file(cases.gradient_rows(0.01), "exp-classify/mlp-ga", 1),
        file(cases.gradient_rows(0.01), "exp-classify/mlp-ga", epochs=3),
    ):
        assert states("Norm of", ps, ga) == [OPEN]


def test_few_epochs_and_gradients_of_zero() -> None:
    ps, ga = (file(cases.gradient_rows(size), f"exp-classify/mlp-{name}") for name, size in (("ps", 1), ("ga", 0.0)))
    assert states("Norm of", ps, ga) == ["supported"]
    few = [replace(method, content={"rows": method.rows[:5]}) for method in (ps, ga)]
    assert states("Norm of", *few) == [OPEN]


def test_inner_symmetry() -> None:
    assert states("Nodes that", file(cases.inner_rows())) == ["supported"]
    assert states("Nodes that", file(cases.inner_rows(0.5, 0.5))) == ["not supported"]
    assert states("Nodes that", file(cases.inner_rows(0.26, 0.5))) == ["not supported"]
    assert states("Nodes that", file(cases.inner_rows(0.24, 0.5))) == ["supported"]
    assert states("Nodes that", file([row for row in cases.inner_rows() if row["graph"] != "D_4"])) == [OPEN]
    assert len(GRAPHS) == 3


def test_inner_symmetry_is_that_of_the_most_draws_that_all_have() -> None:
    few = [{**row, "draws": 5, "spread": 9.0} for row in cases.inner_rows() if row["method"] == "ps"]
    assert states("Nodes that", file([*few, *cases.inner_rows()])) == ["supported"]
    more = [{**row, "draws": 999, "spread": 0.0} for row in cases.inner_rows() if row["method"] == "ps"]
    bad = file([*cases.inner_rows(0.9)], seed=1)
    assert states("Nodes that", file([*more, *cases.inner_rows(0.9)]), bad) == ["not supported"]


def test_equivariance() -> None:
    good = {"move": "all", "largest": 1e-15, "change": 1.0, "scale": 1.0}
    bad = {"move": "n: moved", "largest": 0.3, "change": 1.0, "scale": 1.0}
    assert states("What is left", file([good])) == ["supported"]
    (judgement,) = judged("What is left", file([good, bad]))
    assert (judgement.mark.words, judgement.numbers) == ("mixed", "1 of 2 hold, not 0.3 < 1e-06")
    assert states("What is left", file([good]), file([bad], "exp-classify/gin-id-ps")) == ["mixed"]


def test_a_broken_invariant_model_is_refuted() -> None:
    """The move changes nothing of what it predicts for the input, yet the prediction for the moved one is another."""
    broken = {"move": "all", "largest": 0.3, "change": 0.0, "scale": 1.0}
    assert states("What is left", file([broken])) == ["not supported"]
    assert states("What is left", file([{**broken, "largest": 1e-15}])) == ["supported"]
    assert states("What is left", file([{**broken, "largest": 2e-6}])) == ["not supported"]
    assert states("What is left", file([{**broken, "largest": float("nan")}])) == ["not supported"]
    old = {name: value for name, value in broken.items() if name != "scale"}
    assert states("What is left", file([old])) == [OPEN]
    assert states("What is left", file([{**old, "change": 1.0}])) == ["not supported"]


def test_concentration() -> None:
    rows = [{"group": "n", "measure": "entropy", "model": 1.598, "uniform": 1.599}]
    assert states("How far", file(rows)) == ["not supported"]
    assert states("How far", file([{**rows[0], "model": 1.0}])) == ["supported"]


def test_no_rows_and_odd_rows_are_no_hindrance() -> None:
    odd = [{"draws": "many", "epoch": None, "norm": float("nan"), "method": 3, "spread": True}]
    for spec in FIGURES:
        assert {judge(claim, files).mark.words for claim in spec.claims for files in ([], [file(odd)])} <= {OPEN}
