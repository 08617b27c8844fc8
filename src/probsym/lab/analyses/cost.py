"""Where the time of a prediction goes: to the sampler, to moving tensors, or to the base."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, test_set
from probsym.lab.engine import Engine
from probsym.lab.progress import Show
from probsym.symmetrized import Symmetrized

BATCH = 100


def by_stage(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each stage of an evaluation of up to 100 examples: median milliseconds, and the share of the whole.

    The stages are timed one by one, launched from Python; what is left over is averaging.
    """
    model = engine.model
    if not isinstance(model, Symmetrized):
        raise RunError(f"Expected a symmetrized model (got {type(model).__name__})")
    whole, count, _ = test_set(engine, questions)
    examples = whole.take(slice(0, min(count, BATCH)))
    samples = questions.samples if engine.draws else None
    model.eval()
    batch = model._batch(examples.inputs, examples.mask, examples.ids)
    options: dict[str, Any] = {"mask": examples.mask, "index": examples.ids}
    with torch.no_grad():
        noise = model.noise(*examples.inputs, **options, samples=samples)
        draw = model.sampler(batch, noise)
        rows = len(batch) * draw.count
        folded = [x.reshape(rows, *x.shape[2:]) for x in draw.undo(batch)]
        masks = [one.reshape(rows, -1) for one in draw.masks(batch).values()]
        seen = {"mask": masks[0]} if masks and model._base_takes_mask else {}
        found = model.base(*folded, **seen)
        outputs = [y.unflatten(0, (len(batch), draw.count)) for y in (found if isinstance(found, tuple) else (found,))]
        stages: dict[str, Callable[[], object]] = {
            "random numbers": lambda: model.noise(*examples.inputs, **options, samples=samples),
            "sampler": lambda: model.sampler(batch, noise),
            "to the base": lambda: draw.undo(batch),
            "base": lambda: model.base(*folded, **seen),
            "back": lambda: draw.apply(batch, outputs),
            "whole": lambda: model(*examples.inputs, **options, samples=samples),
        }
        spans: dict[str, list[float]] = {name: [] for name in stages}
        for repeat in range(questions.repeats + 1):  # the first time does not count
            for name, stage in stages.items():
                span = _seconds(stage, engine.device)
                if repeat:
                    spans[name].append(span)
            show(repeat, questions.repeats, "")
    times = {name: 1e3 * statistics.median(one) for name, one in spans.items()}
    return [
        {"stage": name, "examples": len(batch), "draws": draw.count, "ms": span, "share": span / times["whole"]}
        for name, span in times.items()
    ]


def _seconds(stage: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    stage()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
