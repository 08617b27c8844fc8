import pytest
import torch

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError
from probsym.ops import descending, invert, take
from probsym.ops.permute import _index, _opaque_argsort


def permutations(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, generator=generator).argsort(-1)


def literal_take(x: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
    batch = index.shape[:-1]
    x = x.expand(*batch, *x.shape[len(batch) :])
    y = torch.empty_like(x)
    for place in torch.cartesian_prod(*(torch.arange(size) for size in batch)).view(-1, len(batch)):
        item = tuple(place.tolist())
        y[item] = x[item].index_select(axis - len(batch), index[item])
    return y


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 3, 5), 2),
        ((2, 1, 5), 2),
        ((1, 1, 5, 4), 2),
        ((2, 1, 4, 5), 3),
        ((2, 3, 4, 5, 2), 3),
        ((1, 3, 5, 5), 2),
        ((2, 1, 5, 1, 1), 2),
        ((2, 1, 4, 5, 0), 3),
    ],
)
def test_take_is_indexing_draw_by_draw(shape: tuple[int, ...], axis: int) -> None:
    index, x = permutations(2, 3, 5), torch.randn(shape)
    wanted = literal_take(x, index, axis)
    assert torch.equal(take(x, index, axis), wanted)
    assert torch.equal(take(x, index, axis - x.dim()), wanted)
    strided = x.transpose(0, -1).contiguous().transpose(0, -1)
    assert torch.equal(take(strided, index, axis), wanted)


def test_take_without_batch_axes() -> None:
    assert torch.equal(take(torch.arange(4), torch.tensor([2, 0, 3, 1])), torch.tensor([2, 0, 3, 1]))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((2, 1, 4, 3), 2), ((2, 3, 3, 4), 3), ((1, 1, 4), 2)])
def test_take_has_the_right_first_and_second_derivatives(shape: tuple[int, ...], axis: int, masked: bool) -> None:
    index = permutations(2, 3, 4)
    keep = torch.rand(2, 1, 4, generator=torch.Generator().manual_seed(0)) < 0.6 if masked else None
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: take(t, index, axis, keep), x)
    assert torch.autograd.gradgradcheck(lambda t: take(t, index, axis, keep).square(), x)


def test_take_reads_what_is_not_kept_as_zero() -> None:
    keep = torch.tensor([[True, True, False], [True, True, True]])
    x = torch.full((2, 3, 2), float("nan"))
    x[0, :2] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = take(x, torch.tensor([[0, 2, 1], [0, 1, 2]]), 1, keep)
    assert torch.equal(y[0], torch.tensor([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]]))
    assert y[1].isnan().all()
    shared = take(torch.ones(1, 3), torch.tensor([[0, 2, 1], [0, 1, 2]]), 1, keep)
    assert torch.equal(shared, torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]))


def test_invert_undoes() -> None:
    index = permutations(4, 3, 9)
    identity = torch.arange(9).expand(4, 3, 9)
    assert torch.equal(index.gather(-1, invert(index)), identity)
    assert torch.equal(invert(index).gather(-1, index), identity)


@pytest.mark.parametrize("seed", range(5))
def test_descending_is_a_lexicographic_sort_with_padding_last(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 3, (6, 12), generator=generator).double()
    ties = torch.randint(0, 2, (6, 12), generator=generator).double()
    mask = torch.rand(6, 12, generator=generator) < 0.6
    for with_ties in (False, True):
        for with_mask in (False, True):
            order = descending(scores, mask if with_mask else None, ties if with_ties else None)
            for row in range(6):

                def key(place: int, row: int = row, ties_too: bool = with_ties, mask_too: bool = with_mask) -> tuple:
                    if mask_too and not mask[row, place]:
                        return (1, 0.0, 0.0, place)
                    return (0, -scores[row, place].item(), -ties[row, place].item() if ties_too else 0.0, place)

                assert order[row].tolist() == sorted(range(12), key=key)


