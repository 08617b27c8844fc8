"""Selection, learning rates, clipping, the entropy in the loss, and losses that are not finite."""

from __future__ import annotations

import copy
import math
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from probsym.errors import NonFiniteError, RunError, Stopped
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint
from probsym.lab.examples import Splits
from probsym.lab.final_test import metric_names
from probsym.lab.interrupts import graceful
from probsym.lab.json_with_table import write_table
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.results import curve_text, read_curve
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine
from tests.lab.cases import (
    DROPOUT,
    FAILING,
    METHODS,
    PLAIN,
    PRECISE,
    PS,
    SETTINGS,
    Tiny,
    assert_same,
    build,
    build_plain,
    engine_of,
    metrics_of,
    run_quietly,
    training_of,
    without_time,
)


class Odd(Tiny):
    """Of 10 graphs, fewer than a batch."""

    sizes = (10, 20, 30)


class SometimesBlind(Tiny):
    """A validation loss that is NaN after the first epoch only."""

    def __init__(self) -> None:
        self.calls = 0

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        self.calls += 1
        metrics = super().metrics(output, targets)
        return {name: value * math.nan for name, value in metrics.items()} if self.calls == 1 else metrics


class LossBlind(SometimesBlind):
    """The same, with an accuracy that is a number."""

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        metrics = Tiny.metrics(self, output, targets)
        self.calls += 1
        return {**metrics, "loss": metrics["loss"] * math.nan} if self.calls == 1 else metrics


class Unstable(Tiny):
    """A loss that is NaN in the third epoch while its gradients stay finite."""

    def __init__(self) -> None:
        self.calls = 0

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        self.calls += output.requires_grad
        loss = super().loss(output, targets)
        return loss + math.nan if output.requires_grad and self.calls == 9 else loss


# selection


@pytest.mark.parametrize("recipe", [PS, PLAIN, METHODS["canonical"]], ids=lambda recipe: recipe.name)
def test_the_test_is_under_the_weights_that_validation_chose(tmp_path: Path, recipe: Recipe) -> None:
    training = training_of(tmp_path, recipe, epochs=6, learning_rate=0.03)
    engine, snapshots = training.engine, []
    metrics = training.run(
        lambda epoch, total, row: snapshots.append({k: v.clone() for k, v in engine.model.state_dict().items()})
    )
    curve = training.progress.curve
    assert len(curve) == len(snapshots) == 6
    losses, accuracies = ([row[f"valid_{name}"] for row in curve] for name in ("loss", "accuracy"))
    chosen = {"": losses.index(min(losses)), "_at_best_accuracy": accuracies.index(max(accuracies)), "_at_end": 5}
    for suffix, epoch in chosen.items():
        engine.model.load_state_dict(snapshots[epoch])
        tested = engine.evaluate(engine.data.test, 0, "test", 0)
        assert metrics[f"test_loss{suffix}"] == pytest.approx(tested["loss"], abs=1e-6)
        assert metrics[f"test_accuracy{suffix}"] == pytest.approx(tested["accuracy"], abs=1e-5)
    assert metrics["best_epoch_loss"] == chosen[""] + 1
    assert metrics["best_epoch_accuracy"] == chosen["_at_best_accuracy"] + 1
    assert metrics["valid_loss"] == min(losses)
    assert len(set(losses)) > 1


def test_the_weights_at_the_end_are_those_of_the_last_epoch(tmp_path: Path) -> None:
    training = training_of(tmp_path, epochs=4)
    seen = []
    training.run(lambda *_: seen.append(training.engine.model.state_dict()["base.layers.0.weight"].clone()))
    assert torch.equal(training.engine.model.state_dict()["base.layers.0.weight"], seen[-1])
    assert torch.equal(load_checkpoint(tmp_path / "checkpoint.pt")["model"]["base.layers.0.weight"], seen[-1])


def test_repeated_tests_give_mean_and_deviation(tmp_path: Path) -> None:
    training = training_of(tmp_path, test_repeats=3)
    metrics = training.run()
    engine = training.engine
    losses = [engine.evaluate(engine.data.test, 0, "test", repeat)["loss"] for repeat in range(3)]
    assert len(set(losses)) == 3
    values = torch.tensor(losses, dtype=torch.float64)
    assert metrics["test_loss_at_end"] == pytest.approx(float(values.mean()), abs=1e-6)
    assert metrics["test_loss_at_end_std"] == pytest.approx(float(values.std()), abs=1e-6)


