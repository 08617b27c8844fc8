"""Weights that are kept over training: which, when, and across interruptions."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probsym.errors import RangeError, RunError, Stopped
from probsym.lab import training as trainings
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint
from probsym.lab.kept_weights import KeptWeights, keep_weights, weights_path
from probsym.lab.training import Training, initial_weights
from tests.lab.cases import CPU, PS, SEPARATION, assert_same, kept_run, run_quietly, training_of, without_time

EPOCHS = 5


def kept(folder: Path) -> dict[str, Any]:
    return {path.name: torch.load(path, weights_only=True) for path in sorted((folder / "weights").iterdir())}


def whole(folder: Path) -> tuple[Training, dict[str, Any]]:
    training = training_of(folder, keep_every=2, epochs=EPOCHS)
    training.run()
    return training, kept(folder)


def test_weights_are_kept_at_the_start_every_so_many_epochs_and_at_the_end(tmp_path: Path) -> None:
    training = training_of(tmp_path, keep_every=2, epochs=EPOCHS)
    seen = [initial_weights(PS, training.settings, 0)]
    model = training.engine.model
    training.run(lambda *_: seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()}))
    files = kept(tmp_path)
    assert list(files) == ["epoch-0000.pt", "epoch-0002.pt", "epoch-0004.pt", "epoch-0005.pt"]
    for epoch in (0, 2, 4, 5):
        assert_same(files[f"epoch-{epoch:04d}.pt"], dict(seen[epoch]))
    assert not torch.equal(seen[0]["sampler.net.head.weight"], seen[2]["sampler.net.head.weight"])


def test_keeping_weights_changes_no_result(tmp_path: Path) -> None:
    with_them, _ = whole(tmp_path / "kept")
    without = training_of(tmp_path / "not", epochs=EPOCHS)
    without.run()
    assert_same(dict(with_them.engine.model.state_dict()), dict(without.engine.model.state_dict()))
    assert without_time(with_them.progress.curve) == without_time(without.progress.curve)
    assert not (tmp_path / "not" / "weights").exists()


@pytest.mark.parametrize("step", [2, 7, 8, 9])
def test_an_interrupt_leaves_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    _, wanted = whole(tmp_path / "whole")
    training = training_of(tmp_path / "cut", keep_every=2, epochs=EPOCHS)
    usual = training.engine.train_step

    def interrupted(index: Tensor, seed: int, number: int) -> Tensor:
        if number == step:
            signal.raise_signal(signal.SIGINT)
        return usual(index, seed, number)

    monkeypatch.setattr(training.engine, "train_step", interrupted)
    with pytest.raises(Stopped):
        training.run()
    again = training_of(tmp_path / "cut", keep_every=2, epochs=EPOCHS)
    assert again.resume()
    again.run()
    assert_same(kept(tmp_path / "cut"), wanted)


# the third file to keep is that of epoch 4; the first checkpoint is before any step, the ninth the first after epoch 2
@pytest.mark.parametrize(
    ("moment", "call"),
    [("keep_weights", 1), ("keep_weights", 3), ("save_checkpoint", 2), ("save_checkpoint", 9), ("save_checkpoint", 10)],
)
def test_a_crash_around_the_writing_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, call: int
) -> None:
    _, wanted = whole(tmp_path / "whole")
    usual, calls = getattr(trainings, moment), []

    def crash(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == call:
            raise OSError("no space left")
        usual(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trainings, moment, crash)
        with pytest.raises(OSError, match="no space"):
            training_of(tmp_path / "cut", every=0, keep_every=2, epochs=EPOCHS).run()
    again = training_of(tmp_path / "cut", epochs=EPOCHS)
    assert again.resume()
    again.run()
    assert_same(kept(tmp_path / "cut"), wanted)


def cut(folder: Path, keep_every: int | None) -> None:
    """A run of which the first epoch is done."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training_of(folder, every=0, keep_every=keep_every, epochs=EPOCHS).run(stop)


