"""Run as a script: runs that are killed and interrupted, each in a forked process, so that torch is imported once.

`python -m tests.lab.killed FOLDER` leaves whole and killed runs under FOLDER, and in report.json what happened.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import torch
import torch.utils.tensorboard

from probsym import cli
from probsym._internal import atomic_write
from probsym.lab import checkpoint, recipes
from tests.lab.cases import CPU, DROPOUT, PS, RECIPES, run_quietly

KILLS = 10
CHANGES = ("epochs=15",)


def forked(action: Callable[[], object], log: Path | None = None) -> int:
    """The id of a new process that does it; its exit code tells whether it came to the end."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        log = log or Path(os.devnull)
        said = log.with_suffix(".err") if log.suffix else log
        with log.open("w") as output, said.open("w") as errors:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            try:
                action()
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
    finally:
        os._exit(code)


def ended(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def exchanged(path: Path, times: int, number: int) -> None:
    def state() -> tuple[int, int] | None:
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    seen = state()
    while times and os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        now = state()
        if now != seen:
            seen, times = now, times - 1
        time.sleep(0.0005)


def kill_often(recipe, folder: Path, log: Path) -> dict[str, object]:
    """Kill a run at ten random moments, each a few checkpoints and a random delay after the last; then let it end."""
    chance = random.Random(0)
    path = folder / recipe.name / "seed-0" / "checkpoint.pt"
    kills, steps = 0, []

    def go() -> None:
        run_quietly(recipe, folder, resume=True, changes=CHANGES)

    for _ in range(KILLS):
        number = forked(go, log)
        exchanged(path, chance.randint(0, 4), number)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(number, signal.SIGKILL)
        kills += ended(number) == -signal.SIGKILL
        steps.append(checkpoint.load_checkpoint(path)["step"] if path.exists() else 0)
    return {"kills": kills, "steps": steps, "end": ended(forked(go, log))}


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(state: dict, file: BinaryIO) -> None:
    file.write(b"half a checkpoint")
    file.flush()
    die()


def killed_while_writing(folder: Path, log: Path) -> dict[str, object]:
    """A checkpoint, then one process that dies in the middle of writing, and one that dies just before the move."""
    path = folder / PS.name / "seed-0" / "checkpoint.pt"
    number = forked(lambda: run_quietly(PS, folder, changes=CHANGES), log)
    exchanged(path, 3, number)
    os.kill(number, signal.SIGKILL)
    ended(number)
    outcome: dict[str, object] = {"before": checkpoint.load_checkpoint(path)["step"]}

    def in_the_middle() -> None:
        checkpoint.torch.save = half
        run_quietly(PS, folder, changes=CHANGES, resume=True)

    def before_the_move() -> None:
        atomic_write.os.fsync = die
        run_quietly(PS, folder, changes=CHANGES, resume=True)

    for name, action in (("middle", in_the_middle), ("move", before_the_move)):
        code = ended(forked(action, log))
        outcome[name] = [code, checkpoint.load_checkpoint(path)["step"]]
    outcome["end"] = ended(forked(lambda: run_quietly(PS, folder, changes=CHANGES, resume=True), log))
    return outcome


def command(*words: str) -> Callable[[], None]:
    def go() -> None:
        sys.argv = ["probsym", *words]
        cli.main()

    return go


def interrupted(folder: Path, logs: Path) -> dict[str, object]:
    """Ctrl-C, a second run that is refused, one that goes on, and one that finds it finished."""
    path = folder / PS.name / "seed-0" / "checkpoint.pt"
    words = ["train", PS.name, "--device", "cpu", "--set", *CHANGES, "--out", str(folder), "--checkpoint-every", "0"]
    number = forked(command(*words), logs / "interrupt.txt")
    exchanged(path, 5, number)
    os.kill(number, signal.SIGINT)
    outcome: dict[str, object] = {"interrupt": ended(number), "step": checkpoint.load_checkpoint(path)["step"]}
    outcome["refused"] = ended(forked(command(*words), logs / "refused.txt"))
    outcome["resumed"] = ended(forked(command(*words, "--resume"), logs / "resumed.txt"))
    written = path.with_name("result.json").stat().st_mtime_ns
    outcome["passed"] = ended(forked(command(*words, "--resume"), logs / "passed.txt"))
    outcome["untouched"] = path.with_name("result.json").stat().st_mtime_ns == written
    number = forked(command(*words, "--seed", "1"), logs / "terminated.txt")
    exchanged(folder / PS.name / "seed-1" / "checkpoint.pt", 3, number)
    os.kill(number, signal.SIGTERM)
    outcome["terminated"] = ended(number)
    return outcome


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    recipes.RECIPES.update(RECIPES)
    report: dict[str, object] = {}
    for recipe in (PS, DROPOUT):
        whole = forked(lambda recipe=recipe: run_quietly(recipe, folder / "whole", changes=CHANGES, options=CPU))
        assert ended(whole) == 0
    report["killed"] = kill_often(DROPOUT, folder / "killed", folder / "killed.txt")
    report["writing"] = killed_while_writing(folder / "writing", folder / "writing.txt")
    report["interrupted"] = interrupted(folder / "interrupted", folder)
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
