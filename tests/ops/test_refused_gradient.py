import pytest
import torch

from probsym.errors import DerivativeError
from probsym.ops.refused_gradient import differentiated_once, refused_gradient


def test_only_a_gradient_that_the_sources_want_is_refused() -> None:
    x, source = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(3, requires_grad=True)
    y, z = refused_gradient("Expected this (got that)", (2 * x, 3 * x), source)
    assert (y.tolist(), z.tolist()) == ([2.0, 4.0], [3.0, 6.0])
    with pytest.raises(DerivativeError, match=r"^Expected this \(got that\)$"):
        y.sum().backward()
    assert torch.autograd.grad(y.sum() + z.sum(), x)[0].tolist() == [5.0, 5.0]
    (free,) = refused_gradient("", (2 * x,), source.detach())
    free.sum().backward()
    assert x.grad is not None
    with torch.no_grad():
        assert refused_gradient("", (x,), source)[0] is x


def test_values_pass_as_they_are_and_only_a_second_derivative_is_refused() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = differentiated_once("the gradient of this", (3 * x.detach(),), x)
    assert gradient.tolist() == [3.0, 6.0]
    with pytest.raises(DerivativeError, match=r"^Expected the gradient of this to be differentiated once \(got "):
        gradient.sum().backward()
    with torch.no_grad():
        assert not differentiated_once("this", (x,), x)[0].grad_fn
    assert differentiated_once("this", (x.detach(),), x.detach())[0].grad_fn is None
