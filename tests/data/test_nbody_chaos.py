import importlib
from pathlib import Path

import numpy as np
import pytest

from probsym.data import nbody_chaos
from probsym.data.nbody import Start, published_start, simulate
from probsym.data.nbody_chaos import FAR, NUDGE, moved, nudged

MODULE = importlib.import_module("probsym.data.nbody")  # not the function, which the package calls by the same name


def start_of(*positions: list[list[float]]) -> Start:
    """Systems of two particles at rest that attract each other."""
    x = np.array(positions).transpose(0, 2, 1)
    charges = np.tile([1.0, -1.0], (len(x), 1))
    return Start(charges, x, np.zeros_like(x))


def test_beginnings_are_a_tiny_bit_further_out() -> None:
    start = published_start(3)
    other = nudged(start)
    assert np.allclose(other.positions / start.positions - 1, NUDGE, rtol=1e-5, atol=0)
    assert (other.velocities == start.velocities).all()
    assert (other.charges == start.charges).all()


def test_a_system_is_chaotic_if_one_coordinate_moves_far() -> None:
    target = np.zeros((3, 3, 5))
    other = target.copy()
    other[1, 2, 4], other[2, 0, 0] = -2 * FAR, 0.5 * FAR
    assert moved(target, other).tolist() == [False, True, False]


def test_a_collision_is_chaotic_and_a_distant_pair_is_not() -> None:
    near, far = [[0.0, 0.0, 0.0], [0.9, 0.01, 0.0]], [[-3.0, 0.0, 0.0], [3.0, 0.5, 0.0]]
    start = start_of(near, far)
    ends = [simulate(beginning, (40,))[40][0] for beginning in (start, nudged(start))]
    assert moved(*ends).tolist() == [True, False]


def test_every_system_of_every_part_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    monkeypatch.setattr(MODULE, "SIZES", {"train": 5, "valid": 3, "test": 4})
    monkeypatch.setattr(MODULE, "USED", {"train": 2, "valid": 3, "test": 4})
    told: list[tuple[int, int]] = []
    chaotic = nbody_chaos(lambda done, total, _: told.append((done, total)))
    assert {name: flags.shape for name, flags in chaotic.items()} == {"train": (2,), "valid": (3,), "test": (4,)}
    assert told[-1] == (18, 18)
    whole = published_start(12)
    ends = [simulate(beginning, (40,))[40][0] for beginning in (whole, nudged(whole))]
    wanted = moved(*ends)
    assert np.concatenate([flags.numpy() for flags in chaotic.values()]).tolist() == [*wanted[:2], *wanted[5:]]
    assert (tmp_path / "nbody_charged5_chaos.npz").exists()
    told.clear()
    nbody_chaos(lambda done, total, _: told.append((done, total)))
    assert not told
