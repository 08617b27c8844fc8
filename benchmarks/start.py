"""How long `probsym --help` and `probsym list` take, before and after: whole processes of two source trees in turns.

Trees are folders with a `src/probsym`, for example git worktrees.

Run: python benchmarks/start.py before=PATH after=PATH [--repeats 7] [--out FILE]. The last line is JSON.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish, side_by_side
from probsym.lab.provenance import provenance

COMMANDS = {"help": "import sys; sys.argv[1:] = ['--help']", "list": "import sys; sys.argv[1:] = ['list']"}
MAIN = "from probsym.__main__ import main; main()"


def started(tree: Path, code: str) -> Callable[[], object]:
    """A process of a tree that runs the code and must succeed."""
    environment = {**os.environ, "PYTHONPATH": str((tree / "src").resolve())}

    def run() -> None:
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)

    return run


def main() -> None:
    """Start the programs in turns, print the table, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trees", nargs=2, help="LABEL=PATH")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    trees = {label: Path(path) for label, path in (tree.split("=", 1) for tree in arguments.trees)}
    code = {name: f"{words}; {MAIN}" for name, words in COMMANDS.items()}
    code["import and first name"] = "import probsym; probsym.Symmetrized"
    seconds, ratios = {}, {}
    for name, text in code.items():
        runs = {label: started(tree, text) for label, tree in trees.items()}
        seconds[name] = side_by_side(runs, repeats=arguments.repeats, device=torch.device("cpu"))
        before, after = seconds[name].values()
        ratios[name] = before / after
        shown = "".join(f"   {label} {span:.2f} s" for label, span in seconds[name].items())
        print(f"{name:22}{shown}   {ratios[name]:.1f} times faster")
    result = {"benchmark": "start", "seconds": seconds, "ratios": ratios}
    finish({**result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
