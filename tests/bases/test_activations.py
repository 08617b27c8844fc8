import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from probsym.bases.activations import ACTIVATIONS, known_activation
from probsym.errors import RangeError


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "silu"])
def test_is_the_function_of_that_name(name: str) -> None:
    x = torch.linspace(-3, 3, 50, dtype=torch.float64)
    function = torch.tanh if name == "tanh" else getattr(functional, name)
    assert_close(known_activation(name)()(x), function(x))


def test_there_are_no_others() -> None:
    assert list(ACTIVATIONS) == ["relu", "tanh", "gelu", "silu"]


@pytest.mark.parametrize("name", ["swish", "", "ReLU", None, 3, torch.relu, ["relu"]])
def test_refuses_unknown_names(name: object) -> None:
    with pytest.raises(RangeError, match=r"^Expected activation to be one of relu, tanh, gelu, silu \(got "):
        known_activation(name)  # type: ignore[arg-type]


def test_names_the_argument() -> None:
    with pytest.raises(RangeError, match=r"^Expected last to be one of .*\(got 'swish'\)$"):
        known_activation("swish", "last")
