"""Training with `chunk=`: 200 draws in parts of 20 beside all 200 and beside 20, in memory, time and gradient.

A set of 16 vectors goes through a transformer of four layers under S_n, with uniform and with learned orders. Memory is
what a training step holds at most beside what was there before, each step in a process of its own.

Run: python benchmarks/draws_in_parts.py [--device DEVICE] [--repeats N] [--out FILE]. The last line is JSON.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import added_memory, finish, side_by_side
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.provenance import provenance

BATCH, ITEMS, CHANNELS = 8, 16, 8
FORMS: dict[str, tuple[int, int | None]] = {"20": (20, None), "200": (200, None), "200 in parts of 20": (200, 20)}
"""The draws, and how many of them go through the base at once."""
RETURNED = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
"""Has freed memory given back at once: otherwise the C library keeps some of it, and it would count as held."""
SAMPLERS: dict[str, Callable[[], samplers.Sampler]] = {
    "haar": samplers.Haar,
    "learned": lambda: samplers.Learned(nets.DeepSets(CHANNELS)),
}


def step(sampler: str, form: str, device: torch.device, batch: int = BATCH) -> tuple[Callable[[], object], Symmetrized]:
    """A training step without an optimiser, and its model."""
    torch.manual_seed(0)
    draws, chunk = FORMS[form]
    base = bases.SequenceTransformer(f"n {CHANNELS} -> n {CHANNELS}", n=ITEMS, layers=4)
    model = Symmetrized(base, "n c -> n c", {"n": groups.S()}, SAMPLERS[sampler](), samples=draws, chunk=chunk)
    x = torch.rand(batch, ITEMS, CHANNELS, generator=torch.Generator().manual_seed(1)).to(device)
    model.to(device).train()

    def run() -> None:
        model.zero_grad()
        model(x, seed=0).square().mean().backward()

    return run, model


def memory_of(sampler: str, form: str, device: torch.device) -> int:
    """Bytes that a step adds at most to weights and their gradients, when all libraries are loaded."""
    step(sampler, "200 in parts of 20", device, batch=1)[0]()
    run, model = step(sampler, form, device)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return added_memory(run, device)


def gradient_gap(sampler: str, device: torch.device) -> float:
    """How far the gradient by parts is from that of all draws, relative to its size."""
    joined = []
    for form in ("200", "200 in parts of 20"):
        run, model = step(sampler, form, device)
        run()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        joined.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return float((joined[0] - joined[1]).norm() / joined[0].norm())


def main() -> None:
    """Measure every form under both samplers, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", nargs=2, help="only measure the memory of one sampler and form")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = arguments.device
    if arguments.memory:
        sampler, form = arguments.memory
        print(memory_of(sampler, form, device))
        return
    result: dict[str, object] = {"benchmark": "draws_in_parts", "batch": BATCH, "items": ITEMS}
    for sampler in SAMPLERS:
        memory = {}
        for form in FORMS:
            words = [sys.executable, __file__, "--device", str(device), "--memory", sampler, form]
            process = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **RETURNED})
            memory[form] = int(process.stdout)
        runs = {form: step(sampler, form, device)[0] for form in FORMS}
        seconds = side_by_side(runs, repeats=arguments.repeats, device=device)
        gap = gradient_gap(sampler, device)
        result[sampler] = {"added_bytes": memory, "seconds": seconds, "gradient_gap": gap}
        for form in FORMS:
            print(f"{sampler:8} {form:20} {memory[form] / 1e6:6.0f} MB   {seconds[form]:.3f} s")
        print(f"{sampler:8} gradients differ by {gap:.1e}")
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
