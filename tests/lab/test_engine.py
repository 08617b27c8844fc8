"""What the compiler is told; the steps themselves are in test_training.py, test_capture.py and tests/test_cuda.py."""

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

from probsym.lab.engine import COMPILER

pytestmark = pytest.mark.slow


def overwritten(options: dict[str, bool]) -> int:
    """How often the code of a step names a buffer that a kernel reads and overwrites."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 16), nn.Tanh(), nn.Linear(16, 15))
    compiled = torch.compile(model, options=options)
    with config.patch(force_disable_caches=True):
        _, codes = run_and_get_code(lambda: compiled(torch.randn(20, 40)).square().sum().backward())
    return sum(code.count("in_out_ptr") for code in codes)


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_compiled_code_overwrites_nothing() -> None:
    assert overwritten(COMPILER) == 0
    assert overwritten({**COMPILER, "inplace_buffers": True}) > 0
