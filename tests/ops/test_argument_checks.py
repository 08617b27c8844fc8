import math
from typing import Any

import pytest
import torch
from torch import nn

from probsym.errors import RangeError
from probsym.ops.argument_checks import check_rate, check_size, check_tau, is_number, is_rate, readable


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


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 0.999])
def test_rates_are_numbers_from_0_to_below_1(value: float) -> None:
    assert is_rate(value)
    assert check_rate(value, "dropout") == value


@pytest.mark.parametrize("value", [1, 1.0, -0.1, float("nan"), "0.5", None, True, False, [0.5], 0.5j, torch.ones(2)])
def test_other_rates_are_refused(value: Any) -> None:
    assert not is_rate(value)
    with pytest.raises(RangeError, match=r"^Expected dropout to be in \[0, 1\) \(got "):
        check_rate(value, "dropout")


def test_numbers_of_any_size_are_numbers() -> None:
    assert all(is_number(value) for value in (-3, 1e9, float("inf")))
    assert not any(is_number(value) for value in (True, "3", None, 1j))


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert is_rate(numpy.float32(0.5))
    assert not is_rate(numpy.int64(1))
