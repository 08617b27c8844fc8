"""How long the 14,000 simulations of charged particles take, and how near they are to the published ones.

Also how many systems are chaotic by the rule of `data.nbody_chaos`, and how far the targets of the others are from the
published ones at most.

Run: PROBSYM_DATA=FOLDER python benchmarks/nbody_data.py [--out FILE]. The last line is JSON. The folder holds
nbody_charged5_initvel1small.npz.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish
from probsym.data import nbody_chaos
from probsym.data.nbody import SIZES, USED, published_start, simulate
from probsym.lab.provenance import provenance


def main() -> None:
    """Simulate, compare, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    published = np.load(Path(os.environ["PROBSYM_DATA"]) / "nbody_charged5_initvel1small.npz")
    begun = time.perf_counter()
    start = published_start(sum(SIZES.values()))
    frames = simulate(start)
    seconds = time.perf_counter() - begun
    ours = {"loc_30": frames[30][0], "vel_30": frames[30][1], "loc_40": frames[40][0]}
    first, shares, same = 0, dict[str, dict[str, float]](), True
    chaotic = {name: chaos.numpy() for name, chaos in nbody_chaos().items()}
    for name, size in SIZES.items():
        rows = slice(first, first + USED[name])
        same &= bool((published[f"{name}_charges"][..., 0] == start.charges[rows]).all())
        offs = [
            np.abs(values[rows].transpose(0, 2, 1) - published[f"{name}_{key}"]).max((1, 2))
            for key, values in ours.items()
        ]
        worst = np.maximum.reduce(offs)
        shares[name] = {f"above_{bound:g}": float((worst > bound).mean()) for bound in (1e-9, 1e-6, 1e-3)}
        shares[name]["chaotic"] = float(chaotic[name].mean())
        shares[name]["largest_of_the_calm"] = float(offs[2][~chaotic[name]].max())
        first += size
        print(f"{name}: {100 * shares[name]['above_1e-09']:.1f} % of trajectories differ by more than 1e-9")
    print(f"{sum(SIZES.values())} simulations in {seconds:.0f} s")
    result = {"benchmark": "nbody_data", "seconds": round(seconds, 1), "charges_equal": same, "shares": shares}
    finish({**result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
