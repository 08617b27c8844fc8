"""Training steps of several source trees side by side: what a change of the code does to their speed.

Each tree and recipe has a process of its own. All of them compile at the same time; then one after another is asked for
some steps, in turns, while the others wait. Trees are folders with a `src/probsym`, for example git worktrees; label
them by their commits, which the result has from nowhere else.

Run: python benchmarks/source_trees.py COMMIT=PATH COMMIT=PATH [--recipe NAME:PRECISION]... [--device cuda] [--turns 8]
[--steps 60] [--out FILE]. The last line is JSON.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RECIPES = ["exp-classify/mlp-ps:tf32", "nbody/gnn-ps:tf32", "nbody/transformer-ps:bf16-mixed"]


def compared(times: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Median milliseconds by recipe and tree, and the ratio of the last tree to the first."""
    rows = {}
    for recipe, trees in times.items():
        medians = {label: statistics.median(turns) for label, turns in trees.items()}
        first, *_, last = medians.values()
        rows[recipe] = {**medians, "ratio": last / first}
    return rows


def child(recipe_name: str, precision: str, device: str) -> None:
    """Get ready, say so, and time as many steps as each line of the input asks for."""
    import torch  # noqa: PLC0415

    from probsym.lab.recipe import Recipe  # noqa: PLC0415
    from probsym.lab.recipes import RECIPES as KNOWN  # noqa: PLC0415
    from probsym.lab.run import Options, make_fabric  # noqa: PLC0415
    from probsym.lab.training import initial_weights, make_engine  # noqa: PLC0415

    recipe = KNOWN[recipe_name]
    assert isinstance(recipe, Recipe)
    cuda = device == "cuda"
    fabric = make_fabric(Options(device, precision=precision))
    engine = make_engine(recipe, recipe.settings, fabric, compile=cuda, capture=cuda)
    engine.start(initial_weights(recipe, recipe.settings, 0))
    engine.model.train()
    batches = engine.order(0, 0)

    def seconds(steps: int) -> float:
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for step in range(steps):
            engine.train_step(batches[step % len(batches)], 0, step)
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    seconds(3)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds(3)
        print(1e3 * seconds(int(line)) / int(line), flush=True)


def started(tree: Path, name: str, device: str) -> subprocess.Popen[str]:
    """A process for a recipe, NAME:PRECISION, of a tree."""
    recipe, _, precision = name.partition(":")
    command = [sys.executable, __file__, "--child", recipe, precision or "32-true", device]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> str:
    """The next line of a process, which must have one."""
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise SystemExit(f"a process ended without a word: {process.args!r}")
    return line


def main() -> None:
    """Start the processes, ask them in turns, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trees", nargs="+", help="LABEL=PATH")
    parser.add_argument("--recipe", action="append", help="NAME:PRECISION")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    trees = dict(tree.split("=", 1) for tree in arguments.trees)
    names = arguments.recipe or RECIPES
    running = {
        (name, label): started(Path(path), name, arguments.device) for name in names for label, path in trees.items()
    }
    times: dict[str, dict[str, list[float]]] = {name: {label: [] for label in trees} for name in names}
    try:
        for process in running.values():
            answer(process)
        for _ in range(arguments.turns):
            for (name, label), process in running.items():
                assert process.stdin is not None
                print(arguments.steps, file=process.stdin, flush=True)
                times[name][label].append(float(answer(process)))
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    rows = compared(times)
    for name, row in rows.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in row.items()))

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.record import finish  # noqa: PLC0415
    from probsym.lab.provenance import provenance  # noqa: PLC0415
    from probsym.lab.run import Options, make_fabric  # noqa: PLC0415

    device = make_fabric(Options(arguments.device)).device
    finish({"benchmark": "source_trees", "milliseconds": rows, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
