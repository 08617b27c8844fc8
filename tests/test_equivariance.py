"""Every sampler, over every group, output and mask: coupled with its noise, and in distribution."""

import pytest
import torch

from probsym import testing
from tests.symmetrized_cases import MASKS, SAMPLERS, SETTINGS, applies, make_inputs, make_model

CASES = [
    pytest.param(setting, sampler, id=f"{setting}-{sampler}")
    for setting in SETTINGS
    for sampler in SAMPLERS
    if applies(setting, sampler)
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("masking", MASKS)
@pytest.mark.parametrize(("setting", "sampler"), CASES)
def test_coupled(setting: str, sampler: str, masking: str, dtype: torch.dtype) -> None:
    case = SETTINGS[setting]
    if masking != "none" and case.maskable is None:
        pytest.skip("no axis to mask")
    generator = torch.Generator().manual_seed(1)
    inputs, mask = make_inputs(case, dtype, masking, generator)
    for output in case.outputs:
        model = make_model(case, output, sampler, dtype)
        testing.assert_equivariant(model, *inputs, mask=mask, generator=generator)


@pytest.mark.parametrize("sampler", ["Haar", "Frame", "Frame draws", "FromHaar"])
@pytest.mark.parametrize("setting", ["S", "SO(3)", "E(3)", "S x O(3)", "S x SE(3)", "D(4)"])
def test_in_distribution(setting: str, sampler: str) -> None:
    if not applies(setting, sampler):
        pytest.skip("no such sampler for this group")
    case, generator = SETTINGS[setting], torch.Generator().manual_seed(2)
    inputs, mask = make_inputs(case, torch.float64, "none" if case.maskable is None else "holes", generator)
    model = make_model(case, case.outputs[1], sampler, torch.float64)
    assert testing.equivariance_gap(model, *inputs, mask=mask, generator=generator).p_value > 1e-3
