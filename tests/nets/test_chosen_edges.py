import pytest
import torch
from torch.testing import assert_close

from probsym.nets import chosen_edges, row_blocks
from probsym.nets.edge_convolution import EdgeConvolution


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def dense(layer, x, mask, scalars, monkeypatch):
    """The form for compilers, which has every edge in memory."""
    with monkeypatch.context() as patch:
        for module in ("edge_convolution", "vector_neurons"):
            patch.setattr(f"probsym.nets.{module}.in_blocks", lambda x: False)
        return layer(x, mask, scalars)


def symmetric(rows, dtype):
    """Sets in which distances and products tie: cubes, each turned in its own way."""
    cube = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=dtype)] * 3)
    turns = torch.linalg.qr(normal(rows, 3, 3, dtype=dtype)).Q
    return (cube @ turns).permute(2, 0, 1).unsqueeze(-1)


@pytest.mark.parametrize("with_scalars", [True, False])
@pytest.mark.parametrize("numbers", [1, 1 << 16])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("ties", [True, False])
def test_agrees_with_all_edges_in_memory(ties, masked, training, numbers, with_scalars, monkeypatch):
    """In one block or many, also where most points tie or whole rows are padding."""
    monkeypatch.setattr(row_blocks, "BLOCK", numbers)
    torch.manual_seed(0)
    layer = EdgeConvolution(1, 4, 3, scalars=2 * with_scalars).double().train(training)
    scalars = normal(7, 8, 2, seed=2) if with_scalars else None
    x = torch.cat([symmetric(3, torch.float64), normal(3, 4, 8, 1)], 1) if ties else normal(3, 7, 8, 1)
    mask = torch.rand(7, 8, generator=torch.Generator().manual_seed(1)) < 0.7 if masked else None
    if mask is not None:
        mask[2] = False
        x = torch.where(mask.unsqueeze(-1), x, 0)
    results = []
    for run in (lambda leaf: layer(leaf, mask, scalars), lambda leaf: dense(layer, leaf, mask, scalars, monkeypatch)):
        layer.edge.norm.running_mean.fill_(0.4)
        layer.edge.norm.running_var.fill_(1.5)
        leaf = x.clone().requires_grad_()
        out = run(leaf)
        trained = [parameter for parameter in layer.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(out.sin().sum(), [leaf, *trained], create_graph=True)
        twice = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), [leaf, *trained])
        results.append([out, *gradients, *twice, *(buffer.clone() for buffer in layer.edge.norm.buffers())])
    assert_close(*results, rtol=1e-7, atol=1e-7)


def test_few_points_of_generic_sets_tie_and_all_of_symmetric_ones(monkeypatch):
    """So gradients of generic sets go through chosen edges alone."""
    seen, choices = [], chosen_edges._choices
    monkeypatch.setattr(chosen_edges, "_choices", lambda *given: seen.append(chosen := choices(*given)) or chosen)
    torch.manual_seed(0)
    layer = EdgeConvolution(1, 4, 3).double()
    layer(normal(3, 7, 8, 1))
    layer(symmetric(3, torch.float64))
    (_, alone, none), (_, together, every) = seen
    assert len(none) == 0
    assert (alone == 1).all()
    assert len(every) == 24
    assert (together == 0).all()
