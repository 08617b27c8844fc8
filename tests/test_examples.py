"""The examples run, learn what they say, and their models are equivariant: each asserts that itself."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.slow
def test_own_module() -> None:
    assert runpy.run_path(str(EXAMPLES / "own_module.py"))["main"](300) < 0.5


@pytest.mark.slow
def test_point_cloud() -> None:
    assert runpy.run_path(str(EXAMPLES / "point_cloud.py"))["main"](150) < 0.3
