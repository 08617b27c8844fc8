from contextlib import nullcontext

import torch

from probsym.ops.precision import full_precision


def test_autocast_is_left_out_where_it_is_on() -> None:
    x, cpu = torch.ones(2, 2), torch.device("cpu")
    assert isinstance(full_precision(cpu), nullcontext)
    with torch.autocast("cpu", torch.bfloat16):
        with full_precision(cpu):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
