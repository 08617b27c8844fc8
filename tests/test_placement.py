"""Averages brought back to where the inputs are."""

import torch

from probsym import groups
from probsym.estimate import Average
from probsym.placement import Placement
from probsym.samplers import Batch
from probsym.samplers.haar import Haar
from probsym.signature import Signature

MASK = torch.tensor([[True, True, False, True]])


def outline(text: str, x: torch.Tensor) -> Batch:
    return Batch.outline(Signature.parse(text, {"d": groups.E(3)}), [x], {"m": MASK})


def averaged(batch: Batch, value: torch.Tensor) -> Average:
    average = Average(statistics=False)
    draw = Haar()(batch, Haar().noise(batch, 2))
    average.add([torch.stack([value - 1, value + 1], 1)], draw)
    return average


def test_points_stand_about_the_centroid_and_vectors_do_not() -> None:
    x = torch.randn(1, 4, 3, dtype=torch.float64) + 5
    centre = x[:, MASK[0]].mean(1, keepdim=True)
    for text, shift in (("m d:point -> m d:point", centre), ("m d:point -> m d", 0)):
        given = outline(text, x)
        batch = given.ready()
        value = torch.randn(1, 4, 3, dtype=torch.float64) * MASK.unsqueeze(-1)
        wanted = (value + shift) * MASK.unsqueeze(-1)
        place = Placement(given, batch, None)
        torch.testing.assert_close(place.mean(averaged(batch, value))[MASK], wanted[MASK])
        torch.testing.assert_close(place.values([(value.unsqueeze(1),)])[:, 0][MASK], wanted[MASK])


def test_a_residual_is_added_as_it_was_given() -> None:
    x = torch.randn(1, 4, 3) + 1000
    given = outline("m d:point -> m d:point", x)
    place = Placement(given, given.ready(), 0)
    still = torch.zeros(1, 4, 3)
    values = place.values([(still.unsqueeze(1),)])[:, 0]
    assert torch.equal(values[MASK], x[MASK])
    assert not values[~MASK].any()
    assert torch.equal(place.mean(averaged(given.ready(), still))[MASK], x[MASK])