def test_descending_puts_padding_last_whatever_the_scores() -> None:
    scores = torch.tensor([-torch.inf, 1.0, torch.nan, torch.inf, -torch.inf])
    mask = torch.tensor([True, False, False, False, True])
    assert descending(scores, mask).tolist() == [0, 4, 1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_of_both_signs_tie(dtype: torch.dtype) -> None:
    zeros = torch.tensor([-0.0, 0.0, -0.0, 1.0, 0.0], dtype=dtype)
    assert descending(zeros).tolist() == [3, 0, 1, 2, 4]
    assert descending(zeros, ties=torch.arange(5.0, dtype=dtype)).tolist() == [3, 4, 2, 1, 0]
    assert descending(torch.zeros(5, dtype=dtype), ties=zeros).tolist() == [3, 0, 1, 2, 4]


def test_refusals() -> None:
    with pytest.raises(DtypeError, match=r"Expected a permutation to be an int64 index \(got torch.float32\)"):
        take(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ShapeError, match=r"Expected size 4 on axis 0 \(got 3\)"):
        take(torch.zeros(3), torch.arange(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sort_for_compilers(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, ties = torch.randint(4, (2, 4, 3, 9), generator=generator).to(dtype)
    for function in (_opaque_argsort, torch.compile(_opaque_argsort, backend="aot_eager", fullgraph=True)):
        assert torch.equal(function(scores, None), descending(scores))
        assert torch.equal(function(scores, ties), descending(scores, ties=ties))
    for place in (0, 1):
        mapped = torch.vmap(_opaque_argsort, in_dims=(place, None))(scores, None)
        assert torch.equal(mapped, torch.stack([descending(part) for part in scores.unbind(place)]))
        both = torch.vmap(_opaque_argsort, in_dims=(place, 1 - place))(scores[:3], ties[:3])
        pairs = zip(scores[:3].unbind(place), ties[:3].unbind(1 - place), strict=True)
        assert torch.equal(both, torch.stack([descending(part, ties=part_ties) for part, part_ties in pairs]))
    mapped = torch.vmap(_opaque_argsort, in_dims=(None, 0))(scores[0], ties)
    assert torch.equal(mapped, torch.stack([descending(scores[0], ties=part_ties) for part_ties in ties]))
    torch.library.opcheck(_opaque_argsort, (scores, None))
    torch.library.opcheck(_opaque_argsort, (scores, ties))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 2, 5), 2),
        ((3, 1, 5, 4), 2),
        ((3, 2, 5, 5), (2, 3)),
        ((1, 2, 5, 5, 3), (3, 2)),
        ((0, 2, 5, 5), (2, 3)),
        ((3, 0, 5), 2),
    ],
)
def test_moves_for_compilers_are_the_same(shape: tuple[int, ...], axes: int | tuple[int, int], compiled: bool) -> None:
    """Shared by draws or examples or not, and of none."""
    torch.manual_seed(0)
    index = torch.rand(*(0 if size == 0 else whole for size, whole in zip(shape, (3, 2), strict=False)), 5).argsort(-1)
    x = torch.rand(shape)
    function = torch.compile(_index, backend="aot_eager", fullgraph=True) if compiled else _index
    assert torch.equal(function(x, index, 1 if axes == 2 else 2), take(x, index, axes))


@pytest.mark.parametrize("index", [[0, 0, 1], [0, 1, 3], [0, -1, 1], [[0, 1, 2], [2, 1, 2]]])
def test_what_is_no_permutation_is_refused(index: list[int]) -> None:
    for act in (lambda p: take(torch.ones(3).expand(p.shape), p), invert):
        with pytest.raises(RangeError, match="Expected a permutation"):
            act(torch.tensor(index))


def test_masks_and_ties_on_another_device_are_refused() -> None:
    for name in ("mask", "ties"):
        other = torch.ones(3, dtype=torch.bool if name == "mask" else torch.float32, device="meta")
        with pytest.raises(DeviceError, match=rf"Expected {name} to be on cpu like the scores \(got meta\)"):
            descending(torch.rand(3), **{name: other})


def test_sorting_inside_function_transforms() -> None:
    scores = torch.tensor([0.3, 0.9, 0.1])
    assert torch.func.grad(lambda z: (z * descending(z)).sum())(scores).tolist() == [1.0, 0.0, 2.0]
