"""What attention with dropout gives on average, and what it takes, for each of torch's backends.

Values are all one, so that attention without dropout gives one; with it, whatever the rate, one on average. A backend
whose mean is another drops at another rate than it scales by, and a model trained with it is another in evaluation.
That the rate itself is right, the mean does not show; the GPU tests look at the spread. `chosen` is what torch takes
when nothing is ruled out. In bfloat16; the time is of a forward and a backward pass.

Run: python benchmarks/attention_dropout.py [--device cuda] [--channels 32 64] [--repeats 5] [--out FILE]. The last line
is JSON.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import captured, finish, side_by_side
from probsym.lab.provenance import provenance

BATCH, HEADS, TOKENS = 128, 12, 197
RATES = (0.05, 0.1, 0.3, 0.5)
BACKENDS = {
    "chosen": None,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


def attention(backend: SDPBackend | None, rate: float, channels: int, device: torch.device) -> Callable[[], Tensor]:
    """A forward and a backward pass, which gives what attention gave."""
    generator, shape = torch.Generator(device).manual_seed(0), (BATCH, HEADS, TOKENS, channels)
    q, k = (
        torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(2)
    )
    v = torch.ones(shape, device=device, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16)

    def step() -> Tensor:
        with nullcontext() if backend is None else sdpa_kernel(backend):
            y = scaled_dot_product_attention(q, k, v, dropout_p=rate)
        torch.autograd.grad(y, (q, k, v), weights)
        return y.detach()

    return step


def main() -> None:
    """Measure every backend that takes the shape at every rate, print a table, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--channels", type=int, nargs="+", default=(32, 64, 128), help="of a head")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device, rows = arguments.device, list[dict[str, object]]()
    for channels, rate in product(arguments.channels, RATES):
        torch.manual_seed(0)
        means, runs = {}, {}
        for name, backend in BACKENDS.items():
            run = attention(backend, rate, channels, device)
            try:
                means[name] = round(float(run().float().mean()), 4)
            except RuntimeError as refusal:
                print(f"{name} at {rate}, {channels} channels: {str(refusal).splitlines()[0]}")
                continue
            runs[name] = captured(run) if device.type == "cuda" else run
        seconds = side_by_side(runs, repeats=arguments.repeats, device=device)
        for name, mean in means.items():
            rows.append({"channels": channels, "rate": rate, "backend": name, "mean": mean, "seconds": seconds[name]})
            print(f"{channels:4} channels, rate {rate}, {name:9}: mean {mean:.4f}, {seconds[name] * 1e3:.3f} ms")
    result = {"benchmark": "attention_dropout", "batch": BATCH, "heads": HEADS, "tokens": TOKENS, "found": rows}
    finish({**result, **provenance(device)}, arguments.out)


if __name__ == "__main__":
    main()
