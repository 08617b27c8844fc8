"""The full gradient, against differences and against one large batch."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions
from probsym.lab.analyses.gradient import by_epoch, full_gradient
from probsym.lab.seeds import derived
from tests.lab.analyses.test_analyses import quiet
from tests.lab.cases import DROPOUT, METHODS, PLAIN, engine_of, kept_run


def test_norms_of_every_kept_epoch(tmp_path: Path) -> None:
    engine = kept_run(tmp_path, samples=3)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    rows = by_epoch(engine, Questions(), quiet)
    assert [(row["epoch"], row["examples"], row["draws"]) for row in rows] == [(0, 40, 3), (2, 40, 3), (4, 40, 3)]
    assert len({row["norm"] for row in rows}) == 3
    assert all(torch.equal(tensor, before[name]) for name, tensor in engine.model.state_dict().items())
    assert all(parameter.grad is None for parameter in engine.model.parameters())
    assert not engine.model.training
    assert rows == by_epoch(engine, Questions(), quiet)
    for row, _ in zip(
        rows, engine.kept_weights.revisited(engine.model), strict=True
    ):  # of the base, not of the sampler
        base, whole = (
            torch.cat(
                [gradient.flatten() for gradient in full_gradient(engine, engine.model, list(part.parameters()), 40, 0)]
            )
            for part in (engine.model.base, engine.model)
        )
        assert row["norm"] == pytest.approx(float(base.norm()), rel=1e-5)
        assert row["norm"] < 0.99 * float(whole.norm())


def test_it_is_as_in_training(tmp_path: Path) -> None:
    engine = kept_run(tmp_path, DROPOUT)
    rows = by_epoch(engine, Questions(), quiet)
    for path in engine.kept_weights.folder.glob("weights/*"):
        weights = torch.load(path, weights_only=True)
        torch.save({name: 3 * tensor if "running" in name else tensor for name, tensor in weights.items()}, path)
    assert rows == by_epoch(engine, Questions(), quiet)  # norms use the statistics of their batch
    for module in engine.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for before, after in zip(rows, by_epoch(engine, Questions(), quiet), strict=True):
        assert before["norm"] != pytest.approx(after["norm"], rel=1e-3)


def test_where_draws_do_not_matter_it_is_the_gradient_of_one_large_batch(tmp_path: Path) -> None:
    engine = kept_run(tmp_path, METHODS["ga"])
    engine.model.base.layers[0].weight.data[:] = 1.0  # all orders are the same to it
    for file in engine.kept_weights.folder.glob("weights/*"):
        torch.save(engine.model.state_dict(), file)
    train = engine.data.train
    output = engine.model(*train.inputs, mask=train.mask)
    engine.task.loss(output, train.targets).backward()
    wanted = torch.stack([parameter.grad.norm() for parameter in engine.model.base.parameters()]).norm()
    engine.model.zero_grad()
    for size in (10, 16, 100):  # also with a last batch that is smaller
        engine.settings = replace(engine.settings, batch_size=size)
        for row in by_epoch(engine, Questions(), quiet):
            assert row["norm"] == pytest.approx(float(wanted), rel=1e-4)


def test_it_is_the_change_of_the_loss() -> None:
    engine = engine_of(METHODS["ga"], samples=2)
    model = engine.model.double()
    engine.data = type(engine.data)(*(part.double()._replace(targets=part.targets.double()) for part in engine.data))
    parameters = list(model.base.parameters())
    gradient = full_gradient(engine, model, parameters, 25, seed=1)

    def loss() -> float:
        total = 0.0
        for start in range(0, 25, 10):
            batch = engine.data.train.take(slice(start, min(start + 10, 25)))
            generator = torch.Generator().manual_seed(derived(1, "gradient", start))
            with torch.no_grad():
                output = model(*batch.inputs, mask=batch.mask, generator=generator)
                total += float(engine.task.losses(output, batch.targets).sum()) / 25
        return total

    for place, entry in ((0, (3, 5)), (1, (2,)), (2, (0, 4)), (3, (0,))):
        parameter, step = parameters[place].data, 1e-6
        parameter[entry] += step
        above = loss()
        parameter[entry] -= 2 * step
        below = loss()
        parameter[entry] += step
        assert float(gradient[place][entry]) == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-9)


def test_models_without_a_base_or_a_past_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the model of a run"):
        by_epoch(engine_of(), Questions(), quiet)
    with pytest.raises(RunError, match=r"a symmetrized module \(got Plain"):
        by_epoch(kept_run(tmp_path, PLAIN), Questions(), quiet)
