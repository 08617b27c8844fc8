import pytest
import torch
from torch.func import grad, vmap

from probsym.ops.transforms import calls_first, eagerly, fold_rows, hidden, needs_gradient, traced, transformed


def test_what_is_at_work() -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append((traced(), transformed(), hidden(x), needs_gradient(x)))
        return x.sum()

    x = torch.ones(2, 3)
    look(x)
    grad(look)(x)
    vmap(look)(x)
    vmap(grad(look))(x)
    grad(lambda x: vmap(look)(x).sum())(x)
    with torch.no_grad():
        look(x.clone().requires_grad_())
    assert seen == [
        (False, False, False, False),
        (True, True, False, True),
        (True, True, True, False),
        (True, True, True, True),
        (True, True, True, True),
        (False, False, False, False),
    ]


def test_exports_hide_what_comes_in() -> None:
    seen = []

    class Looks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((traced(), hidden(x)))
            return x + 1

    torch.export.export(Looks(), (torch.ones(2),))
    assert set(seen) == {(True, True)}


def test_rows_of_all_calls() -> None:
    x, y = torch.randn(2, 3, 4), torch.randn(3, 5)
    folded = fold_rows(4, (2, None, None), (x, y, "other"))
    torch.testing.assert_close(folded[0], torch.cat(list(x.unbind(2))))
    torch.testing.assert_close(folded[1], torch.cat([y] * 4))
    assert folded[2] == "other"
    assert calls_first(4, x, 2).shape == (4, 2, 3)
    assert calls_first(4, y, None).shape == (4, 3, 5)


@pytest.mark.filterwarnings("ignore")  # of the compiler, where a graph splits
def test_compiled_code_splits_around_what_looks_at_numbers() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def counted(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(module)
        return module.forward

    @eagerly
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[: int((x > 0).sum())]

    torch.compiler.reset()
    x = torch.tensor([1.0, 2.0, -1.0])
    output = torch.compile(lambda x: positive(x * 2) + 1, backend=counted)(x)
    assert output.tolist() == (positive(x * 2) + 1).tolist() == [3.0, 5.0]
    assert len(graphs) == 2
