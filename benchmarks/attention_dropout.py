"""What attention with dropout gives on average, and what it takes, for each of torch's backends.

Values are all one, so that attention without dropout gives one; with it, whatever the rate, one on average. A backend
whose mean is another drops at another rate than it scales by, and a model trained with it is another in evaluation.
`chosen` is what torch takes when nothing is ruled out. Attention of MiniLM at batch 128 on 196 tokens and a global one,
in bfloat16; the time is of a forward and a backward pass.

Run: python benchmarks/attention_dropout.py [--device cuda] [--out FILE]. The last line is JSON.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, side_by_side
from probsym.lab.provenance import provenance

SHAPE = (128, 12, 197, 32)
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
BACKENDS = {
    "chosen": None,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


def attention(backend: SDPBackend | None, rate: float, device: torch.device) -> Callable[[], torch.Tensor]:
    """A forward and a backward pass, which gives what attention gave."""
    generator = torch.Generator(device).manual_seed(0)
    q, k = (
        torch.randn(SHAPE, generator=generator, device=device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(2)
    )
    v = torch.ones(SHAPE, device=device, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.randn(SHAPE, generator=generator, device=device, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        with nullcontext() if backend is None else sdpa_kernel(backend):
            y = scaled_dot_product_attention(q, k, v, dropout_p=rate)
        torch.autograd.grad(y, (q, k, v), weights)
        return y.detach()

    return step


def main() -> None:
    """Measure every backend that takes the shape at every rate, print a table, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = arguments.device
    means: dict[str, dict[str, float]] = {}
    seconds: dict[str, dict[str, float]] = {}
    for rate in RATES:
        torch.manual_seed(0)
        runs = {}
        for name, backend in BACKENDS.items():
            run = attention(backend, rate, device)
            try:
                means.setdefault(name, {})[str(rate)] = round(float(run().float().mean()), 4)
            except RuntimeError as refusal:
                print(f"{name} at {rate}: {str(refusal).splitlines()[0]}")
                continue
            runs[name] = captured(run) if device.type == "cuda" else run
        seconds[str(rate)] = side_by_side(runs, repeats=arguments.repeats, device=device)
        print(
            f"rate {rate}: "
            + ", ".join(f"{n} {means[n][str(rate)]} {seconds[str(rate)][n] * 1e3:.3f} ms" for n in runs)
        )
    result = {"benchmark": "attention_dropout", "shape": SHAPE, "mean": means, "seconds": seconds}
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