def test_settings_can_be_chosen_without_a_look_at_the_test_set(tmp_path: Path) -> None:
    training = training_of(tmp_path, test_repeats=0, also_test_samples=(1, 7), averaging=0.9)
    engine = training.engine
    engine.data = engine.data._replace(test=engine.data.test.take(slice(0, 0)))  # an evaluation of which would fail
    names = metric_names(engine)
    metrics = training.run()
    assert set(metrics) == set(names)
    assert not any(name.startswith("test_") for name in metrics)
    assert {"valid_loss", "valid_loss_averaged", "best_epoch_loss"} <= set(metrics)


def test_other_numbers_of_draws_are_tested_too(tmp_path: Path) -> None:
    training = training_of(tmp_path, test_repeats=2, also_test_samples=(1, 7))
    metrics, engine = training.run(), training.engine
    for draws in (1, 7):
        losses = [engine.evaluate(engine.data.test, 0, "test", repeat, samples=draws)["loss"] for repeat in range(2)]
        assert metrics[f"test_loss_at_end@{draws}"] == pytest.approx(sum(losses) / 2, abs=1e-6)
    assert len({metrics[f"test_loss{mark}"] for mark in ("", "@1", "@7")}) == 3
    plain = training_of(tmp_path / "plain", PLAIN, also_test_samples=(7,)).run()
    assert not any("@" in name for name in plain)


@pytest.mark.parametrize("recipe", [PS, PLAIN], ids=lambda recipe: recipe.name)
def test_what_will_be_reported_is_known_before(tmp_path: Path, recipe: Recipe) -> None:
    training = training_of(tmp_path, recipe, test_repeats=3, also_test_samples=(1, 7))
    engine = training.engine
    data, settings = engine.data, engine.settings
    names = metric_names(engine)
    assert (engine.data, engine.settings) == (data, settings)
    assert len(set(names)) == len(names)
    assert set(names) == set(training.run())


def test_averaged_weights_are_those_of_the_recurrence(tmp_path: Path) -> None:
    training = training_of(tmp_path, averaging=0.7, epochs=2)
    engine, wanted = training.engine, [parameter.detach().clone() for parameter in training.engine.model.parameters()]
    step = engine._step

    def noted(index: Tensor) -> Tensor:
        losses = step(index)
        for average, now in zip(wanted, engine.model.parameters(), strict=True):
            average.mul_(0.7).add_(now.detach(), alpha=0.3)
        return losses

    engine._step = noted
    training.run()
    assert engine.average is not None
    for average, expected in zip(engine.average, wanted, strict=True):
        torch.testing.assert_close(average, expected, rtol=1e-5, atol=1e-6)
    assert any(not torch.allclose(average, now) for average, now in zip(wanted, engine.model.parameters(), strict=True))


def test_averaged_weights_are_selected_and_tested_like_the_others(tmp_path: Path) -> None:
    training = training_of(tmp_path, epochs=6, learning_rate=0.03, averaging=0.9)
    engine, snapshots = training.engine, []
    plain = training_of(tmp_path / "plain", epochs=6, learning_rate=0.03).run()
    metrics = training.run(lambda *_: snapshots.append([tensor.clone() for tensor in engine.average or ()]))
    assert {name: value for name, value in metrics.items() if name in plain and name != "train_seconds"} == {
        name: value for name, value in plain.items() if name != "train_seconds"
    }
    assert set(metrics) == set(metric_names(engine))
    losses = [row["valid_loss_averaged"] for row in training.progress.curve]
    assert losses != [row["valid_loss"] for row in training.progress.curve]
    best = losses.index(min(losses))
    assert (metrics["valid_loss_averaged"], metrics["best_epoch_loss_averaged"]) == (min(losses), best + 1)
    for mark, epoch in (("_averaged", best), ("_averaged_at_end", 5)):
        torch._foreach_copy_(engine.average, snapshots[epoch])
        with engine.averaged():
            tested = engine.evaluate(engine.data.test, 0, "test", 0)
        assert metrics[f"test_loss{mark}"] == pytest.approx(tested["loss"], abs=1e-6)


