"""What every benchmark shares: side-by-side timing, and a result that says where it came from."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch


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
    """The run as a CUDA graph, where launching costs least."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


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


def provenance(device: torch.device) -> dict[str, Any]:
    """The command, commit, hardware, torch version and date of this run."""
    return {
        "command": _command(),
        "commit": os.environ.get("PROBSYM_COMMIT") or _git_commit(),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _command() -> str:
    """How to run this again; where the result went does not matter for that."""
    words = ["python", *sys.argv]
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    return " ".join(words)


def _git_commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def finish(result: Mapping[str, Any], out: Path | None) -> None:
    """Print the result as the last line, and write it where asked; an existing file is never overwritten."""
    text = json.dumps(result)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("x") as file:
            file.write(json.dumps(result, indent=1) + "\n")
    print(text)
