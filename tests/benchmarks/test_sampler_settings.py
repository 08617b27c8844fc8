"""That one setting is changed at a time, and that a short run learns something to report."""

import math

import pytest

from benchmarks import sampler_settings
from benchmarks.sampler_settings import CHANGES, USUAL, settings, trained


def test_one_setting_changes_at_a_time() -> None:
    found = settings()
    assert found[0] == USUAL
    changed = [[name for name in USUAL if one[name] != USUAL[name]] for one in found[1:]]
    assert [name for (name,) in changed] == [name for name, values in CHANGES.items() for _ in values]


def test_a_run_is_a_function_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NODES": 12, "BATCH": 4, "UNSEEN": 8}.items():
        monkeypatch.setattr(sampler_settings, name, value)
    one, same, other = (trained(10, seed, **USUAL) for seed in (0, 0, 1))
    assert one == same != other
    assert math.isfinite(one["loss"])
    assert 0 <= one["accuracy"] <= 100
