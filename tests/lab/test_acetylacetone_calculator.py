"""Models of the recipes as calculators, on the molecules of `test_acetylacetone`."""

import pytest
from ase import Atoms

from probsym import Symmetrized, groups, samplers
from probsym.ase import ModelCalculator
from probsym.lab.recipes import acetylacetone as module
from probsym.lab.recipes.acetylacetone import CALLS
from tests.lab.test_acetylacetone import _made, engine_of, made  # noqa: F401
from tests.test_ase import assert_forces_are_gradients


def test_a_trained_model_is_a_calculator() -> None:
    engine = engine_of("ga")
    numbers, positions, *_ = made()[0]["test_300k"]
    calculator = ModelCalculator(engine.model, module.one_hot, engine.task.references)
    atoms = Atoms(numbers[0].numpy(), positions[0].numpy())
    energy = engine.model(*engine.data.test.take(slice(0, 1)).inputs, seed=0).detach()
    atoms_alone = sum(engine.task.references[int(number)] for number in numbers[0])
    assert calculator.get_property("energy", atoms) - atoms_alone == pytest.approx(float(energy), abs=1e-4)
    assert calculator.get_property("forces", atoms).dtype == "float64"


@pytest.mark.parametrize("method", CALLS)
def test_forces_are_gradients_and_claimed_to_be_conservative_where_elements_are_fixed(method: str) -> None:
    model = engine_of(method).model.double()
    if method == "augmented":
        still = samplers.Quadrature(0, random=False)
        model = Symmetrized(model.base, "n c, n d:point -> ", {"d": groups.SE(3)}, still)
    calculator = ModelCalculator(model, module.one_hot)
    assert calculator.conservative is (method in ("augmented", "ga", "quadrature"))
    numbers, positions, *_ = made()[0]["test_300k"]
    assert_forces_are_gradients(calculator, Atoms(numbers[0].numpy(), positions[0].numpy()))