def test_evaluating_the_average_leaves_the_weights_as_they_were(tmp_path: Path) -> None:
    engine = training_of(tmp_path, averaging=0.9).engine
    engine.train_step(torch.arange(10), 0, 0)
    before = [parameter.detach().clone() for parameter in engine.model.parameters()]
    with engine.averaged():
        assert all(
            torch.equal(average, now) for average, now in zip(engine.average, engine.model.parameters(), strict=True)
        )
    assert all(torch.equal(parameter, now) for parameter, now in zip(before, engine.model.parameters(), strict=True))


def test_the_average_begins_anew_with_every_seed(tmp_path: Path) -> None:
    engine = training_of(tmp_path, averaging=0.9).engine
    engine.train_step(torch.arange(10), 0, 0)
    Training(engine, PS, 1, tmp_path)
    assert all(
        torch.equal(average, now) for average, now in zip(engine.average, engine.model.parameters(), strict=True)
    )


@pytest.mark.parametrize("before", [0, 2])
def test_a_state_that_is_loaded_again_goes_on_as_it_did(before: int) -> None:
    engine, index = engine_of(averaging=0.9), torch.arange(10)
    for step in range(before):
        engine.train_step(index, 0, step)
    state = copy.deepcopy(engine.state())
    engine.train_step(index, 0, before)
    wanted = copy.deepcopy(engine.state())
    engine.load(state)
    engine.train_step(index, 0, before)
    assert_same(engine.state(), wanted)


def test_a_model_is_built_once_for_the_first_seed(tmp_path: Path) -> None:
    built = []

    def counted(settings: Settings) -> nn.Module:
        built.append(1)
        return build(settings)

    recipe = replace(PS, build=counted)
    (first,) = run_quietly(recipe, tmp_path / "one")
    assert len(built) == 1
    again = run_quietly(recipe, tmp_path / "two", seeds=(1, 0))
    assert len(built) == 3
    assert metrics_of(again[1]) == metrics_of(first) != metrics_of(again[0])


def test_validation_can_be_rarer(tmp_path: Path) -> None:
    training = training_of(tmp_path, epochs=5, validate_every=2)
    metrics = training.run()
    assert [row["epoch"] for row in training.progress.curve if "valid_loss" in row] == [2, 4, 5]
    assert all("train_loss" in row for row in training.progress.curve)
    assert metrics["best_epoch_loss"] in (2, 4, 5)
    write_table(tmp_path / "curve.csv", curve_text(training.progress.curve))
    curve = read_curve(tmp_path / "curve.csv")
    assert [set(row) for row in curve] == [set(row) for row in training.progress.curve]


def test_evaluation_is_by_hand_the_same(tmp_path: Path) -> None:
    engine = engine_of(PLAIN)
    part = engine.data.test
    engine.model.eval()
    with torch.no_grad():
        output = engine.model(*part.inputs, mask=part.mask)
    metrics = engine.evaluate(part, 0, "test")
    assert metrics["loss"] == pytest.approx(float(engine.task.loss(output, part.targets)), rel=1e-5)
    assert metrics["accuracy"] == pytest.approx(100 * float(((output > 0) == (part.targets > 0.5)).float().mean()))
    assert engine.model.training


def test_evaluation_is_not_training() -> None:
    engine, training = engine_of(DROPOUT), []
    engine.model.base.register_forward_pre_hook(lambda base, _: training.append(base.training))
    engine.evaluate(engine.data.valid, 0, "validation")
    engine.train_step(torch.arange(10), 0, 0)
    assert training == [False, True]


