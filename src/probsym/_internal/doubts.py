"""Arguments of a model that can be served, but are hardly what was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from probsym._internal.callables import hidden_modules, is_plain_function
from probsym.signature import Signature

if TYPE_CHECKING:
    from probsym.samplers.base import Sampler


def doubts(
    base: Callable[..., Any], signature: Signature, sampler: Sampler, samples: int, eval_samples: int | None
) -> Iterator[str]:
    """What to warn of when a model is made of these."""
    held = [parameter for part in (base, sampler) if isinstance(part, nn.Module) for parameter in part.parameters()]
    for name, function in (("base", base), *_functions(sampler)):
        if hidden := hidden_modules(function, held):
            yield (
                f"Expected {name} to be a module, so that what is in it is trained and saved with the model (got a "
                f"function around {', '.join(hidden)})"
            )
    if max(samples, eval_samples or 1) > 1 and not sampler.uses_samples(signature):
        yield (
            f"Expected neither samples nor eval_samples for {type(sampler).__name__}, which lists its elements by "
            f"itself (got {samples} and {eval_samples}, which change nothing)"
        )
    points = {axis.key for term in signature.inputs for axis in term.axes if axis.kind == "point"}
    for key, group in signature.groups.items():
        if "point" in group.kinds and key not in points:
            yield (
                f"Expected an input with '{key}:point' for {group!r} to translate: write '{key}:point' for positions, "
                f"or bind {key!r} to {group.linear!r} if there are none (got '{signature}', where it acts as that)"
            )


def _functions(sampler: Sampler) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that a sampler or a net in it was given, such as an energy."""
    for module in sampler.modules():
        for name, value in vars(module).items():
            if is_plain_function(value):
                yield f"{name} of {type(module).__name__}", value
