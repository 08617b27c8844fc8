"""What every benchmark shares: side-by-side timing, and a result that says where it came from."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def side_by_side(runs: Mapping[str, Callable[[], object]], *, repeats: int, device: torch.device) -> dict[str, float]:
    """Median seconds of each run. The runs take turns, so that a busy spell of the machine falls on all of them.

    In its turn a run is called once to fetch its memory and then, unless it is slow, again and again for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            span = _seconds(run, 1, device)
            if span < 1:
                span = _seconds(run, max(1, min(50, int(0.1 / span))), device)
            times[name].append(span)
    return {name: statistics.median(spans) for name, spans in times.items()}


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """The run as a CUDA graph, where launching costs least; what it uses stays alive, since the graph reads it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(kept: Callable[[], object] = run) -> None:
        graph.replay()

    return replay


def kernel_times(run: Callable[[], object], device: torch.device, times: int = 5) -> list[dict[str, object]]:
    """Where a run spends its time: each kernel, or operation of a CPU, its calls and milliseconds a run."""
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiled:
        for _ in range(times):
            run()
        _wait(device)
    spent = {
        kernel: kernel.self_device_time_total if cuda else kernel.self_cpu_time_total
        for kernel in profiled.key_averages()
    }
    return [
        {"kernel": kernel.key, "calls": kernel.count / times, "ms": spent[kernel] / times / 1e3}
        for kernel in sorted(spent, key=lambda kernel: -spent[kernel])
    ]


def added_memory(run: Callable[[], object], device: torch.device) -> int:
    """Bytes that the run holds at most beside what was there before."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    before = _held("VmRSS")
    run()
    return _held("VmHWM") - before


def _held(what: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def _seconds(run: Callable[[], object], times: int, device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    for _ in range(times):
        run()
    _wait(device)
    return (time.perf_counter() - start) / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def finish(result: Mapping[str, Any], out: Path | None) -> None:
    """Print the result as the last line, and write it where asked; an existing file is never overwritten."""
    text = json.dumps(result)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("x") as file:
            file.write(json.dumps(result, indent=1) + "\n")
    print(text)
