import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError
from probsym.ops import short_attention

CASES = [(25, 4, 16), (5, 2, 8), (40, 1, 24), (1, 3, 5)]


def literal(packed: Tensor, heads: int, seen: Tensor | None) -> Tensor:
    """Token by token, head by head."""
    rows, tokens, width = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    size = width // heads
    output = []
    for row in range(rows):
        for token in range(tokens):
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                query = packed[row, token, :width][part]
                keys, values = packed[row, :, width : 2 * width][:, part], packed[row, :, 2 * width :][:, part]
                there = torch.ones(tokens, dtype=torch.bool) if seen is None else seen[row]
                if not there.any():
                    output.append(0 * query)
                    continue
                weights = torch.exp(keys[there] @ query / size**0.5)
                output.append((weights / weights.sum()) @ values[there])
    return torch.stack(output).view(rows, tokens, width)


def make(tokens: int, heads: int, size: int, masked: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    generator = torch.Generator().manual_seed(tokens)
    packed = torch.randn(3, tokens, 3 * heads * size, generator=generator, dtype=dtype)
    seen = torch.rand(3, tokens, generator=generator) < 0.6
    seen[1] = False
    return packed, seen if masked else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("tokens", "heads", "size"), CASES)
def test_it_is_attention(tokens: int, heads: int, size: int, masked: bool, dtype: torch.dtype) -> None:
    packed, seen = make(tokens, heads, size, masked, dtype)
    results = []
    for attend in (short_attention, literal):
        leaf = packed.clone().requires_grad_()
        y = attend(leaf, heads, seen)
        results.append((y, *torch.autograd.grad(y.sin().sum(), leaf)))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for actual, wanted in zip(*results, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=tolerance, atol=tolerance)


def test_what_does_not_fit_is_refused() -> None:
    packed = torch.randn(2, 6, 3 * 64)
    for wrong, heads, seen, error in (
        (packed, 5, None, ShapeError),
        (packed, 0, None, RangeError),
        (packed[0], 4, None, ShapeError),
        (packed, 4, torch.ones(1, 6, dtype=torch.bool), ShapeError),
        (packed, 4, torch.ones(2, 6), DtypeError),
        (packed, 4, torch.ones(2, 6, dtype=torch.bool, device="meta"), DeviceError),
    ):
        with pytest.raises(error, match="Expected"):
            short_attention(wrong, heads, seen)


KERNEL = """
import torch
from probsym.ops import short_attention, short_attention_triton
from tests.ops.test_short_attention import CASES, make
for case in CASES:
    for masked in (False, True):
        packed, seen = make(*case, masked, torch.float32)
        leaf = packed.clone().requires_grad_()
        wanted = short_attention(leaf, case[1], seen)
        gradient = torch.randn_like(wanted)
        (back,) = torch.autograd.grad(wanted, leaf, gradient)
        attended = short_attention_triton.attend(packed, seen, case[1], False)
        torch.testing.assert_close(attended, wanted.detach(), rtol=1e-5, atol=1e-5)
        came_back = short_attention_triton.attend_back(gradient, packed, seen, case[1], False)
        torch.testing.assert_close(came_back, back, rtol=1e-5, atol=1e-5)
print("same")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, whose interpreter runs kernels anywhere")
def test_the_kernel_computes_the_same() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr
