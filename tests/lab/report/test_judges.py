"""Claims are judged from rows: supported, not supported, mixed, or not to be told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from probsym.lab.analyses.inner_symmetry import GRAPHS
from probsym.lab.report.document import Verdict
from probsym.lab.report.figures import FIGURES
from probsym.lab.report.gathered import Analysed
from probsym.lab.report.judges import PAPER_GRAPHS
from probsym.lab.report.other_figures import EQUIVARIANCE
from tests.lab.report import cases


def file(rows: list[dict[str, Any]], row: str = "exp-classify/mlp-ps", seed: int = 0, **changed: Any) -> Analysed:
    content: Mapping[str, Any] = {"analysis": "", "run": {"row": row, "seed": seed, "changed": changed}, "rows": rows}
    return Analysed(f"{row}{seed}{changed}", f"{row}{seed}{changed}", content)


def verdicts(title: str, *files: Analysed) -> list[Verdict]:
    drawing = next(one for one in (*FIGURES, EQUIVARIANCE) if one.title.startswith(title))
    return [claim.on(files).verdict for claim in drawing.claims]


def states(title: str, *files: Analysed) -> list[str]:
    return [one.state for one in verdicts(title, *files)]


def trained(*draws: int, row: str = "exp-classify/mlp-ps", seed: int = 0, **columns: Any) -> list[Analysed]:
    """Models trained with these numbers of draws, with some columns changed: to a value, or by a function of them."""
    found = []
    for train in draws or cases.TRAIN_DRAWS:
        values = {name: value(train) if callable(value) else value for name, value in columns.items()}
        rows = [{**one, **values} for one in cases.sample_size_rows(train)]
        found.append(file(rows, row, seed, samples=train))
    return found


SAMPLE_SIZE = ("Accuracy by", "Entropy by", "Variance and loss")
"""The figures of models trained with different numbers of draws."""


def sample_size_states(*files: Analysed) -> set[str]:
    return {state for title in SAMPLE_SIZE for state in states(title, *files)}


def test_entropy() -> None:
    (found,) = verdicts("Entropy of the learned", file(cases.entropy_rows()))
    assert found.state == "supported"
    assert "3 at first" in found.numbers
    rising = [{**row, "row_entropy": 2 + row["epoch"] / 40} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(rising)) == ["not supported"]
    late = [{**row, "row_entropy": 3 - (row["epoch"] > 30)} for row in cases.entropy_rows()]
    assert states("Entropy of the learned", file(late)) == ["not supported"]
    both = verdicts("Entropy of the learned", file(cases.entropy_rows()), file(late, "exp-classify/gin-id-ps"))
    assert [one.state for one in both] == ["mixed"]
    assert "gin-id-ps: not supported, 3 at first" in both[0].numbers
    assert states("Entropy of the learned", file(rising, "exp-classify/mlp-ga")) == ["cannot be told"]


@pytest.mark.parametrize(("early", "wanted"), [(2.81, "not supported"), (2.49, "supported"), (2.51, "not supported")])
def test_entropy_falls_by_half_of_all_in_the_first_quarter(early: float, wanted: str) -> None:
    """From 3 to 2 in all: a twentieth of 3 is 0.15, which is not the half that it takes."""
    rows = [{**row, "row_entropy": 3.0 if not row["epoch"] else early} for row in cases.entropy_rows()]
    rows[-1]["row_entropy"] = 2.0
    assert states("Entropy of the learned", file(rows)) == [wanted]


def test_entropy_falls_by_a_twentieth() -> None:
    for early, wanted in ((2.86, "not supported"), (2.84, "supported")):
        rows = [{**row, "row_entropy": 3.0 if not row["epoch"] else early} for row in cases.entropy_rows()]
        assert states("Entropy of the learned", file(rows)) == [wanted]


def test_the_first_quarter_is_that_of_the_run() -> None:
    """Weights may be kept for a part of it: of the first quarter two epochs have to be known, and one later."""
    late = [{**row, "row_entropy": 3 - (row["epoch"] > 20)} for row in cases.entropy_rows()]
    for epochs, wanted in ((40, "not supported"), (120, "supported"), (160, "cannot be told")):
        assert states("Entropy of the learned", file([{**row, "epochs": epochs} for row in late])) == [wanted]
    assert states("Entropy of the learned", file(late)) == ["not supported"]
    few = [row for row in cases.entropy_rows() if row["epoch"] in (0, 20, 40)]
    (found,) = verdicts("Entropy of the learned", file(few))
    assert found.state == "cannot be told"
    assert "1 of 3 kept epochs" in found.numbers


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


@pytest.mark.parametrize(
    ("draws", "enough"),
    [
        ((1, 2, 5, 20), True),
        ((1, 2, 5, 50), True),
        ((1, 2, 5, 10), False),
        ((2, 5, 10, 20), False),
        ((1, 5, 20), False),
    ],
)
def test_few_of_the_papers_models_tell_nothing(draws: tuple[int, ...], enough: bool) -> None:
    assert sample_size_states(*trained(*draws)) == {"supported" if enough else "cannot be told"}
    (found,) = verdicts("Accuracy by", *trained(*draws))
    assert f"from {len(draws)} of 6" in found.numbers
    if not enough:
        (refuted,) = verdicts("Accuracy by", *trained(*draws, accuracy=0.0))
        assert refuted.state == "cannot be told"


def rising(*values: float) -> str:
    of = dict(zip(cases.TRAIN_DRAWS, values, strict=True))
    (found,) = states("Entropy by", *trained(row_entropy=of.get))
    return found


def test_one_step_back_is_still_rising_but_not_below_the_first() -> None:
    assert rising(1, 2, 3, 4, 5, 6) == "supported"
    assert rising(1, 3, 2, 4, 5, 6) == "supported"
    assert rising(1, 3, 2, 4, 3.5, 6) == "mixed"
    assert rising(5, 1, 2, 3, 4, 4.5) == "mixed"
    assert rising(6, 5, 4, 3, 2, 1) == "not supported"


def test_models_are_compared_at_the_most_draws_that_all_have() -> None:
    """One model was asked with more draws, where its variance is small; what counts is what all were asked with."""
    files = trained()
    more = [*cases.sample_size_rows(50), {**cases.sample_size_rows(50)[-1], "draws": 500, "output_variance": 1e-9}]
    files[-1] = file(
        [{**row, "row_entropy": 0.0 if row["draws"] == 500 else row["row_entropy"]} for row in more], samples=50
    )
    assert states("Entropy by", *files) == ["supported"]
    assert states("Variance and loss", *files) == ["supported"] * 4
    # at the most draws, not at others
    odd = [
        file(
            [{**row, "row_entropy": row["row_entropy"] if row["draws"] == 50 else 1.0 / train} for row in one.rows],
            samples=train,
        )
        for train, one in zip(cases.TRAIN_DRAWS, trained(), strict=True)
    ]
    assert states("Entropy by", *odd) == ["supported"]


def test_group_averaging_says_nothing_of_learned_distributions() -> None:
    good, bad = trained(), trained(row="exp-classify/mlp-ga", accuracy=50.0, row_entropy=3.0, output_variance=1.0)
    assert sample_size_states(*bad) == {"cannot be told"}
    assert sample_size_states(*good, *bad) == {"supported"}


def test_a_short_run_is_not_averaged_with_a_full_one() -> None:
    short = [
        file(one.rows, samples=train, epochs=3)
        for train, one in zip(cases.TRAIN_DRAWS, trained(accuracy=50.0), strict=True)
    ]
    (found,) = verdicts("Accuracy by", *trained(), *short)
    assert found.state == "mixed"
    assert "exp-classify/mlp-ps: supported, 97.02 % with 1" in found.numbers
    assert "exp-classify/mlp-ps, epochs=3: not supported, 50 % with 1" in found.numbers
    (alone,) = verdicts("Accuracy by", *trained(), short[0])
    assert alone.state == "supported"


def test_seeds_are_averaged() -> None:
    low = trained(seed=1, accuracy=94.0)
    (found,) = verdicts("Accuracy by", *trained(), *low)
    assert "95.51 % with 1" in found.numbers
    assert found.state == "supported"


def test_flat_losses_are_noise() -> None:
    """Flat curves with as much noise as they say: hardly any is called falling, and as few the opposite."""
    dice = random.Random(0)
    counts = Counter[str]()
    for _ in range(300):
        rows = [
            {"draws": draws, "loss": dice.gauss(1, 0.1), "spread": 0.1, "part": "all"}
            for draws in (1, 2, 5, 10, 20, 50)
        ]
        counts.update(states("Test error by number", file(rows)))
    assert counts["cannot be told"] > 280
    flat = trained(loss_variance=1.0, loss_mean=lambda train: 1 + 0.001 * train)
    assert states("Variance and loss", *flat)[2] == "cannot be told"


def test_models_within_their_noise_do_not_help_to_cover() -> None:
    """Three of six fall for certain, the others may or may not: too few to tell."""
    files = trained(loss_variance=lambda train: 1e-9 if train < 10 else 1e6)
    found = verdicts("Variance and loss", *files)[2]
    assert found.state == "cannot be told"
    assert "trained with 1: supported, 0.5 to 0.229" in found.numbers
    assert "trained with 50: cannot be told, 0.2 to 0.0915, which may be noise" in found.numbers


def test_seeds_together_have_less_noise() -> None:
    """A fall of 0.35 beyond errors of 0.1: not for one seed, whose margin is 0.4, but for four, with half of it."""
    rows = [{"draws": draws, "loss": 1 / draws**0.625, "spread": 0.1, "part": "all"} for draws in (1, 2)]
    assert states("Test error by number", file(rows)) == ["cannot be told"]
    assert states("Test error by number", *(file(rows, seed=seed) for seed in range(4))) == ["supported"]


def test_the_error_of_a_mean_loss_is_that_over_repeats_and_examples() -> None:
    """0.01 of a fall: with variance 0.06 over 3 repeats of 2000 examples, an error is sqrt(1e-5) = 0.003 each."""
    for fall, wanted in ((0.0120, "cannot be told"), (0.0130, "supported")):
        files = [
            file(
                [{**row, "loss_variance": 0.06, "loss_mean": 1 - fall * (row["draws"] > 1)} for row in one.rows],
                samples=train,
            )
            for train, one in zip(cases.TRAIN_DRAWS, trained(), strict=True)
        ]
        assert states("Variance and loss", *files)[2] == wanted


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
    assert states("Variance under", file(cases.variance_rows()[:4])) == ["cannot be told"]
    (few,) = verdicts("Variance under", file([row for row in cases.variance_rows() if row["draws"] > 1]))
    assert few == ("cannot be told", "3 numbers of draws in common, where it takes 4")


def test_variances_of_other_settings_or_draws_are_not_averaged() -> None:
    good, bad = file(cases.variance_rows()), file(cases.variance_rows(1.5), epochs=3)
    (found,) = verdicts("Variance under", good, bad)
    assert found.state == "mixed"
    assert "mlp-ps, epochs=3: not supported, " in found.numbers
    half = file([row for row in cases.variance_rows() if row["draws"] > 1], seed=1)
    assert states("Variance under", good, half) == ["cannot be told"]


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


def test_gradients_of_other_seeds_and_settings_are_no_rivals() -> None:
    ps = file(cases.gradient_rows(1.0))
    for ga in (
        file(cases.gradient_rows(0.01), "exp-classify/mlp-ga", 1),
        file(cases.gradient_rows(0.01), "exp-classify/mlp-ga", epochs=3),
        file(cases.gradient_rows(0.01), "other/mlp-ga"),
    ):
        assert states("Norm of", ps, ga) == ["cannot be told"]


def test_few_epochs_and_gradients_of_zero() -> None:
    ps, ga = (
        file(cases.gradient_rows(size)[:5], f"exp-classify/mlp-{name}") for name, size in (("ps", 1), ("ga", 0.1))
    )
    (found,) = verdicts("Norm of", ps, ga)
    assert found == ("cannot be told", "mlp-ps: 4 epochs in common beyond the first, where it takes 5")
    (nothing,) = verdicts(
        "Norm of", file(cases.gradient_rows(1.0)), file(cases.gradient_rows(0.0), "exp-classify/mlp-ga")
    )
    assert nothing.state == "supported"
    assert "those of GA are all 0" in nothing.numbers


def test_inner_symmetry() -> None:
    assert states("Nodes that", file(cases.inner_rows())) == ["supported"]
    assert states("Nodes that", file(cases.inner_rows(0.5, 0.5))) == ["not supported"]
    assert states("Nodes that", file(cases.inner_rows(0.26, 0.5))) == ["not supported"]
    assert states("Nodes that", file(cases.inner_rows(0.24, 0.5))) == ["supported"]
    (found,) = verdicts("Nodes that", file([row for row in cases.inner_rows() if row["graph"] != "D_4"]))
    assert found == ("cannot be told", "nothing to compare for D_4")
    assert set(PAPER_GRAPHS) == set(GRAPHS)


def test_inner_symmetry_is_that_of_the_most_draws_that_all_have() -> None:
    few = [{**row, "draws": 5, "spread": 9.0} for row in cases.inner_rows() if row["method"] == "ps"]
    assert states("Nodes that", file([*few, *cases.inner_rows()])) == ["supported"]
    more = [{**row, "draws": 999, "spread": 0.0} for row in cases.inner_rows() if row["method"] == "ps"]
    bad = file([*cases.inner_rows(0.9)], seed=1)
    assert states("Nodes that", file([*more, *cases.inner_rows(0.9)]), bad) == ["not supported"]


@pytest.mark.parametrize(("loss", "wanted"), [(0.1, "supported"), (1.05, "supported"), (1.4, "not supported")])
def test_draws_may_rise_within_their_noise(loss: float, wanted: str) -> None:
    values = {1: 2.0, 2: 1.0, 5: loss}
    rows = [{"draws": draws, "loss": value, "spread": 0.05, "part": "all"} for draws, value in values.items()]
    assert states("Test error by number", file(rows)) == [wanted]


def test_a_fall_without_known_noise_tells_nothing() -> None:
    rows = [{"draws": draws, "loss": 1 / draws, "spread": None, "part": "all"} for draws in (1, 2, 5)]
    assert states("Test error by number", file(rows)) == ["cannot be told"]


def test_equivariance() -> None:
    good = {"move": "all", "largest": 1e-15, "change": 1.0, "scale": 1.0}
    bad = {"move": "n: moved", "largest": 0.3, "change": 1.0, "scale": 1.0}
    assert states("What is left", file([good])) == ["supported"]
    (found,) = verdicts("What is left", file([good, bad]))
    assert found == (
        "not supported",
        "mlp-ps: 1 of 2 moves, at most 0.3 of the predictions for n: moved, broken by n: moved",
    )
    assert states("What is left", file([good]), file([bad], "exp-classify/gin-id-ps")) == ["mixed"]


def test_a_broken_invariant_model_is_refuted() -> None:
    """The move changes nothing of what it predicts for the input, yet the prediction for the moved one is another."""
    broken = {"move": "all", "largest": 0.3, "change": 0.0, "scale": 1.0}
    assert states("What is left", file([broken])) == ["not supported"]
    assert states("What is left", file([{**broken, "largest": 1e-15}])) == ["supported"]
    assert states("What is left", file([{**broken, "largest": 2e-6}])) == ["not supported"]
    old = {name: value for name, value in broken.items() if name != "scale"}
    assert states("What is left", file([old])) == ["cannot be told"]
    assert states("What is left", file([old, {**old, "change": 1.0, "largest": 1e-15}])) == ["cannot be told"]
    assert states("What is left", file([{**broken, "largest": float("nan")}])) == ["not supported"]


def test_concentration() -> None:
    rows = [{"group": "n", "measure": "entropy", "model": 1.598, "uniform": 1.599}]
    assert states("How far", file(rows)) == ["not supported"]
    assert states("How far", file([{**rows[0], "model": 1.0}])) == ["supported"]


def test_no_rows_and_odd_rows_are_no_hindrance() -> None:
    odd = [{"draws": "many", "epoch": None, "norm": float("nan"), "method": 3, "spread": True}]
    for drawing in (*FIGURES, EQUIVARIANCE):
        for claim in drawing.claims:
            assert claim.on([]).verdict.state == "cannot be told"
            assert claim.on([file(odd)]).verdict.state == "cannot be told"
