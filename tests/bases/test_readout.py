import pytest
import torch

from probsym.bases import GCN, GINID
from probsym.bases.arrays import Array
from probsym.bases.readout import make_head, pooled, read_out
from probsym.errors import RangeError

HIDDEN = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4)
MASK = torch.tensor([[True, False, True], [False, False, False]])


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_pooled(how: str) -> None:
    first, count = HIDDEN[0, 0] + HIDDEN[0, 2], 2 if how == "mean" else 1
    assert torch.equal(pooled(HIDDEN, MASK, how), torch.stack([first / count, torch.zeros_like(first)]))
    assert torch.equal(pooled(HIDDEN, None, how), HIDDEN.sum(1) / (3 if how == "mean" else 1))


def test_padding_may_hold_anything() -> None:
    junk = torch.where(MASK.unsqueeze(-1), HIDDEN, torch.nan)
    assert torch.equal(pooled(junk, MASK), pooled(HIDDEN, MASK))


@pytest.mark.parametrize(
    ("order", "channels", "shape"), [(0, 5, (2, 5)), (1, 5, (2, 3, 5)), (0, None, (2,)), (1, None, (2, 3))]
)
def test_outputs_have_the_shape_of_their_array(order: int, channels: int | None, shape: tuple[int, ...]) -> None:
    output = Array(order, channels)
    head = make_head(4, output, "relu").double()
    actual = read_out(head, HIDDEN, MASK, output)
    assert tuple(actual.shape) == shape
    wanted = head(HIDDEN if order else pooled(HIDDEN, MASK))
    assert torch.equal(actual, wanted.view(shape))


def test_the_output_has_its_own_activation() -> None:
    assert make_head(4, Array(0, 5), "relu", "tanh")(torch.full((1, 4), 1e6)).abs().max() <= 1


@pytest.mark.parametrize("base", [GCN, GINID])
def test_bases_pool_as_they_are_told(base: type) -> None:
    more = {"n": 6} if base is GINID else {}
    x, a = torch.rand(2, 6, 3), torch.ones(2, 6, 6)
    torch.manual_seed(0)
    mean = base("n 3, n n -> 4", **more)
    torch.manual_seed(0)
    total = base("n 3, n n -> 4", pooling="sum", **more)
    total.load_state_dict(mean.state_dict())
    seen: list[torch.Tensor] = []
    for model in (mean.eval(), total.eval()):
        model.head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        model(x, a)
    assert torch.allclose(6 * seen[0], seen[1], rtol=1e-5)
    with pytest.raises(RangeError, match=r"^Expected pooling to be one of mean, sum \(got 'max'\)$"):
        base("n 3, n n -> 4", pooling="max", **more)
