"""Every sampler, over every group, output and mask: coupled with its noise, and in distribution."""

import pytest
import torch

from probsym import testing
from probsym.testing.equivariance import ELEMENTS
from tests.symmetrized_cases import OURS, SAMPLERS, SETTINGS, applies, make_inputs, make_model, masks

CASES = [
    pytest.param(setting, sampler, masking, dtype, id=f"{setting}-{sampler}-{masking}-{dtype}")
    for setting in SETTINGS
    for sampler in SAMPLERS
    if applies(setting, sampler)
    for masking, dtype in masks(setting, sampler)
]
LAWS = [
    pytest.param(setting, sampler, masking, id=f"{setting}-{sampler}-{masking}")
    for setting, case in SETTINGS.items()
    for sampler in ("Haar", "Frame", "Frame draws", "FromHaar", "Energy", "Quadrature")
    if applies(setting, sampler)
    if sampler not in OURS or setting in ("E(3)", "O(2)")
    for masking in (("none", "holes") if case.maskable and sampler not in OURS else ("none",))
]


@pytest.mark.parametrize(("setting", "sampler", "masking", "dtype"), CASES)
def test_coupled(setting: str, sampler: str, masking: str, dtype: torch.dtype) -> None:
    case = SETTINGS[setting]
    generator = torch.Generator().manual_seed(1)
    inputs, mask = make_inputs(case, dtype, masking, generator, batch=ELEMENTS)  # each item by its own, all at once
    for output in case.outputs:
        model = make_model(case, output, sampler, dtype)
        report = testing.assert_equivariant(model, *inputs, mask=mask, generator=generator)
        assert report.unclear <= report.draws / 2


@pytest.mark.parametrize(("setting", "sampler", "masking"), LAWS)
def test_in_distribution(setting: str, sampler: str, masking: str) -> None:
    """Of one output, as all have the same law of elements, with enough draws to see a quarter of them stay."""
    case, generator = SETTINGS[setting], torch.Generator().manual_seed(2)
    inputs, mask = make_inputs(case, torch.float64, masking, generator)
    model = make_model(case, case.outputs[-1], sampler, torch.float64)
    report = testing.equivariance_gap(model, *inputs, mask=mask, samples=300, generator=generator, relabellings=1999)
    assert report.p_value > 5e-4  # of a hundred cases