@pytest.mark.parametrize(("recipe", "dtype"), [(PS, torch.float32), (PRECISE, torch.float64)])
def test_outputs_are_evaluated_in_their_own_precision(
    recipe: Recipe, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, seen = engine_of(recipe), []
    metrics = engine.task.metrics

    def noted(output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        seen.append(output.dtype)
        return metrics(output, targets, mask)

    monkeypatch.setattr(engine.task, "metrics", noted)
    engine.evaluate(engine.data.valid, 0, "validation")
    assert seen == [dtype]


def test_a_validation_loss_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    training = training_of(tmp_path, Recipe("tiny/blind", SometimesBlind, build_plain, SETTINGS))
    metrics = training.run()
    assert math.isnan(training.progress.curve[0]["valid_loss"])
    assert math.isfinite(metrics["valid_loss"])
    assert metrics["best_epoch_loss"] > 1


def test_the_first_metric_counts_even_if_another_came_first(tmp_path: Path) -> None:
    training = training_of(tmp_path, Recipe("tiny/blind", LossBlind, build_plain, SETTINGS))
    metrics = training.run()
    assert list(training.progress.best) == ["accuracy", "loss"]
    assert "test_accuracy_at_best_accuracy" in metrics
    assert "test_accuracy_at_best_loss" not in metrics


# steps


def test_the_learning_rate_warms_up_and_decays() -> None:
    warm = Settings(epochs=10, learning_rate=1.0, warmup_epochs=2, decay=True)
    assert [warm.rate(epoch, 0.5) for epoch in (0, 0.5, 1, 1.5, 2, 6, 9.5)] == [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.0625]
    still = replace(warm, decay=False)
    assert [still.rate(epoch, 0.25) for epoch in (0, 1.75, 2, 9.75)] == [0.125, 1.0, 1.0, 1.0]
    assert replace(warm, warmup_epochs=0).rate(5, 0.5) == 0.5
    assert replace(warm, warmup_epochs=0.25).rate(0, 0.5) == 1.0
    assert Settings(learning_rate=0.3).rate(50, 0.1) == 0.3


def test_steps_use_that_learning_rate() -> None:
    engine = engine_of(epochs=4, warmup_epochs=1, decay=True, learning_rate=0.1)
    assert engine.steps_per_epoch == 4
    index = engine.order(0, 0)[0]
    rates = []
    for step in (0, 3, 4, 10, 15):
        engine.train_step(index, 0, step)
        rates.append(engine.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.025, 0.1, 0.1, 0.05, 0.1 * 0.25 / 3])


@pytest.mark.parametrize("clip", [None, 0.01])
def test_gradients_are_clipped(clip: float | None) -> None:
    engine = engine_of(clip=clip)
    engine.train_step(engine.order(0, 0)[0], 0, 0)
    norm = torch.stack(
        [parameter.grad.norm() for parameter in engine.model.parameters() if parameter.grad is not None]
    ).norm()
    if clip is None:
        assert norm > 0.02
    else:
        assert norm == pytest.approx(clip, rel=1e-3)


def test_the_loss_of_an_epoch_is_the_mean_over_its_steps(tmp_path: Path) -> None:
    training, seen = training_of(tmp_path, entropy=0.1), []
    step = training.engine._step

    def noted(index: Tensor) -> Tensor:
        seen.append(step(index).clone())
        return seen[-1]

    training.engine._step = noted
    training.run()
    wanted = torch.stack(seen).view(3, 4, 2).mean(1)
    losses = torch.tensor([[row["train_total"], row["train_loss"]] for row in training.progress.curve])
    torch.testing.assert_close(losses, wanted)


def test_the_entropy_enters_the_loss_with_its_weight() -> None:
    half, twice, none = (engine_of(entropy=weight) for weight in (0.5, 1.0, 0.0))
    index = half.order(0, 0)[0]
    for other in (twice, none):
        other.model.load_state_dict(half.model.state_dict())
    (total, own), (more, same), (plain, alone) = (
        engine.train_step(index, 0, 0).tolist() for engine in (half, twice, none)
    )
    assert own == same == alone == plain
    assert total - own > 0.01
    assert more - own == pytest.approx(2 * (total - own), rel=1e-4)


def test_a_step_is_one_of_adam() -> None:
    engine = engine_of(PLAIN, clip=None, weight_decay=0.1)
    batch = engine.data.train.take(engine.order(0, 0)[0])
    other = build_plain(SETTINGS)
    other.load_state_dict(engine.model.state_dict())
    optimiser = torch.optim.Adam(other.parameters(), lr=SETTINGS.learning_rate, weight_decay=0.1)
    loss = engine.task.loss(other(*batch.inputs), batch.targets)
    loss.backward()
    optimiser.step()
    losses = engine.train_step(engine.order(0, 0)[0], 0, 0)
    assert losses.tolist() == [loss.item(), loss.item()]
    for parameter, wanted in zip(engine.model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(parameter, wanted, rtol=0, atol=1e-7)


def test_weight_decay_can_be_decoupled() -> None:
    kinds = [type(engine_of(decoupled=decoupled).optimiser) for decoupled in (False, True)]
    assert kinds == [torch.optim.Adam, torch.optim.AdamW]


def test_fewer_examples_than_a_batch_are_repeated(tmp_path: Path) -> None:
    training = training_of(tmp_path, Recipe("tiny/odd", Odd, build, replace(SETTINGS, batch_size=16)))
    assert training.engine.order(0, 0).shape == (1, 16)
    training.run()
    assert training.progress.step == SETTINGS.epochs


def test_batches_of_an_epoch_have_no_example_twice() -> None:
    engine = engine_of(batch_size=15)
    order = engine.order(0, 0)
    assert order.shape == (2, 15)
    assert len(order.unique()) == 30


def test_capturing_needs_a_gpu() -> None:
    with pytest.raises(RunError, match="CUDA"):
        make_engine(PS, SETTINGS, make_fabric(Options("cpu")), capture=True)


# losses that are not finite


@pytest.mark.parametrize("every", [0.0, 1e-9])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, every: float) -> None:
    training = training_of(tmp_path, FAILING, every=every)
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(NonFiniteError, match=f"finite scores .* in epoch 3; .*{path}"):
        training.run()
    state = load_checkpoint(path)
    assert state["step"] == 8
    assert all(bool(tensor.isfinite().all()) for tensor in state["model"].values())
    assert all(math.isfinite(loss) for loss in state["loss"])


def test_without_a_checkpoint_the_message_says_so(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"in epoch 3.*no checkpoint yet"):
        training_of(tmp_path, FAILING).run()
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_after_a_bad_loss_is_not_a_good_one(tmp_path: Path) -> None:
    training = training_of(tmp_path, Recipe("tiny/unstable", Unstable, build_plain, SETTINGS), every=0)
    with pytest.raises(NonFiniteError, match="in epoch 3"):
        training.run()
    assert all(math.isfinite(loss) for loss in load_checkpoint(tmp_path / "checkpoint.pt")["loss"])


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    """Of a finite loss whose gradient was not."""
    training, sums = training_of(tmp_path), torch.zeros(2)
    weight = next(training.engine.model.parameters()).detach()
    kept = weight.clone()
    weight[0] = math.nan
    training._save(0.0, sums)
    assert not training.path.exists()
    weight.copy_(kept)
    training._save(0.0, sums)
    assert training.path.exists()


def test_what_failed_can_be_resumed_from_the_last_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError):
        training_of(tmp_path, FAILING, every=0).run()
    training = training_of(tmp_path, Recipe(FAILING.name, Tiny, build, SETTINGS), every=0)
    assert training.resume()
    assert training.progress.step == 8
    assert math.isfinite(training.run()["test_loss"])


