"""Reading JSON that anybody may have written."""

import json
from pathlib import Path
from typing import Any

from probsym.errors import ProbsymError, RunError


def read_json(path: Path, error: type[ProbsymError] = RunError) -> Any:
    """What a file of JSON holds; `error` is raised where it cannot be read."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise OSError("something else than a file")
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as reason:
        raise error(f"Expected {path} to be JSON (got: {reason})") from reason


def read_object(path: Path, error: type[ProbsymError] = RunError) -> dict[str, Any]:
    """An object from a file of JSON; an empty one if there is no such file."""
    if not path.is_file():
        return {}
    content = read_json(path, error)
    if not isinstance(content, dict):
        raise error(f"Expected {path} to hold an object (got {type(content).__name__})")
    return content
