import pytest
import torch

from probsym.data import Rows
from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError

LISTS = [torch.tensor([[1, 2], [3, 4]]), torch.zeros(0, 2, dtype=torch.int64), torch.tensor([[5, 6]])]


def test_lists_come_back_one_by_one_and_padded() -> None:
    rows = Rows.join(LISTS)
    assert len(rows) == 3
    assert rows.sizes.tolist() == [2, 0, 1]
    for i, wanted in enumerate(LISTS):
        assert torch.equal(rows.take(torch.tensor([i])).values, wanted)
        padded, real = rows.padded(torch.tensor([i]))
        assert torch.equal(padded[real], wanted)
        assert padded.shape == (1, 2, 2)
        assert padded[~real].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool, torch.float32, torch.float64], ids=str)
def test_values_keep_their_dtype(dtype: torch.dtype) -> None:
    padded, _ = Rows.join([rows.to(dtype) for rows in LISTS], most=4).padded(torch.tensor([2, 0]))
    assert padded.dtype == dtype
    assert padded.shape == (2, 4, 2)


def test_a_slice_is_the_same_as_its_numbers_and_shares_memory() -> None:
    rows = Rows.join(LISTS)
    for index in (slice(0, 2), slice(1, 3), slice(2, 1), slice(None), slice(None, None, -2), slice(-1, None)):
        some, same = rows.take(index), rows.take(torch.arange(3)[[*range(3)[index]]])
        assert torch.equal(some.values, same.values)
        assert torch.equal(some.starts, same.starts)
        assert some.most == same.most == 2
    assert rows.take(slice(2, 3)).values.data_ptr() == rows.values[2:].data_ptr()


def test_a_set_of_empty_lists_can_be_padded() -> None:
    padded, real = Rows.join(LISTS[1:2], most=3).padded(torch.tensor([0, 0]))
    assert padded.tolist() == [[[0, 0]] * 3] * 2
    assert not real.any()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"int64 \(lists \+ 1,\)"):
        Rows(torch.zeros(2), torch.tensor([0, 2], dtype=torch.int32), 2)
    with pytest.raises(ShapeError, match="have rows"):
        Rows(torch.tensor(1.0), torch.tensor([0]), 0)
    with pytest.raises(DeviceError, match="like values"):
        Rows(torch.zeros(2, device="meta"), torch.tensor([0, 2]), 2)
    with pytest.raises(RangeError, match="rise from 0 to 2"):
        Rows(torch.zeros(2), torch.tensor([0, 2, 1, 2]), 2)
    with pytest.raises(RangeError, match="most to be 0 or more"):
        Rows(torch.zeros(0), torch.tensor([0]), -1)
    with pytest.raises(DtypeError, match="got list"):
        Rows.join(LISTS).padded([0])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="index to be on cpu"):
        Rows.join(LISTS).padded(torch.zeros(1, dtype=torch.int64, device="meta"))
