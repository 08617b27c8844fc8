"""Every sampler, over every group, output and mask: coupled with its noise, and in distribution."""

import pytest
import torch

from probsym import testing
from tests.symmetrized_cases import MASKS, SAMPLERS, SETTINGS, applies, make_inputs, make_model

CASES = [
    pytest.param(setting, sampler, masking, id=f"{setting}-{sampler}-{masking}")
    for setting, case in SETTINGS.items()
    for sampler in SAMPLERS
    if applies(setting, sampler)
    for masking in (MASKS if case.maskable else MASKS[:1])
]
LAWS = [
    pytest.param(setting, sampler, id=f"{setting}-{sampler}")
    for setting in ("S", "SO(3)", "E(3)", "S x O(3)", "S x SE(3)", "D(4)", "C(4) on images")
    for sampler in ("Haar", "Frame", "Frame draws", "FromHaar")
    if applies(setting, sampler)
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("setting", "sampler", "masking"), CASES)
def test_coupled(setting: str, sampler: str, masking: str, dtype: torch.dtype) -> None:
    case = SETTINGS[setting]
    generator = torch.Generator().manual_seed(1)
    inputs, mask = make_inputs(case, dtype, masking, generator)
    for output in case.outputs:
        model = make_model(case, output, sampler, dtype)
        testing.assert_equivariant(model, *inputs, mask=mask, generator=generator)


@pytest.mark.parametrize(("setting", "sampler"), LAWS)
def test_in_distribution(setting: str, sampler: str) -> None:
    case, generator = SETTINGS[setting], torch.Generator().manual_seed(2)
    inputs, mask = make_inputs(case, torch.float64, "none" if case.maskable is None else "holes", generator)
    model = make_model(case, case.outputs[1], sampler, torch.float64)
    assert testing.equivariance_gap(model, *inputs, mask=mask, generator=generator).p_value > 1e-3