# checkpoints and interrupts


@pytest.mark.parametrize("every", [0.0, 1e-9, 3600.0])
def test_checkpoints_come_when_they_are_due_also_within_an_epoch(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    monkeypatch.setattr("probsym.lab.training.save_checkpoint", lambda state, path: steps.append(state["step"]))
    training = training_of(tmp_path, every=every, epochs=2)
    training.run()
    whole = 2 * training.engine.steps_per_epoch
    assert training.engine.steps_per_epoch > 1
    assert sorted(set(steps)) == ([whole] if every == 3600 else list(range(1, whole + 1)))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 broken"])
def test_broken_checkpoints_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)
    with pytest.raises(RunError, match="whole checkpoint"):
        load_checkpoint(path)
    with pytest.raises(RunError, match="whole checkpoint"):
        training_of(tmp_path).resume()


def test_a_checkpoint_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    training_of(tmp_path, every=0).run()
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(RunError, match="whole checkpoint"):
        load_checkpoint(path)


@pytest.mark.parametrize("state", [{"step": 3}, torch.ones(3), [1, 2], {}], ids=["dict", "tensor", "list", "empty"])
def test_files_that_are_no_checkpoint_of_ours_are_refused(tmp_path: Path, state: object) -> None:
    torch.save(state, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError):
        training_of(tmp_path).resume()


