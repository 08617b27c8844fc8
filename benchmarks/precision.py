"""Whether a precision changes what a recipe learns: the same seeds in each, and how far their errors lie apart.

Runs of one seed begin with the same weights, see the same batches in the same order and draw the same noise, so that
the difference between two precisions is of pairs. It is to be compared with how much seeds differ in one precision.

Run: python benchmarks/precision.py RECIPE METRIC --precision tf32 --precision 32-true [--seed 0 --seed 1 --seed 2]
[--set epochs=100] [--device cuda --compile --capture] [--runs FOLDER] [--out FILE]. All precisions train at the same
time, in processes of their own. The last line is JSON.
"""

import argparse
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.recipe_runs import run_quietly, trainable
from benchmarks.record import finish
from probsym.lab.final_test import metric_names
from probsym.lab.provenance import provenance
from probsym.lab.run import PRECISIONS, Options, make_fabric
from probsym.lab.training import make_engine


def errors(name: str, metric: str, seeds: list[int], changes: list[str], options: Options, folder: Path) -> list[float]:
    """The metric for every seed, from runs in the folder; those that were interrupted go on."""
    results = run_quietly(trainable(name), seeds, folder / options.precision, changes, options)
    return [result["metrics"][metric] for result in results]


def metrics(name: str, changes: list[str]) -> list[str]:
    """What runs of the recipe report."""
    recipe = trainable(name)
    return metric_names(make_engine(recipe, recipe.settings.changed(changes), make_fabric(Options("cpu"))))


def apart(values: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """For every two precisions: the mean difference of runs with the same seed, and its standard error."""
    pairs = {}
    for first, second in combinations(values, 2):
        differences = [a - b for a, b in zip(values[first], values[second], strict=True)]
        stderr = statistics.stdev(differences) / len(differences) ** 0.5
        pairs[f"{first} - {second}"] = {"mean": statistics.mean(differences), "stderr": stderr}
    return pairs


def main() -> None:
    """Train in every precision, print the differences, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipe")
    parser.add_argument("metric")
    parser.add_argument("--precision", action="append", required=True, choices=PRECISIONS)
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--capture", action="store_true")
    parser.add_argument("--runs", type=Path, default=Path("runs/precision"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    seeds = arguments.seed or [0, 1, 2]
    if len(seeds) < 2:
        parser.error(f"expected two seeds or more, to tell what noise is (got {len(seeds)})")
    for name, given in (("seed", seeds), ("precision", arguments.precision)):
        if len(set(given)) < len(given):
            parser.error(f"expected every {name} once (got {', '.join(map(str, given))})")
    names = metrics(arguments.recipe, arguments.set)
    if arguments.metric not in names:
        parser.error(f"expected the metric to be one of {', '.join(names)} (got {arguments.metric})")
    with ProcessPoolExecutor(len(arguments.precision), get_context("spawn")) as pool:
        jobs = {
            precision: pool.submit(
                errors,
                arguments.recipe,
                arguments.metric,
                seeds,
                arguments.set,
                Options(arguments.device, 1, precision, arguments.compile, arguments.capture),
                arguments.runs,
            )
            for precision in arguments.precision
        }
        values = {precision: job.result() for precision, job in jobs.items()}
    for precision, by_seed in values.items():
        print(
            f"{precision}: {statistics.mean(by_seed):.6g} +- {statistics.stdev(by_seed):.2g} over {len(by_seed)} seeds"
        )
    differences = apart(values)
    for pair, number in differences.items():
        print(f"{pair}: {number['mean']:.2g} +- {number['stderr']:.2g}")
    result = {"benchmark": "precision", "recipe": arguments.recipe, "metric": arguments.metric, "seeds": seeds}
    result |= {"changed": arguments.set, "values": values, "differences": differences}
    finish({**result, **provenance(make_fabric(Options(arguments.device)).device)}, arguments.out)


if __name__ == "__main__":
    main()
