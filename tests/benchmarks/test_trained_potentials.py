"""That what is measured of trained potentials is what they do, and that pictures and tables show it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase import Atoms

from benchmarks import trained_potentials_chart as page
from benchmarks.trained_potentials import largest_force_error, measured, references, with_elements
from probsym import groups
from probsym.ase import ModelCalculator
from probsym.data import Molecules
from probsym.lab.recipes import acetylacetone as module
from probsym.lab.results import result_path
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import make_engine

NUMBERS = torch.tensor([6, 6, 6, 8, 6, 8, 6, *[1] * 8])


def molecules(count: int, seed: int) -> Molecules:
    x = torch.randn(count, len(NUMBERS), 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Molecules(NUMBERS.expand(count, -1), x, x[:, 0, 0] - 9000.0, torch.zeros_like(x))


SETS = {
    name: molecules(60 if name == "train_300k" else 4, seed) for seed, name in enumerate(("train_300k", *module.TESTS))
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "acetylacetone", lambda: (SETS, {1: -13.0, 6: -1000.0, 8: -2000.0}))
    monkeypatch.setattr(module, "AtomTransformer", partial(module.AtomTransformer, width=16, layers=1, heads=2))


def measured_of(method: str) -> dict[str, Any]:
    (recipe,) = (recipe for recipe in module.RECIPES if recipe.name.endswith(f"-{method}"))
    engine = make_engine(recipe, recipe.settings, make_fabric(Options("cpu")), seed=0)
    turns = groups.O(3).haar((3,), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return {"row": recipe.name, "seed": 0, "changed": {}, **measured(method, engine, 0, SETS, turns, 0.001)}


def test_what_is_measured_of_every_method(tmp_path: Path) -> None:
    runs = {method: measured_of(method) for method in module.CALLS}
    drawn = {"Haar, 1 draw": 1, "Haar, 8 draws": 8, "Haar, 32 draws": 32, "Quadrature(1)": 24, "Quadrature(3)": 48}
    learned = {"Learned, 1 draw": 1, "Learned, 8 draws": 8, "Learned, 32 draws": 32}
    wanted = {"augmented": {"bare": 1, **drawn}, "ga": drawn, "quadrature": drawn, "ps": learned}
    wanted |= {"fa": {"Frame": 8}, "canonical": {"Canonical": 1}}
    for method, run in runs.items():
        rows = run["elements"]
        assert {name: row["passes"] for name, row in rows.items()} == wanted[method]
        assert {row["conservative"] for row in rows.values()} == {method in ("augmented", "ga", "quadrature")}
        own = rows[run["own"]]
        assert next(iter(rows)) == run["own"]
        assert own["passes"] == module.CALLS[method]
        assert own["largest_force_error"] < 1e-6
        assert own["largest_mev"] >= 0
        for path in page.AXES:
            assert run["paths_mev"][path][int(SETS[f"test_{path}"].energy.argmin())] == 0
            assert len(set(run["paths_mev"][path])) == 4
    for method in ("fa", "canonical"):
        assert runs[method]["elements"][runs[method]["own"]]["spread_energy_mev"] < 1e-2  # float32
    spreads = [runs["augmented"]["elements"][name]["spread_energy_mev"] for name in ("bare", "Haar, 32 draws")]
    assert spreads[0] > 2 * spreads[1] > 0
    shown_on_the_page({"picoseconds": 0.001, "paths": references(SETS), "runs": list(runs.values())}, tmp_path)


def shown_on_the_page(result: dict[str, Any], folder: Path) -> None:
    for place, run in enumerate(result["runs"]):
        path = result_path(folder, run["row"], 0)
        path.parent.mkdir(parents=True)
        metrics = {name: 10.0 * place + i for i, name in enumerate(page.METRICS)}
        path.write_text(json.dumps({"metrics": metrics, "epochs": 7}))
        path.with_suffix(".csv").write_text(f"epoch,valid_loss\n1,\n2,{place + 2}\n8,{place + 1}\n")
    rows = page.tested(result, folder)
    assert [row.name for row in rows] == ["augmented", "augmented, Haar, 8 draws", *list(module.CALLS)[1:]]
    text = page.tables(result, folder)
    assert "| fa | 0 | 7 | 8 | 20.0 | 21.0 | 22.0 | 23.0 | 24.0 | 25.0 |\n" in text
    again = rows[1].metrics
    assert f"| augmented, Haar, 8 draws | 0 | 7 | 8 | {again['test_energy_300k']:.1f} |" in text
    assert text.count("| no |") == 5
    both = page.with_block(f"before\n{page.BEGIN}old\n{page.END}after\n", text)
    assert page.block_of(both) == text
    assert (both.startswith("before\n"), both.endswith("after\n")) == (True, True)
    first, second = page.paths_chart(result).axes
    assert len(first.lines) == len(second.lines) == 1 + len(module.CALLS)
    np.testing.assert_allclose(first.lines[0].get_ydata(), result["paths"]["dihedral"]["energy_mev"])
    (losses,) = page.curves_chart([*result["runs"], result["runs"][0]], folder).axes
    labels = [line.get_label() for line in losses.lines]
    assert labels[0] == "augmented"
    assert labels[1].startswith("_")  # another seed, which the legend does not name again
    assert labels[2:] == list(module.CALLS)[1:]
    np.testing.assert_allclose(losses.lines[2].get_xydata(), [[0.25, 3], [1, 2]])
    energies, forces = page.errors_chart(rows).axes
    assert [bar.get_height() for bar in energies.patches][2] == 10.0  # ga, after both with augmented data
    assert [bar.get_height() for bar in forces.patches][2] == 11.0


def test_forces_that_are_no_gradient_are_seen() -> None:
    (recipe,) = (recipe for recipe in module.RECIPES if recipe.name.endswith("-ga"))
    model = with_elements("ga", recipe.build(recipe.settings))["Haar, 1 draw"]
    atoms = Atoms(NUMBERS.numpy(), SETS["test_300k"].positions[0].numpy())
    fixed, redrawn = (ModelCalculator(model, module.one_hot, seed=seed) for seed in (0, None))
    assert largest_force_error(fixed, atoms) < 1e-6
    assert largest_force_error(redrawn, atoms) > 1e-2
