"""Mean permutation matrices over training, read back from the figure."""

from pathlib import Path

import numpy as np
import pytest
import torch

from probsym import groups
from probsym.errors import RunError
from probsym.lab.analyses.concentration import mean_matrix
from probsym.lab.pictures.permutations import chosen, drawn, permutations
from tests.lab.analyses.test_analyses import averaged, engine_with
from tests.lab.cases import METHODS, engine_of, kept_run


def test_matrices_of_every_shown_epoch(tmp_path: Path) -> None:
    engine = kept_run(tmp_path, learning_rate=0.03)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    figure = permutations({"mine": engine}, count=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in engine.model.state_dict().items())
    assert not engine.model.training
    shown = [
        [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes[3 * i : 3 * i + 3]] for i in range(2)
    ]
    assert [axes.get_title().split(":")[0] for axes in figure.axes[:3]] == ["epoch 0", "epoch 2", "epoch 4"]
    for column, _ in enumerate(engine.kept_weights.revisited(engine.model)):
        for i, (orders, real) in enumerate(drawn(engine, engine.model, 0)[:2]):
            nodes = real.nonzero().flatten().tolist()
            wanted = np.zeros((len(nodes), len(nodes)))
            for order in orders.tolist():
                for row, node in enumerate(nodes):
                    wanted[row, order.index(node)] += 1 / len(orders)
            assert np.allclose(shown[i][column], wanted)
            assert np.allclose(wanted.sum(0), 1)
    assert not np.allclose(shown[0][0], shown[0][2])


def test_group_averaging_is_grey_all_over(tmp_path: Path) -> None:
    figure = permutations({"ga": kept_run(tmp_path, METHODS["ga"])}, count=1)
    assert max(float(np.asarray(axes.get_images()[0].get_array()).max()) for axes in figure.axes) < 0.5


def test_mean_matrices_have_places_before_items() -> None:
    matrix = mean_matrix(torch.tensor([[[2, 0, 1], [2, 1, 0]]]))
    assert matrix.tolist() == [[[0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]


def test_the_first_and_the_last_epoch_are_always_shown() -> None:
    assert chosen([0, 5, 10], 5) == [0, 5, 10]
    for last in (6, 7, 25, 100):
        epochs = chosen(list(range(last)), 5)
        assert (epochs[0], epochs[-1]) == (0, last - 1)
        assert epochs == sorted(set(epochs))


def test_what_has_no_such_matrices_is_refused() -> None:
    with pytest.raises(RunError, match="the model of a run"):
        permutations({"mine": engine_of()})
    engine = engine_with(averaged("d"))
    assert list(engine.model.signature.groups.values()) == [groups.E(3)]
    with pytest.raises(RunError, match="symmetrized under permutations"):
        drawn(engine, engine.model, 0)
