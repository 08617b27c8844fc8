"""Running recipes: options, folders, and what stands in the way."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from probsym.errors import ProbsymError, RunError
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint
from probsym.lab.run import Options, _same_error, load_run, make_fabric, read_run
from probsym.lab.training import initial_weights, make_engine
from tests.lab.cases import CPU, PS, SEPARATION, assert_same, metrics_of, run_quietly


@pytest.mark.parametrize("device", ["gpu", "", "cuda:0", "tpu"])
def test_devices_that_there_are_not_are_refused(device: str) -> None:
    with pytest.raises(RunError, match=r"device to be auto, cpu or cuda|CUDA device"):
        make_fabric(Options(device=device))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_refused_where_there_is_none() -> None:
    with pytest.raises(RunError, match="CUDA device"):
        make_fabric(Options(device="cuda"))
    assert make_fabric(Options(device="auto")).device.type == "cpu"


@pytest.mark.parametrize("precision", ["64-bit", "", "fp8"])
def test_unknown_precisions_are_refused(precision: str) -> None:
    with pytest.raises(ProbsymError):
        make_fabric(Options(device="cpu", precision=precision))


def test_mixed_precision_trains(tmp_path: Path) -> None:
    options = replace(CPU, precision="bf16-mixed")
    (result,) = run_quietly(PS, tmp_path, changes=["epochs=1"], options=options)
    assert result["precision"] == "bf16-mixed"
    assert result["metrics"]["test_loss"] > 0


@pytest.mark.parametrize(("precision", "trained"), [("32-true", "highest"), ("tf32", "high"), ("bf16-mixed", "high")])
def test_products_of_float32_are_exact_in_evaluation(precision: str, trained: str) -> None:
    engine = make_engine(PS, PS.settings, make_fabric(replace(CPU, precision=precision)))
    seen = list[str]()
    assert isinstance(engine.model.base, torch.nn.Module)
    engine.model.base.register_forward_hook(lambda *_: seen.append(torch.get_float32_matmul_precision()))
    engine.start(initial_weights(PS, PS.settings, 0))
    engine.train_step(engine.order(0, 0)[0], 0, 0)
    engine.evaluate(engine.data.valid, 0, "validation")
    assert seen[0] == torch.get_float32_matmul_precision() == trained
    assert set(seen[1:]) == {"highest"}


def test_a_run_goes_on_in_no_other_precision(tmp_path: Path) -> None:
    """Neither a finished one, nor one that was interrupted; the same precision is fine, and an older checkpoint too."""
    mixed = replace(CPU, precision="bf16-mixed")
    run_quietly(PS, tmp_path, changes=["epochs=1"])
    with pytest.raises(RunError, match=r"^Expected the run in .* to be in bf16-mixed \(got 32-true\)$"):
        run_quietly(PS, tmp_path, changes=["epochs=1"], options=mixed, resume=True)
    (tmp_path / PS.name / "seed-0" / "result.json").unlink()
    with pytest.raises(RunError, match=r"^Expected precision 32-true, in which .* began \(got bf16-mixed\)$"):
        run_quietly(PS, tmp_path, changes=["epochs=1"], options=mixed, resume=True)
    assert run_quietly(PS, tmp_path, changes=["epochs=1"], resume=True)
    checkpoint = tmp_path / PS.name / "seed-0" / "checkpoint.pt"
    state = load_checkpoint(checkpoint)
    del state["precision"]
    save_checkpoint(state, checkpoint)
    (tmp_path / PS.name / "seed-0" / "result.json").unlink()
    assert run_quietly(PS, tmp_path, changes=["epochs=1"], options=mixed, resume=True)


def test_another_run_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    (result,) = run_quietly(PS, tmp_path, changes=["epochs=1"])
    path = tmp_path / PS.name / "seed-0" / "result.json"
    before = path.read_bytes()
    with pytest.raises(RunError, match=f"{path.parent} to be empty, or to resume"):
        run_quietly(PS, tmp_path, changes=["epochs=1"])
    (again,) = run_quietly(PS, tmp_path, changes=["epochs=1"], resume=True)
    assert again == result
    assert path.read_bytes() == before


def test_another_run_is_not_resumed_and_what_differs_is_said(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, changes=["epochs=1"])
    with pytest.raises(RunError, match=r"to have epochs=2, tau=0.5 \(got one with epochs=1, tau=0.01\)"):
        run_quietly(PS, tmp_path, changes=["epochs=2", "tau=0.5"], resume=True)


def test_a_copied_run_does_not_pass_for_another_seed(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, changes=["epochs=1"])
    folder = tmp_path / PS.name / "seed-0"
    shutil.copytree(folder, folder.with_name("seed-1"))
    with pytest.raises(RunError, match=r"the run in .*seed-1 to have seed=1 \(got one with seed=0\)"):
        run_quietly(PS, tmp_path, (1,), changes=["epochs=1"], resume=True)


def test_a_result_of_another_run_is_refused_before_any_training_even_to_resume(tmp_path: Path) -> None:
    results = tmp_path / "results"
    (first,) = run_quietly(PS, tmp_path / "one", changes=["epochs=1"], results=results)
    (again,) = run_quietly(PS, tmp_path / "one", changes=["epochs=1"], results=results, resume=True)
    assert again == first
    with pytest.raises(RunError, match=r"Expected no result of tiny/mlp-ps, seed 0, at .*results"):
        run_quietly(PS, tmp_path / "two", changes=["epochs=1"], results=results, resume=True)
    assert not (tmp_path / "two").exists()
    path = tmp_path / "one" / PS.name / "seed-0" / "result.json"
    path.write_text(json.dumps({**first, "date": "2020-01-01"}))
    with pytest.raises(RunError, match=r"Expected no result of tiny/mlp-ps, seed 0, at .*results"):
        run_quietly(PS, tmp_path / "one", changes=["epochs=1"], results=results, resume=True)


def test_all_seeds_are_checked_before_the_first_is_run(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, (1,), changes=["epochs=1"])
    with pytest.raises(RunError, match="seed-1"):
        run_quietly(PS, tmp_path, (0, 1), changes=["epochs=1"])
    assert not (tmp_path / PS.name / "seed-0").exists()


@pytest.mark.parametrize("change", ["batch_size=1000000000", "tau=0", "dropout=1", "input_noise=0.1", "huber=0.1"])
def test_what_is_refused_leaves_no_folders(tmp_path: Path, change: str) -> None:
    folder, results = tmp_path / "runs", tmp_path / "results"
    results.mkdir()
    with pytest.raises(ProbsymError, match=change.partition("=")[0]):
        run_quietly(PS, folder, (0, 1), changes=["epochs=1", change], results=results)
    assert list(tmp_path.rglob("*")) == [results]


def test_a_file_where_a_folder_should_be_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(ProbsymError):
        run_quietly(PS, tmp_path / "runs", changes=["epochs=1"])
    with pytest.raises(ProbsymError):
        run_quietly(SEPARATION, tmp_path / "runs")


def test_a_finished_run_is_read_and_loaded(tmp_path: Path) -> None:
    (result,) = run_quietly(PS, tmp_path, changes=["epochs=2"])
    folder = tmp_path / PS.name / "seed-0"
    assert read_run(folder) == result
    engine = load_run(folder, PS, CPU)
    assert engine.settings.epochs == 2
    assert engine.evaluate(engine.data.test, 0, "test")["loss"] == pytest.approx(
        metrics_of(result)["test_loss"], abs=1e-6
    )


def test_runs_that_are_not_finished_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="finished run"):
        read_run(tmp_path)
    with pytest.raises(RunError, match="finished run"):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"row": "tiny/mlp-ps", "seed": 0}'])
def test_broken_results_are_typed_errors(tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(RunError):
        load_run(tmp_path, PS, CPU)


def test_a_result_with_settings_of_another_version_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"row": "tiny/mlp-ps", "seed": 0, "settings": {"gone": 1}}')
    with pytest.raises(RunError):
        load_run(tmp_path, PS, CPU)


def test_a_run_of_no_epochs_has_the_weights_that_it_began_with(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, (3,), changes=["epochs=0"])
    engine = load_run(tmp_path / PS.name / "seed-3", PS, CPU)
    assert_same(engine.model.state_dict(), initial_weights(PS, engine.settings, 3))


def test_a_run_without_its_checkpoint_or_its_best_weights_cannot_be_loaded(tmp_path: Path) -> None:
    run_quietly(PS, tmp_path, changes=["epochs=1"])
    folder = tmp_path / PS.name / "seed-0"
    path = folder / "checkpoint.pt"
    save_checkpoint({**load_checkpoint(path), "best": {}}, path)
    with pytest.raises(RunError, match="the best weights of a run"):
        load_run(folder, PS, CPU)
    path.unlink()
    with pytest.raises(RunError, match="checkpoint"):
        load_run(folder, PS, CPU)


def test_a_run_is_not_loaded_with_the_checkpoint_of_another(tmp_path: Path) -> None:
    folders = [tmp_path / name / PS.name / "seed-0" for name in ("one", "two")]
    for name, epochs in (("one", 1), ("two", 2)):
        run_quietly(PS, tmp_path / name, changes=[f"epochs={epochs}"])
    shutil.copy(folders[1] / "checkpoint.pt", folders[0])
    with pytest.raises(RunError, match=r"checkpoint.pt to be of a run with settings.epochs=1 \(got one with .*=2\)"):
        load_run(folders[0], PS, CPU)


def test_separation_has_nothing_to_load(tmp_path: Path) -> None:
    run_quietly(SEPARATION, tmp_path)
    with pytest.raises(RunError, match="recipe that trains"):
        load_run(tmp_path / SEPARATION.name / "seed-0", SEPARATION, CPU)


@pytest.mark.parametrize("change", [{"seed": "x/../../y"}, {"metrics": {"loss": "low"}}, {"changed": 3}, {"row": 1}])
def test_results_with_odd_values_are_typed_errors(tmp_path: Path, change: dict[str, object]) -> None:
    fields = dict.fromkeys(("command", "commit", "hardware", "torch", "date"), "")
    good = {"row": "tiny/mlp-ps", "seed": 0, "metrics": {}, "settings": {}, **fields}
    (tmp_path / "result.json").write_text(json.dumps(good))
    assert read_run(tmp_path)["seed"] == 0
    (tmp_path / "result.json").write_text(json.dumps({**good, **change}))
    with pytest.raises(RunError, match=r"Expected .*result.json to "):
        read_run(tmp_path)


def test_more_than_a_machine_can_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Expected at most \d+ processes on \d+ cores \(got 1000\)"):
        run_quietly(PS, tmp_path / "a", options=replace(CPU, processes=1000))
    with pytest.raises(RunError, match=r"batch_size to be at most 100 times the 40 examples .* \(got 1000000000\)"):
        run_quietly(PS, tmp_path / "b", changes=["batch_size=1000000000"])
    with pytest.raises(RunError, match="Expected folders for the run"):
        run_quietly(PS, tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["RunError", "NonFiniteError", "WriteError"])
def test_errors_of_processes_are_not_wrapped_twice(name: str) -> None:
    error = _same_error(f"probsym.errors.{name}: Expected one: two (got three)")
    assert type(error).__name__ == name
    assert str(error) == "Expected one: two (got three)"
    assert str(_same_error("ValueError: no")) == "ValueError: no"
    assert type(_same_error("annotations: no")) is RunError
