"""The variance of an untrained base under three distributions, against a loop over draws."""

from pathlib import Path

import pytest
import torch

from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions
from probsym.lab.analyses.draws import deviation
from probsym.lab.analyses.variance import by_method
from probsym.lab.training import initial_weights
from probsym.nets import MaskedBatchNorm
from probsym.samplers import Haar
from probsym.symmetrized import Symmetrized
from tests.lab.analyses.test_analyses import quiet
from tests.lab.cases import METHODS, PS, build, engine_of, kept_run


def test_the_base_is_as_it_was_initialised_under_all_three(tmp_path: Path) -> None:
    torch.manual_seed(0)
    engine = kept_run(tmp_path, learning_rate=0.05, dropout=0.0)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    rows = by_method(engine, Questions(samples=2, repeats=150), quiet)
    assert [(row["method"], row["draws"]) for row in rows] == [
        (name, draws) for name in ("ps", "ps-initial", "ga") for draws in (1, 2)
    ]
    assert all(torch.equal(tensor, before[name]) for name, tensor in engine.model.state_dict().items())
    by_key = {(row["method"], row["draws"]): row for row in rows}
    initial = build(engine.settings).eval()
    initial.load_state_dict(initial_weights(PS, engine.settings, 0))
    for norm in initial.modules():
        if isinstance(norm, MaskedBatchNorm):
            norm.momentum = 1.0  # so that one pass over all that is there gives the statistics
    train, valid = engine.data.train, engine.data.valid
    with torch.no_grad():
        initial.train()(*train.inputs, mask=train.mask, samples=50)
    initial.eval()
    for name, sampler in {"ps": engine.model.sampler, "ps-initial": initial.sampler, "ga": Haar()}.items():
        model = Symmetrized(initial.base, str(initial.signature), initial.signature.groups, sampler).eval()
        with torch.no_grad():
            values = model.estimate(*valid.inputs, mask=valid.mask, samples=2000, keep_values=True).values.double()
        losses = torch.stack([engine.task.losses(output, valid.targets.double()) for output in values.unbind(1)])
        for draws in (1, 2):
            row = by_key[name, draws]
            assert (row["examples"], row["repeats"]) == (20, 150)
            assert row["output_variance"] == pytest.approx(float(values.var(1).mean()) / draws, rel=0.1)
            assert row["output_deviation"] == pytest.approx(float(values.std(1).mean()) / draws**0.5, rel=0.05)
        assert by_key[name, 1]["loss_variance"] == pytest.approx(float(losses.var(0).mean()), rel=0.1)
        assert by_key[name, 1]["loss_deviation"] == pytest.approx(float(losses.std(0).mean()), rel=0.05)


def test_a_deviation_is_the_root_before_the_mean() -> None:
    repeats = torch.tensor([[1.0, 10.0], [3.0, 30.0]])  # variances 2 and 200
    assert deviation(repeats) == pytest.approx((2**0.5 + 200**0.5) / 2)
    assert deviation(repeats[:1]) is None


def test_a_run_of_no_epochs_has_norms_that_have_seen_no_data(tmp_path: Path) -> None:
    """As in the paper; its distribution differs from the one whose norms have."""
    torch.manual_seed(0)
    engine = kept_run(tmp_path, epochs=0)
    rows = by_method(engine, Questions(samples=1, repeats=300), quiet)
    variances = {row["method"]: row["output_variance"] for row in rows}
    model = build(engine.settings).eval()
    model.load_state_dict(initial_weights(PS, engine.settings, 0))
    norms = [norm for norm in engine.model.modules() if isinstance(norm, MaskedBatchNorm)]
    assert all(bool((norm.running_mean == 0).all() and (norm.running_var == 1).all()) for norm in norms)
    valid = engine.data.valid
    with torch.no_grad():
        values = model.estimate(*valid.inputs, mask=valid.mask, samples=2000, keep_values=True).values.double()
    assert variances["ps"] == pytest.approx(float(values.var(1).mean()), rel=0.1)
    assert variances["ps-initial"] != pytest.approx(variances["ps"], rel=0.1)


def test_runs_that_learn_no_distribution_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"learned a distribution \(got one with Haar"):
        by_method(kept_run(tmp_path, METHODS["ga"]), Questions(), quiet)
    with pytest.raises(RunError, match="the model of a run"):
        by_method(engine_of(), Questions(), quiet)