def test_a_checkpoint_from_before_a_setting_was_there_is_resumed(tmp_path: Path) -> None:
    training_of(tmp_path).run()
    state = load_checkpoint(tmp_path / "checkpoint.pt")
    del state["settings"]["validate_every"], state["settings"]["also_test_samples"]
    save_checkpoint(state, tmp_path / "checkpoint.pt")
    assert training_of(tmp_path).resume()
    with pytest.raises(RunError, match="validate_every"):
        training_of(tmp_path, validate_every=2).resume()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    training_of(tmp_path, every=0).run()
    other = Recipe(PS.name, Tiny, build_plain, SETTINGS)
    with pytest.raises(RunError):
        training_of(tmp_path, other).resume()


def test_a_checkpoint_from_other_data_is_refused(tmp_path: Path) -> None:
    first, second = training_of(tmp_path, epochs=1), training_of(tmp_path, epochs=1)
    first.engine.task.source, second.engine.task.source = "generated", "published"
    first.run()
    assert first.resume()
    with pytest.raises(RunError, match=r"to be of a run with data=published \(got one with data=generated\)"):
        second.resume()


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    torch.save({"recipe": Tiny()}, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match="whole checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"{tmp_path}/none.pt"):
        load_checkpoint(tmp_path / "none.pt")


def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "checkpoint.pt"
    save_checkpoint({"a": 1}, path)
    with pytest.raises(Exception, match="pickle"):
        save_checkpoint({"a": lambda: 1}, path)
    assert load_checkpoint(path) == {"a": 1}
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]


def test_a_checkpoint_holds_the_settings(tmp_path: Path) -> None:
    training_of(tmp_path, every=0).run()
    state = load_checkpoint(tmp_path / "checkpoint.pt")
    assert state["settings"] == asdict(SETTINGS)
    assert (state["recipe"], state["seed"], state["step"]) == (PS.name, 0, 12)


def test_the_first_interrupt_is_noted_and_the_second_raised() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    try:
        with graceful() as request:
            signal.raise_signal(signal.SIGINT)
            assert request.asked
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_whose_parent_was_terminated_too_stops_as_asked() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with graceful() as request:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert request.asked
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("last", "epoch"), [(5, 2), (7, 2), (11, 3)])
def test_an_interrupt_in_a_step_stops_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, epoch: int
) -> None:
    training = training_of(tmp_path)
    step = training.engine.train_step

    def interrupted(index: Tensor, seed: int, number: int) -> Tensor:
        if number == last:
            signal.raise_signal(signal.SIGINT)
        return step(index, seed, number)

    monkeypatch.setattr(training.engine, "train_step", interrupted)
    with pytest.raises(Stopped, match=f"epoch {epoch} of 3.*{tmp_path}"):
        training.run()
    assert load_checkpoint(tmp_path / "checkpoint.pt")["step"] == last + 1
    again, whole = training_of(tmp_path), training_of(tmp_path / "whole")
    assert again.resume()
    for run in (again, whole):
        run.run()
    assert without_time(again.progress.curve) == without_time(whole.progress.curve)


def test_examples_are_taken_and_moved_together() -> None:
    splits: Splits = Tiny().load()
    part = splits.train.take(torch.tensor([3, 1]))
    assert part.size == 2
    assert part.ids.tolist() == [3, 1]
    assert torch.equal(part.inputs[1][0], splits.train.inputs[1][3])
    assert torch.equal(part.mask[1], splits.train.mask[1])
    assert splits.test.ids[0] == 60
    assert splits.to(torch.device("meta")).valid.targets.device.type == "meta"
    assert splits.train._replace(mask=None).take(slice(0, 2)).mask is None


@pytest.mark.parametrize(
    "change",
    [
        {"step": "2"},
        {"step": -1},
        {"step": 10**9},
        {"curve": [{"epoch": "one"}]},
        {"curve": "epoch"},
        {"curve": []},
        {"loss": [0.0]},
        {"seconds": None},
        {"best": 3},
    ],
    ids=str,
)
def test_checkpoints_with_odd_numbers_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "checkpoint.pt"
    training = training_of(tmp_path, epochs=1)
    training.engine.train_step = lambda *_: torch.zeros(2)
    training.run()
    state = load_checkpoint(path)
    save_checkpoint({**state, **change}, path)
    with pytest.raises(RunError, match=rf"Expected {path} to "):
        training.resume()
