"""Inputs made ready: checked, padding zeroed, points about their centroid."""

import pytest
import torch

from probsym import Signature, Symmetrized, errors, groups
from probsym.samplers import Batch
from probsym.samplers.batch import translate, zero_padding

DTYPES = [torch.float64, torch.float32]


def prepare(text, bound, *inputs, mask=None, ids=None):
    return Batch.outline(Signature.parse(text, bound), inputs, mask, ids).ready()


@pytest.mark.parametrize("dtype", DTYPES)
def test_centroid_is_that_of_the_real_points_of_the_first_point_input(dtype):
    bound = {"d": groups.E(3)}
    v, x, y = (torch.randn(2, 4, 3, dtype=dtype) for _ in range(3))
    mask = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0]], dtype=torch.bool)
    x[~mask] = torch.nan
    batch = prepare("m d, m d:point, m d:point -> ", bound, v, x, y, mask={"m": mask})
    for b in range(2):
        centre = x[b][mask[b]].mean(0)
        torch.testing.assert_close(batch.centroids["d"][b], centre)
        torch.testing.assert_close(batch.inputs[1][b][mask[b]], x[b][mask[b]] - centre)
        torch.testing.assert_close(batch.inputs[2][b][mask[b]], y[b][mask[b]] - centre)
        assert torch.equal(batch.inputs[0][b][mask[b]], v[b][mask[b]])
    for tensor in batch.inputs:
        assert not tensor[~mask].any()


def test_centroid_over_several_axes_and_places():
    x = torch.randn(2, 3, 4, 5)
    mask = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    batch = prepare("d:point m k -> ", {"d": groups.SE(3)}, x, mask={"k": mask})
    for b in range(2):
        torch.testing.assert_close(batch.centroids["d"][b], x[b][..., mask[b]].mean((1, 2)))


def test_no_point_input_no_centroid():
    assert not prepare("m d -> ", {"d": groups.E(3)}, torch.ones(2, 4, 3)).centroids["d"].any()
    assert prepare("m d -> ", {"d": groups.O(3)}, torch.ones(2, 4, 3)).centroids == {}


def test_an_item_without_real_points_has_a_finite_centroid():
    batch = prepare(
        "n d:point -> ",
        {"n": groups.S(), "d": groups.E(2)},
        torch.full((1, 3, 2), torch.nan),
        mask=torch.zeros(1, 3, dtype=torch.bool),
    )
    assert not batch.centroids["d"].any()
    assert not batch.inputs[0].any()


def test_inputs_are_left_alone():
    x = torch.ones(2, 3, 2)
    mask = torch.tensor([[True, False, True]] * 2)
    batch = prepare("n d:point -> ", {"n": groups.S(), "d": groups.E(2)}, x, mask=mask)
    assert torch.equal(x, torch.ones(2, 3, 2))
    assert batch.inputs[0].data_ptr() != x.data_ptr()


def test_padding_is_zero_on_every_axis_that_has_the_name():
    a, mask = torch.full((2, 3, 3), torch.inf), torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=torch.bool)
    a[mask.unsqueeze(1) & mask.unsqueeze(2)] = 2
    batch = prepare("n n -> ", {"n": groups.S()}, a, mask=mask)
    assert torch.equal(batch.inputs[0], 2.0 * (mask.unsqueeze(1) & mask.unsqueeze(2)))


def test_zero_padding_with_draws():
    term = Signature.parse("n c -> n c", {"n": groups.S()}).inputs[0]
    mask = torch.tensor([[1, 0], [1, 1]], dtype=torch.bool)
    padded = zero_padding(torch.full((2, 5, 2, 3), torch.nan), term, {"n": mask})
    assert torch.equal(padded.isnan(), mask.view(2, 1, 2, 1).expand(2, 5, 2, 3))


def test_translate_moves_points_only():
    signature = Signature.parse("n d:point, n d -> ", {"n": groups.S(), "d": groups.E(2)})
    shift, mask = torch.tensor([[1.0, 2.0]]), torch.tensor([[True, False]])
    x = torch.zeros(1, 2, 2)
    assert translate(x, signature.inputs[0], "d", shift, {"n": mask}).tolist() == [[[1, 2], [0, 0]]]
    assert translate(x, signature.inputs[1], "d", shift, {"n": mask}) is x


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ([torch.zeros(1, 2, 1), torch.zeros(1, 2, 2)], torch.float32),
        ([torch.zeros(1, 2, 1).long(), torch.zeros(1, 2, 2).double()], torch.float64),
        ([torch.zeros(1, 2, 1).bfloat16(), torch.zeros(1, 2, 2).bool()], torch.float32),
        ([torch.zeros(1, 2, 1).long(), torch.zeros(1, 2, 2).long()], torch.float32),
    ],
)
def test_dtype_is_that_of_the_floating_inputs(inputs, wanted):
    batch = prepare("n c, n n -> ", {"n": groups.S()}, *inputs)
    assert batch.dtype == wanted
    assert len(batch) == 1
    assert [tensor.dtype for tensor in batch.inputs] == [tensor.dtype for tensor in inputs]


def test_packing_puts_real_items_first_in_the_order_they_have():
    mask = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.bool)
    batch = prepare("m d -> ", {"d": groups.O(2)}, torch.zeros(2, 4, 2), mask={"m": mask})
    assert batch.packing("m", 3).index[:, 2].tolist() == [[1, 3, 0, 2], [0, 1, 2, 3]]
    assert batch.mask_of("m").shape == (2, 1, 4)
    assert batch.mask_of("d") is None


@pytest.mark.parametrize(
    "ids",
    [
        torch.zeros(3, dtype=torch.long),
        torch.zeros(2),
        torch.zeros(2, 1, dtype=torch.long),
        torch.zeros((), dtype=torch.long),
    ],
)
def test_refuses_ids(ids):
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()})
    with pytest.raises(errors.ShapeError, match=r"Expected index to be integers of shape \(2,\) \(got \(.*\), torch"):
        model(torch.zeros(2, 3, 1), index=ids)


def test_refuses_ids_that_are_no_tensor():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()})
    with pytest.raises(errors.ProbsymError, match=r"Expected index .*\(got .*list"):
        model(torch.zeros(2, 3, 1), index=[0, 1])


@pytest.mark.parametrize(
    ("inputs", "mask", "error", "message"),
    [
        ([torch.zeros(2, 3)], None, errors.ShapeError, r"to have 3 axes, batch first \(got shape \(2, 3\)\)"),
        ([], None, errors.ShapeError, r"Expected 1 inputs: 'n c' \(got 0\)"),
        ([torch.zeros(2, 3, 1)] * 2, None, errors.ShapeError, r"Expected 1 inputs: 'n c' \(got 2\)"),
        (["x"], None, errors.DtypeError, r"to be a tensor \(got str\)"),
        ([torch.zeros(2, 3, 1)], torch.ones(2, 3), errors.MaskError, r"to be boolean \(got torch.float32\)"),
        ([torch.zeros(2, 3, 1)], torch.ones(2, 4).bool(), errors.MaskError, r"shape \(2, 3\) \(got \(2, 4\)\)"),
        ([torch.zeros(2, 3, 1)], {"k": torch.ones(2, 3).bool()}, errors.MaskError, r"\['n', 'c'\] \(got 'k'\)"),
    ],
)
def test_refuses_inputs(inputs, mask, error, message):
    with pytest.raises(error, match=message):
        prepare("n c -> ", {"n": groups.S()}, *inputs, mask=mask)
