"""After any fault while files are written, what is read is what was there before, or all that is new."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from probsym import Symmetrized, bases, groups
from probsym._internal.atomic_write import atomic_write, partials, written
from probsym._internal.json_file import read_object
from probsym.data import files
from probsym.errors import ProbsymError, RunError, WriteError
from probsym.lab.analyses.analysis import analysis_path, write_analysis
from probsym.lab.checkpoint import clear_partials, load_checkpoint, save_checkpoint
from probsym.lab.json_with_table import find_table, table_text, write_table
from probsym.lab.pictures.picture import save
from probsym.lab.report import load_results
from probsym.lab.results import curve_text, read_curve, write_result
from tests.fault_injection import Killed, full_at, killed_at, killed_before
from tests.lab.report.cases import curve, result

OLD, NEW = 1, 2


@dataclass
class Subject:
    """Something that is written in two versions, and how to tell which one is there; None for neither."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int | None]
    replaces: bool = True
    """Whether the new version takes the place of the old one; if not, only one is ever written."""


def write_model(folder: Path, version: int) -> None:
    base = bases.MLP([4, 100 * version, 1])
    model = Symmetrized(base, "n c -> k", {"n": groups.S()}, samples=version)
    with torch.no_grad():
        base.layers[0].weight.fill_(version)
    model.save_pretrained(folder / "model", overwrite=True)


def read_model(folder: Path) -> int:
    model = Symmetrized.from_pretrained(folder / "model")
    assert bool((model.base.layers[0].weight == model.samples).all())
    return model.samples


def read_checkpoint(folder: Path) -> int:
    state = load_checkpoint(folder / "checkpoint.pt")
    assert bool((state["weights"] == state["version"]).all())
    return state["version"]


def read_result(folder: Path) -> int | None:
    try:
        (run,) = load_results(folder).runs
    except RunError as error:
        if not str(error).endswith("(got none)"):
            raise
        return None
    assert len(run.curve) == len(curve(0.1))
    return NEW


def write_rows(folder: Path, version: int) -> None:
    rows = [{"draws": draws, "loss": 0.5} for draws in range(100)]
    write_analysis(folder, "draws", result("exp/gin"), rows, {}, torch.device("cpu"))


def read_rows(folder: Path) -> int | None:
    path = folder / "exp" / "gin" / "seed-0.draws.json"
    if not path.exists():
        return None
    content = read_object(path)
    assert find_table(path.with_suffix(".csv"), content, "").read_bytes() == table_text(content["rows"]).encode()
    return NEW


def kept_arrays(folder: Path, version: int) -> files.Arrays:
    return files.kept("numbers.npz", lambda: {"a": np.arange(3000) * version}, needs=["a"])


def write_arrays(folder: Path, version: int) -> None:
    arrays = {"a": np.arange(3000) * version}
    files.save(folder / "cache" / "numbers.npz", {**arrays, "sha256": np.array(files.digest(arrays))})


def read_picture(folder: Path) -> int | None:
    path = folder / "picture.png"
    return NEW if path.exists() and imread(path).size else None


SUBJECTS = {
    "checkpoint": Subject(
        lambda folder, version: save_checkpoint(
            {"version": version, "weights": torch.full((3000,), float(version))}, folder / "checkpoint.pt"
        ),
        read_checkpoint,
    ),
    "curve": Subject(
        lambda folder, version: write_table(folder / "curve.csv", curve_text([{"epoch": version, "loss": 0.1}] * 200)),
        lambda folder: {1: OLD, 2: NEW}[int(read_curve(folder / "curve.csv")[199]["epoch"])],
    ),
    "model": Subject(write_model, read_model),
    "cache": Subject(write_arrays, lambda folder: int(kept_arrays(folder, 5)["a"][1])),
    "result": Subject(
        lambda folder, version: write_result(folder, result("exp-classify/mlp-ps", test_accuracy=1.0), curve(0.1)),
        read_result,
        replaces=False,
    ),
    "analysis": Subject(write_rows, read_rows, replaces=False),
    "picture": Subject(
        lambda folder, version: save(Figure((1, 1)), folder / "picture.png"), read_picture, replaces=False
    ),
}


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PROBSYM_COMMIT", "0" * 40)


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


