"""What is tested: a symmetrized model, or any other function with a signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym._internal.base_call import BaseCall, as_outputs, check_keys
from probsym._internal.callables import check_callable
from probsym.errors import SignatureError
from probsym.estimate import Estimate
from probsym.groups import Group
from probsym.ops import Order
from probsym.ops.edge_list import Input
from probsym.samplers.batch import without_padding, zero_padding
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Noise
from probsym.signature import Signature
from probsym.symmetrized import Mask, Symmetrized
from probsym.testing.moved import as_list


class Values(NamedTuple):
    """Outputs (B, K, ...), which of the draws (B, K) rounding may decide, and the weights (B, K), if there are any."""

    outputs: list[Tensor]
    unclear: Tensor
    weights: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A function, how it is to transform and how it is called; `model` is the function if it is a `Symmetrized`."""

    call: Callable[..., Any]
    signature: Signature
    form: BaseCall
    model: Symmetrized | None = None

    @staticmethod
    def of(
        model: Callable[..., Any],
        signature: str | None,
        groups: Mapping[str, Group] | None,
        output_keys: Sequence[str | int] | None = None,
        mask_argument: str | None = None,
    ) -> Subject:
        """A symmetrized model knows its signature; of anything else it must be told."""
        if isinstance(model, Symmetrized):
            if signature is not None or groups is not None:
                raise SignatureError("Expected no signature or groups for a Symmetrized, which has its own (got some)")
            if output_keys is not None or mask_argument is not None:
                raise SignatureError(
                    "Expected no output_keys or mask_argument for a Symmetrized, which has its own (got some)"
                )
            return Subject(model, model.signature, BaseCall.of(model, None, None), model)
        if signature is None or groups is None:
            raise SignatureError(
                f"Expected signature= and groups= for a model that is no Symmetrized (got a {type(model).__name__})"
            )
        check_callable(model, "the model")
        parsed = Signature.parse(signature, groups)
        return Subject(model, parsed, BaseCall.of(model, check_keys(output_keys, parsed.outputs), mask_argument))

    def values(
        self, inputs: Sequence[Input], mask: Mask | None, noise: Noise | None, index: Tensor | None = None
    ) -> Values:
        """Every draw of a symmetrized model, or the average where it lists elements; else the outputs as one draw."""
        if self.model is None:
            return _as_one_draw(self.outputs(inputs, mask))
        inputs = [x.detach() for x in inputs]
        estimate = self.model.estimate(*inputs, mask=mask, noise=noise, index=index, keep_values=True)
        if self.model.sampler.lists_elements:
            return _as_one_draw(as_list(estimate.mean))
        return Values(as_list(estimate.values), unclear_draws(self.signature, estimate), estimate.weights)

    def outputs(self, inputs: Sequence[Input], mask: Mask | None) -> list[Tensor]:
        """One call of what is no `Symmetrized`, which may return anything at padding: it is zero on the way in and out.

        Inputs are detached so that a model may call `requires_grad_` on them.
        """
        signature, masks = self.signature, self.signature.masks(mask)
        sizes = signature.check_inputs(inputs, mask)
        clean = [without_padding(x.detach(), term, masks) for x, term in zip(inputs, signature.inputs, strict=True)]
        masked = self.form.masked(mask) if mask is not None and self.form.takes_mask else {}
        outputs = as_outputs(self.call(*clean, **masked), self.form.output_keys, len(signature.outputs))
        signature.check_outputs(outputs, sizes, batch=inputs[0].shape[0])
        real = [zero_padding(y, term, masks) for y, term in zip(as_list(outputs), signature.outputs, strict=True)]
        return [y if y.is_floating_point() else y.double() for y in real]


def _as_one_draw(outputs: Sequence[Tensor]) -> Values:
    values = [y.unsqueeze(1) for y in outputs]
    return Values(values, torch.zeros(values[0].shape[:2], dtype=torch.bool, device=values[0].device))


def unclear_draws(signature: Signature, estimate: Estimate) -> Tensor:
    """The draws (B, K) of an estimate whose features name an element by no more than rounding."""
    return torch.cat([_unclear(signature, part) for part in estimate.chunks], 1)


def _unclear(signature: Signature, draw: Draw) -> Tensor:
    elements = next(iter(draw.elements.values()), None)
    if elements is None:
        return torch.zeros(1, draw.count, dtype=torch.bool)
    unclear = torch.zeros(elements.shape[:2], dtype=torch.bool, device=elements.device)
    for key, z in draw.features.items():
        carrier = draw.carriers[key]
        mask = carrier.mask if isinstance(carrier, Order) else None
        unclear |= signature.groups[key].linear.close_call(z.detach(), draw.elements[key], mask)
    return unclear
