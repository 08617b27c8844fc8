"""Arguments of a model that can be served, but are hardly what was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from probsym._internal.callables import hidden_modules
from probsym.signature import Signature

if TYPE_CHECKING:
    from probsym.samplers.base import Sampler


def doubts(
    base: Callable[..., Any], signature: Signature, sampler: Sampler, samples: int, eval_samples: int | None
) -> Iterator[str]:
    """What to warn of when a model is made of these."""
    if hidden := hidden_modules(base):
        yield (
            f"Expected base to be a module, so that what is in it is trained and saved with the model (got a "
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
