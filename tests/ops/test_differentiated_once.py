import pytest
import torch

from probsym.errors import DerivativeError
from probsym.ops.differentiated_once import differentiated_once


def test_values_pass_as_they_are_and_only_a_second_derivative_is_refused() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = differentiated_once("the gradient of this", (3 * x.detach(),), x)
    assert gradient.tolist() == [3.0, 6.0]
    with pytest.raises(DerivativeError, match=r"^Expected the gradient of this to be differentiated once \(got "):
        gradient.sum().backward()
    with torch.no_grad():
        assert not differentiated_once("this", (x,), x)[0].grad_fn
    assert differentiated_once("this", (x.detach(),), x.detach())[0].grad_fn is None
