"""Entropies over training, against matrices averaged one by one."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from probsym.errors import RunError
from probsym.lab.analyses import questions_for
from probsym.lab.analyses.analysis import Questions
from probsym.lab.analyses.concentration import by_group
from probsym.lab.analyses.entropy import by_epoch, permutation_entropies
from tests.lab.analyses.test_analyses import averaged, engine_with, quiet
from tests.lab.cases import METHODS, engine_of, kept_run


def literal(orders: Tensor, nodes: int) -> float:
    """The entropy of the rows of the mean matrix of one graph."""
    total = 0.0
    for node in range(nodes):
        places = [order.index(node) for order in orders.tolist()]
        shares = [places.count(place) / len(places) for place in set(places)]
        total -= sum(share * math.log(share) for share in shares)
    return total / nodes


def test_entropies_of_every_kept_epoch(tmp_path: Path) -> None:
    engine = kept_run(tmp_path, learning_rate=0.05)
    questions = Questions(samples=9, examples=7, seed=3)
    rows = by_epoch(engine, questions, quiet)
    assert [(row["epoch"], row["examples"], row["draws"]) for row in rows] == [(0, 7, 9), (2, 7, 9), (4, 7, 9)]
    assert {row["epochs"] for row in rows} == {4}
    assert len({row["row_entropy"] for row in rows}) == 3
    assert len({row["uniform_row_entropy"] for row in rows}) == 1
    uniform = by_group(engine, questions, quiet)
    assert [row["uniform"] for row in uniform] == [rows[0][f"uniform_{name}_entropy"] for name in ("row", "column")]
    assert rows == by_epoch(engine, questions, quiet)
    assert not engine.model.training


def test_entropies_are_those_of_matrices_averaged_one_by_one(tmp_path: Path) -> None:
    engine = kept_run(tmp_path)
    rows = by_epoch(engine, Questions(samples=400, examples=3), quiet)
    few = engine.data.test.take(slice(0, 3))
    for row, _ in zip(rows, engine.kept_weights.revisited(engine.model), strict=True):
        with torch.no_grad():
            drawn = engine.model.train().estimate(*few.inputs, mask=few.mask, samples=400).elements["n"]
        wanted = sum(literal(orders, int(mask.sum())) for orders, mask in zip(drawn, few.mask, strict=True)) / 3
        assert row["row_entropy"] == pytest.approx(wanted, rel=0.03)


def test_statistics_of_norms_before_training_do_not_matter(tmp_path: Path) -> None:
    engine, questions = kept_run(tmp_path), Questions(samples=20)
    rows = by_epoch(engine, questions, quiet)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    for path in engine.kept_weights.folder.glob("weights/*"):
        weights = torch.load(path, weights_only=True)
        torch.save({name: 3 * tensor if "running" in name else tensor for name, tensor in weights.items()}, path)
    assert rows == by_epoch(engine, questions, quiet)
    assert all(torch.equal(tensor, before[name]) for name, tensor in engine.model.state_dict().items())


def test_group_averaging_stays_uniform(tmp_path: Path) -> None:
    for row in by_epoch(kept_run(tmp_path, METHODS["ga"]), Questions(samples=500, examples=10), quiet):
        assert row["row_entropy"] == pytest.approx(row["uniform_row_entropy"], rel=0.01)


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the model of a run"):
        by_epoch(engine_of(), Questions(), quiet)
    engine = kept_run(tmp_path)
    for file in (tmp_path / "tiny" / "mlp-ps" / "seed-0" / "weights").iterdir():
        file.unlink()
    with pytest.raises(RunError, match=r"kept its weights, by `train --keep-every` \(got none in"):
        by_epoch(engine, Questions(), quiet)
    with pytest.raises(RunError, match="averages over draws"):
        by_epoch(engine_of(METHODS["canonical"]), Questions(), quiet)


def test_rotations_have_no_matrix_of_permutations() -> None:
    engine = engine_with(averaged("d"))
    with pytest.raises(RunError, match="symmetrized under permutations"):
        permutation_entropies(engine.model, engine.data.test, 3, Questions())


def test_the_paper_says_how_much_is_asked() -> None:
    assert questions_for("entropy").samples == 50
    assert questions_for("sample_size", samples=None, repeats=7) == Questions(samples=50, repeats=7)
    assert questions_for("draws", seed=2) == Questions(seed=2)
