"""Gradients that cannot be differentiated again, and say so."""

from torch import Tensor

from probsym.ops.refused_gradient import refused_gradient


def differentiated_once(what: str, gradients: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a backward pass, as they are; where it is to be differentiated again, that is refused by name.

    `sources` are the tensors that it was made from.
    """
    message = (
        f"Expected {what} to be differentiated once (got a second derivative in the scores of a sort, which is "
        "not there; derivatives in the inputs, and then in the scores, are)"
    )
    return refused_gradient(message, tuple(gradient.detach() for gradient in gradients), *sources)
