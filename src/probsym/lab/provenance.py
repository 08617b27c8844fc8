"""Where a number came from."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch


def provenance(device: torch.device) -> dict[str, Any]:
    """The command, commit, hardware, torch version and date of this run."""
    return {
        "command": _command(),
        "commit": os.environ.get("PROBSYM_COMMIT") or _git_commit(),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _command() -> str:
    """How to run this again; where the result went does not matter for that."""
    program = Path(sys.argv[0])
    words = ["probsym"] if program.name in ("probsym", "cli.py", "__main__.py") else ["python", sys.argv[0]]
    rest = iter(sys.argv[1:])
    for word in rest:
        if word in ("--out", "--results"):
            next(rest, None)
        elif not word.startswith(("--out=", "--results=")):
            words.append(word)
    return " ".join(words)


def _git_commit() -> str:
    """The commit of these files; unknown where they are installed inside a repository that is not theirs."""
    try:
        known = _git("ls-files", Path(__file__).name)
        return (known and _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")) or "unknown"
    except OSError:  # no git at all
        return "unknown"


def _git(*words: str) -> str:
    """What git prints, nothing if it refuses."""
    command = ["git", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    ).stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