def begun(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, int | None]]:
    """Folders without end, each with the old version in it if there is one."""
    number = 0
    while True:
        folder = tmp_path / str(number)
        monkeypatch.setenv("PROBSYM_CACHE", str(folder / "cache"))
        if subject.replaces:
            subject.write(folder, OLD)
        yield folder, OLD if subject.replaces else None
        number += 1


def all_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kill_before_any_call(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = begun(subject, tmp_path, monkeypatch)
    folder, old = next(places)
    with killed_before(inf) as count:
        subject.write(folder, NEW)
    assert subject.read(folder) == NEW
    assert count.calls >= 4
    seen = set()
    for number in range(count.calls):
        folder, old = next(places)
        with pytest.raises(Killed), killed_before(number):
            subject.write(folder, NEW)
        state = subject.read(folder)
        assert state in (old, NEW), number
        seen.add(state)
        if subject.replaces or state is None:
            subject.write(folder, NEW)
        assert subject.read(folder) == NEW
    assert seen == {old, NEW}


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_full_disk_or_a_kill_at_any_byte(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    places = begun(subject, tmp_path, monkeypatch)
    folder, old = next(places)
    subject.write(folder, NEW)
    size = int(share * max(map(len, all_files(folder).values())))
    folder, old = next(places)
    before = all_files(folder)
    with full_at(size), pytest.raises(WriteError, match=r"Expected to write .*File too large"):
        subject.write(folder, NEW)
    assert all_files(folder) == before
    assert subject.read(folder) == old
    folder, old = next(places)
    folder.mkdir(exist_ok=True)
    with pytest.raises(Killed), killed_at(size):
        subject.write(folder, NEW)
    assert subject.read(folder) == old


def test_arrays_are_returned_where_the_disk_is_full(tmp_path: Path) -> None:
    with full_at(100), pytest.warns(UserWarning, match=r"Expected to keep .*File too large"):
        assert kept_arrays(tmp_path, 3)["a"][1] == 3
    assert all_files(tmp_path) == {}


def test_what_a_killed_writer_left_whole_is_found_by_its_digest_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def write() -> None:
        with killed_before(5), atomic_write(first, second) as beside:
            for path in beside:
                path.write_text(path.name)

    with pytest.raises(Killed):
        write()
    assert first.exists()
    assert not second.exists()
    (left,) = partials(second)
    assert written(second, files.hashlib.sha256(left.read_bytes()).hexdigest()) == left
    assert written(second, "0" * 64) is None
    clear_partials(tmp_path)
    assert list(tmp_path.iterdir()) == [first]


def test_an_analysis_whose_table_is_torn_is_found_and_mended(tmp_path: Path) -> None:
    write_rows(tmp_path, NEW)
    write_result(tmp_path, result("exp/gin"))
    table = next(tmp_path.rglob("*.csv"))
    whole = table.read_bytes()
    table.write_bytes(whole[:-20])
    with pytest.raises(
        RunError, match=r"draws.csv to be the table that its result names by sha256 \(got another one\)"
    ):
        load_results(tmp_path)
    with pytest.raises(RunError, match="never overwritten"):
        analysis_path(tmp_path, "draws", result("exp/gin"))
    assert table.read_bytes() == whole


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_at_once_one_wins_and_nothing_of_the_others_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    together, outcomes = threading.Barrier(8), dict[int, str]()

    def write(number: int) -> None:
        together.wait()
        try:
            write_result(tmp_path, result("exp/gin", test_accuracy=number), [{"epoch": number}] * (number + 1))
            outcomes[number] = "won"
        except RunError as error:
            outcomes[number] = str(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (number for number, outcome in outcomes.items() if outcome == "won")
    assert all("never overwritten" in outcomes[number] for number in range(8) if number != winner)
    (run,) = load_results(tmp_path).runs
    assert run.content["metrics"] == {"test_accuracy": winner}
    assert run.curve == [{"epoch": float(winner)}] * (winner + 1)
    assert len(all_files(tmp_path)) == 2


def test_files_that_cannot_be_written_are_typed_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="Expected to write"):
        save_checkpoint({}, tmp_path / "file" / "checkpoint.pt")
    with pytest.raises(ProbsymError):
        save_checkpoint({}, tmp_path / ("x" * 300))
