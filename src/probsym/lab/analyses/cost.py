"""Where the time of a prediction goes: to the sampler, to the base, or to what lies between."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, test_set
from probsym.lab.engine import Engine
from probsym.symmetrized import Symmetrized

BATCH = 100


@contextmanager
def timed(modules: Mapping[str, nn.Module], device: torch.device) -> Iterator[dict[str, float]]:
    """The seconds that the calls of modules take meanwhile, by name."""
    spent, began = dict.fromkeys(modules, 0.0), dict[str, float]()

    def now() -> float:
        """The time when all that was launched is done."""
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    def begin(name: str, *_: Any) -> None:
        began[name] = now()

    def end(name: str, *_: Any) -> None:
        spent[name] += now() - began[name]

    hooks = [module.register_forward_pre_hook(partial(begin, name)) for name, module in modules.items()]
    hooks += [module.register_forward_hook(partial(end, name)) for name, module in modules.items()]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()


def by_stage(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each stage of an evaluation of up to 100 examples: median milliseconds, and the share of the whole.

    What is neither sampler nor base is drawing random numbers, moving tensors and averaging. Launched from Python.
    """
    model = engine.model
    if not isinstance(model, Symmetrized) or not isinstance(model.base, nn.Module):
        raise RunError(f"Expected a symmetrized module (got {type(model).__name__})")
    stored, count, _ = test_set(engine, questions)
    few = stored.take(slice(0, min(count, BATCH)))
    samples = questions.samples if engine.draws else None
    model.eval()
    modules = {"sampler": model.sampler, "base": model.base, "whole": model}
    spans = []
    for repeat in range(questions.repeats + 1):  # the first time does not count
        with torch.no_grad(), timed(modules, engine.device) as spent:
            model(*few.inputs, **few.keywords, samples=samples)
        spans += [spent] if repeat else []
        show(repeat, questions.repeats, "")
    times = {name: 1e3 * statistics.median(spent[name] for spent in spans) for name in modules}
    times = {**times, "between": times["whole"] - times["sampler"] - times["base"]}
    return [
        {
            "stage": name,
            "examples": few.size,
            "draws": samples,
            "ms": times[name],
            "share": times[name] / times["whole"],
        }
        for name in ("sampler", "base", "between", "whole")
    ]
