"""That one setting is changed at a time, and that a short run learns something to report."""

import math

import pytest

from benchmarks import sampler_settings
from benchmarks.sampler_settings import CHANGES, USUAL, settings, trained


def test_one_setting_changes_at_a_time() -> None:
    variants = settings()
    assert variants[0] == USUAL
    changed = [[name for name in USUAL if variant[name] != USUAL[name]] for variant in variants[1:]]
    assert [name for (name,) in changed] == [name for name, values in CHANGES.items() for _ in values]


def test_a_run_is_a_function_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NODES": 12, "BATCH": 4, "UNSEEN": 8}.items():
        monkeypatch.setattr(sampler_settings, name, value)
    first, same, second = (trained(10, seed, **USUAL) for seed in (0, 0, 1))
    assert first == same != second
    assert math.isfinite(first["loss"])
    assert 0 <= first["accuracy"] <= 100
