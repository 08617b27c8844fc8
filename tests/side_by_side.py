"""Programs that are started side by side, as on several machines."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def finish(
    commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]], folder: Path = ROOT
) -> list[tuple[int, str, str]]:
    """Start programs side by side and wait for them: exit codes, and what they printed."""
    common = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**common, **more},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, more in zip(commands, environments, strict=True)
    ]
    try:
        printed = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *both) for process, both in zip(started, printed, strict=True)]
