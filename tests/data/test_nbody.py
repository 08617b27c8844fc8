import importlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from probsym.data import files, nbody
from probsym.data.nbody import FRAMES, USED, Floats, Start, forces, published_start, simulate

MODULE = importlib.import_module("probsym.data.nbody")
DATA = Path(os.environ.get("PROBSYM_DATA", ""), "nbody_charged5_initvel1small.npz")
real = pytest.mark.skipif(not DATA.is_file(), reason="needs PROBSYM_DATA")


def literal_force(x: Floats, charges: Floats, i: int) -> Floats:
    total = np.zeros(3)
    for j in range(len(charges)):
        if j != i:
            gap = x[:, i] - x[:, j]
            total += charges[i] * charges[j] * gap / np.sqrt((gap**2).sum()) ** 3
    return total.clip(-100, 100)


def test_forces_are_those_of_the_formula() -> None:
    random = np.random.RandomState(0)
    x, charges = random.randn(4, 3, 6), random.choice([-1.0, 1.0], size=(4, 6))
    force = forces(x, charges[:, :, None] * charges[:, None, :])
    for b in range(4):
        for i in range(6):
            np.testing.assert_allclose(force[b, :, i], literal_force(x[b], charges[b], i), rtol=1e-9, atol=1e-9)


def test_forces_are_clipped_part_by_part() -> None:
    x = np.array([[[0.0, 1e-3], [0.0, 1e-9], [0.0, 0.0]]])
    force = forces(x, np.ones((1, 2, 2)))
    assert force[0, 0].tolist() == [-100, 100]
    assert abs(force[0, 1, 0]) <= 100
    assert force[0, 2].tolist() == [0, 0]


def test_particles_in_one_place_do_no_harm_to_others() -> None:
    x = np.array([[[0.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    force = forces(x, np.ones((1, 3, 3)))
    assert force[0, 0, 2] == pytest.approx(0.5)


def test_a_simulation_is_the_loop_over_steps() -> None:
    start = published_start(2, n=3)
    frames = simulate(start, (0, 1))
    for b in range(2):
        charges, x, v = (array[b].copy() for array in start)
        v += 1e-3 * np.stack([literal_force(x, charges, i) for i in range(3)], 1)
        for step in range(1, 201):
            x += 1e-3 * v
            if step % 100 == 0:
                np.testing.assert_allclose(frames[step // 100 - 1][0][b], x, rtol=1e-9)
                np.testing.assert_allclose(frames[step // 100 - 1][1][b], v, rtol=1e-9)
            v += 1e-3 * np.stack([literal_force(x, charges, i) for i in range(3)], 1)


def test_momentum_is_kept() -> None:
    start = published_start(50)
    velocities = simulate(start, (5,))[5][1]
    lost = np.abs(velocities.sum(-1) - start.velocities.sum(-1)).max(1)
    assert (lost < 1e-12).mean() > 0.8  # clipping a close encounter breaks it


def test_what_begins_outside_the_box_is_reflected_once() -> None:
    position = np.array([[[6.0, -7.0, 1.0], [0.0, 0.0, 5.0], [0.0, 3.0, 0.0]]])
    velocity = np.array([[[0.5, 0.5, 0.5], [0.1, 0.1, 0.1], [0.0, 0.0, 0.0]]])
    (x, v) = simulate(Start(np.zeros((1, 3)), position, velocity), (0,))[0]
    assert v[0, 0].tolist() == [-0.5, 0.5, 0.5]
    np.testing.assert_allclose(x[0, 0], [4 - 0.05, -3 + 0.05, 1.05])
    np.testing.assert_allclose(x[0, 1], [0.01, 0.01, 5.01])  # later ones are not


def test_chunks_change_nothing_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    start, told = published_start(7), list[tuple[int, int]]()
    whole = simulate(start, (0,))[0]
    monkeypatch.setattr(MODULE, "_CHUNK", 3)
    parts = simulate(start, (0,), lambda done, total, _: told.append((done, total)))[0]
    np.testing.assert_array_equal(whole[0], parts[0])
    assert told == [(3, 7), (6, 7), (7, 7)]


def test_beginnings_scale_with_the_number_of_particles() -> None:
    few, many = published_start(40, n=5), published_start(40, n=40)
    assert many.positions.std() / few.positions.std() == pytest.approx(2, rel=0.1)
    np.testing.assert_allclose(np.sqrt((many.velocities**2).sum(1)), 0.5)
    np.testing.assert_array_equal(published_start(3).positions, few.positions[:3])
    assert not np.array_equal(published_start(3, seed=1).positions, few.positions[:3])


@real
def test_charges_are_those_of_the_published_set() -> None:
    published, start = np.load(DATA), published_start(14_000)
    for name, first in (("train", 0), ("valid", 10_000), ("test", 12_000)):
        charges = start.charges[first : first + USED[name]]
        np.testing.assert_array_equal(published[f"{name}_charges"][..., 0], charges)
        np.testing.assert_array_equal(published[f"{name}_edges"], charges[:, :, None] * charges[:, None, :])


@real
def test_trajectories_are_those_of_the_published_set_but_for_close_encounters() -> None:
    published, start = np.load(DATA), published_start(200)
    frames = simulate(start)
    simulated = {"loc_30": frames[30][0], "vel_30": frames[30][1], "loc_40": frames[40][0]}
    worst = np.zeros(200)
    for name, array in simulated.items():
        off = np.abs(array.transpose(0, 2, 1) - published[f"train_{name}"][:200]).max((1, 2))
        assert np.median(off) < 1e-11
        worst = np.maximum(worst, off)
    assert (worst > 1e-9).mean() < 0.2
    nearest = np.full(200, np.inf)
    for x, _ in simulate(start, range(0, 41, 5)).values():
        gaps = np.linalg.norm(x[:, :, :, None] - x[:, :, None, :], axis=1) + 10 * np.eye(5)
        nearest = np.minimum(nearest, gaps.min((1, 2)))
    assert np.median(worst[nearest > np.quantile(nearest, 0.9)]) < 1e-11  # nothing is chaotic where they stay apart


def test_the_set_is_made_once_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    monkeypatch.setattr(MODULE, "SIZES", {"train": 6, "valid": 2, "test": 3})
    monkeypatch.setattr(MODULE, "USED", {"train": 4, "valid": 2, "test": 3})
    first = nbody()
    assert {name: tuple(part.position.shape) for name, part in first.items()} == {
        "train": (4, 5, 3),
        "valid": (2, 5, 3),
        "test": (3, 5, 3),
    }
    start = published_start(11)
    assert first["valid"].charges[:, :, 0].tolist() == start.charges[6:8].tolist()
    frames = simulate(start)
    np.testing.assert_array_equal(first["test"].position, frames[FRAMES[0]][0][8:].transpose(0, 2, 1))
    np.testing.assert_array_equal(first["test"].velocity, frames[FRAMES[0]][1][8:].transpose(0, 2, 1))
    np.testing.assert_array_equal(first["test"].target, frames[FRAMES[1]][0][8:].transpose(0, 2, 1))
    assert torch.equal(first["train"].edges, first["train"].charges @ first["train"].charges.mT)

    def refuse(*_: object) -> None:
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "simulate", refuse)
        again = nbody()
    assert all(torch.equal(*pair) for name in first for pair in zip(first[name], again[name], strict=True))
    path = tmp_path / "nbody_charged5.npz"
    arrays = files.load(path)
    arrays["test_target"] = arrays["test_target"] + 1
    files.save(path, arrays)
    assert torch.equal(nbody()["test"].target, first["test"].target)
