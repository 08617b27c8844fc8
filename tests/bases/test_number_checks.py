from typing import Any

import pytest
import torch

from probsym.bases.number_checks import check_rate, is_number, is_rate
from probsym.errors import RangeError


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 0.999])
def test_takes_numbers_from_0_to_below_1(value: float) -> None:
    assert is_rate(value)
    assert check_rate(value, "dropout") == value


@pytest.mark.parametrize("value", [1, 1.0, -0.1, float("nan"), "0.5", None, True, False, [0.5], 0.5j, torch.ones(2)])
def test_refuses_others(value: Any) -> None:
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
