import math

import pytest
import torch
from torch import nn

from probsym.errors import RangeError
from probsym.ops.argument_checks import check_size, check_tau, readable


def test_what_can_be_read_without_waiting() -> None:
    x = torch.zeros(2)
    assert readable()
    assert readable(x, nn.Parameter(x))
    assert not readable(x, torch.zeros(2, device="meta"))
    answers = []
    torch.vmap(lambda tensor: answers.append(readable(tensor)) or tensor)(x)
    torch.func.grad(lambda tensor: answers.append(readable(tensor)) or tensor.sum())(x)
    torch.compile(lambda tensor: tensor + float(readable(tensor)), backend="eager", fullgraph=True)(x)
    assert answers == [False, False]
    assert torch.equal(torch.compile(lambda tensor: tensor + float(readable(tensor)), backend="eager")(x), x)


@pytest.mark.parametrize("tau", [math.inf, 1e-300, 1e21])
def test_temperatures_by_which_nothing_can_be_divided(tau: float) -> None:
    with pytest.raises(RangeError, match=r"Expected tau to be from 1e-20 to 1e\+20 \(got "):
        check_tau(tau)
    for temperature in (1e-20, 0.01, 1, 1e20):
        check_tau(temperature)


@pytest.mark.parametrize("size", [-1, 2.5, True, "3"])
def test_sizes_that_are_no_number_of_things(size: int) -> None:
    with pytest.raises(RangeError, match=r"Expected iterations to be 0 or more \(got"):
        check_size(size, "iterations", least=0)
    assert check_size(0, "iterations", least=0) == 0
