"""Where the time of a prediction goes: to the sampler, to the base, or to what lies between."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import nn

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, test_set
from probsym.lab.engine import Engine
from probsym.symmetrized import Symmetrized

BATCH = 100


class Stopwatch:
    """The seconds that a module's calls take, one entry for each reading."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.device, self.spent = device, 0.0
        self.hooks = [module.register_forward_pre_hook(self._begin), module.register_forward_hook(self._end)]

    def now(self) -> float:
        """The time when all that was launched is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def read(self) -> float:
        """What was spent since the last reading."""
        found, self.spent = self.spent, 0.0
        return found

    def remove(self) -> None:
        """Leave the module as it was."""
        for hook in self.hooks:
            hook.remove()

    def _begin(self, *_: Any) -> None:
        self.start = self.now()

    def _end(self, *_: Any) -> None:
        self.spent += self.now() - self.start


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
    watches = {"sampler": Stopwatch(model.sampler, engine.device), "base": Stopwatch(model.base, engine.device)}
    watches["whole"] = Stopwatch(model, engine.device)
    spans: dict[str, list[float]] = {name: [] for name in watches}
    try:
        for repeat in range(questions.repeats + 1):  # the first time does not count
            with torch.no_grad():
                model(*few.inputs, **few.keywords, samples=samples)
            found = {name: watch.read() for name, watch in watches.items()}
            if repeat:
                for name, span in found.items():
                    spans[name].append(span)
            show(repeat, questions.repeats, "")
    finally:
        for watch in watches.values():
            watch.remove()
    times = {name: 1e3 * statistics.median(one) for name, one in spans.items()}
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
