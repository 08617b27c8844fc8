"""Variances and losses by number of draws, where the answer is known."""

import pytest
import torch

from probsym.lab.analyses.analysis import Questions
from probsym.lab.analyses.entropy import permutation_entropies
from probsym.lab.analyses.sample_size import by_sample_size
from tests.lab.analyses.test_analyses import averaged, engine_with, quiet
from tests.lab.cases import engine_of


def test_variances_fall_as_one_over_the_draws() -> None:
    engine = engine_with(averaged())
    rows = by_sample_size(engine, Questions(samples=10, repeats=300), quiet)
    assert [row["draws"] for row in rows] == [1, 2, 5, 10]
    x = engine.data.valid.inputs[0].double()
    variances = x.var(1, unbiased=False)  # of a single point about the centre, which is the target
    test_variances = engine.data.test.inputs[0].double().var(1, unbiased=False)
    assert abs(float(variances.mean() / test_variances.mean()) - 1) > 0.2  # so that the two sets can be told apart
    for row in rows:
        assert (row["train_draws"], row["examples"], row["repeats"], row["accuracy"]) == (2, 10, 300, None)
        assert row["output_variance"] == pytest.approx(float(variances.mean()) / row["draws"], rel=0.1)
        assert row["loss_mean"] == pytest.approx(float(variances.mean()) / row["draws"], rel=0.1)
    # with one draw the loss is the squared distance of a point chosen uniformly
    distances = (x - x.mean(1, keepdim=True)).square().mean(-1)
    assert rows[0]["loss_variance"] == pytest.approx(float(distances.var(1, unbiased=False).mean()), rel=0.1)
    assert rows[0]["row_entropy"] == pytest.approx(rows[0]["uniform_row_entropy"], rel=0.05)
    assert len({row["row_entropy"] for row in rows}) == 1


def test_accuracy_is_that_of_the_test_set() -> None:
    engine = engine_of(samples=4)
    rows = by_sample_size(engine, Questions(samples=5, repeats=60), quiet)
    model, test = engine.model.eval(), engine.data.test
    generator = torch.Generator().manual_seed(5)
    for row in rows:
        right = []
        for _ in range(60):
            with torch.no_grad():
                output = model(*test.inputs, mask=test.mask, samples=row["draws"], generator=generator)
            right.append(((output > 0) == (test.targets > 0.5)).double().mean())
        assert row["accuracy"] == pytest.approx(100 * float(torch.stack(right).mean()), abs=2.5)
        assert row["train_draws"] == 4
    assert rows[0]["examples"] == 20  # of the validation set, as all else
    assert rows == by_sample_size(engine, Questions(samples=5, repeats=60), quiet)


def test_entropies_are_of_fifty_draws_whatever_is_asked() -> None:
    engine = engine_of()
    wanted = permutation_entropies(engine.model.eval(), engine.data.valid, 3, Questions(samples=50))
    for samples in (1, 7, 60):
        for row in by_sample_size(engine, Questions(samples=samples, repeats=1, examples=3), quiet):
            assert {name: row[name] for name in wanted} == wanted


def test_one_repeat_has_no_variance() -> None:
    for row in by_sample_size(engine_of(), Questions(samples=2, repeats=1, examples=3), quiet):
        assert row["loss_variance"] is None
        assert row["output_variance"] is None
        assert row["examples"] == 3