@pytest.mark.parametrize("given", [None, 2])
def test_a_resumed_run_keeps_weights_as_it_began(tmp_path: Path, given: int | None) -> None:
    _, wanted = whole(tmp_path / "whole")
    cut(tmp_path / "cut", 2)
    again = training_of(tmp_path / "cut", keep_every=given, epochs=EPOCHS)
    assert again.resume()
    assert again.keep_every == 2
    again.run()
    assert_same(kept(tmp_path / "cut"), wanted)


@pytest.mark.parametrize("before", [None, 2])
def test_to_keep_other_epochs_than_before_is_refused(tmp_path: Path, before: int | None) -> None:
    cut(tmp_path, before)
    with pytest.raises(RunError, match=rf"keep_every={before}, with which the run in .* \(got keep_every=3\)"):
        training_of(tmp_path, keep_every=3, epochs=EPOCHS).resume()


@pytest.mark.parametrize("given", [None, 2])
def test_checkpoints_that_do_not_say_what_was_kept_are_taken(tmp_path: Path, given: int | None) -> None:
    cut(tmp_path, 2)
    state = load_checkpoint(tmp_path / "checkpoint.pt")
    del state["keep_every"]
    save_checkpoint(state, tmp_path / "checkpoint.pt")
    again = training_of(tmp_path, keep_every=given, epochs=EPOCHS)
    assert again.resume()
    assert again.keep_every == given


def test_a_finished_run_without_the_weights_to_keep_is_refused(tmp_path: Path) -> None:
    kept_run(tmp_path)
    words, options = ["epochs=4"], replace(CPU, keep_every=2)
    run_quietly(PS, tmp_path, changes=words, options=options, resume=True)
    run_quietly(PS, tmp_path, changes=words, resume=True)
    with pytest.raises(RunError, match=r"weights every 3 epochs \(got those of epochs \[0, 2, 4\]"):
        run_quietly(PS, tmp_path, changes=words, options=replace(CPU, keep_every=3), resume=True)


def test_epochs_are_revisited_and_the_weights_come_back(tmp_path: Path) -> None:
    engine = kept_run(tmp_path)
    assert engine.kept_weights is not None
    assert engine.kept_weights.epochs == [0, 2, 4]
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    files = kept(tmp_path / PS.name / "seed-0")
    for epoch, wanted in zip(engine.kept_weights.revisited(engine.model), files.values(), strict=True):
        assert_same(dict(engine.model.state_dict()), wanted)
        assert epoch in (0, 2, 4)
    assert_same(dict(engine.model.state_dict()), before)
    for _, wanted in zip(engine.kept_weights.revisited(engine.model, "sampler"), files.values(), strict=True):
        for name, tensor in engine.model.state_dict().items():
            assert torch.equal(tensor, wanted[name] if name.startswith("sampler.") else before[name])
    assert_same(dict(engine.model.state_dict()), before)
    assert_same(dict(engine.kept_weights.initial()), files["epoch-0000.pt"])


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    kept = KeptWeights(tmp_path, dict)
    assert kept.epochs == []
    keep_weights(nn.Linear(2, 3), tmp_path, 12_000)
    keep_weights(nn.Linear(2, 3), tmp_path, 7)
    (tmp_path / "weights" / "notes.txt").write_text("mine")
    assert kept.epochs == [7, 12_000]
    model = nn.Linear(2, 4)
    before = model.weight.detach().clone()
    with pytest.raises(RunError, match=r"epoch-0007\.pt to be weights of this model"):
        list(kept.revisited(model))
    assert torch.equal(model.weight, before)
    weights_path(tmp_path, 7).write_bytes(b"half")
    with pytest.raises(RunError, match="a whole checkpoint"):
        list(kept.revisited(model))


def test_keeping_needs_a_number_and_a_training(tmp_path: Path) -> None:
    with pytest.raises(RangeError, match="keep_every to be 1 or more"):
        training_of(tmp_path, keep_every=0)
    with pytest.raises(RunError, match="without weights to keep"):
        run_quietly(SEPARATION, tmp_path, options=replace(CPU, keep_every=2))
