import itertools

import pytest
import torch
from torch.testing import assert_close

from probsym.bases import EdgeList
from probsym.errors import DtypeError, MaskError, RangeError, ShapeError
from probsym.nets import GIN
from tests.nets import naive

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
TOLERANCE = {torch.float32: {"rtol": 1e-3, "atol": 1e-4}, torch.float64: {"rtol": 1e-9, "atol": 1e-10}}


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def graphs(dtype=torch.float64, channels=2):
    """Five graphs of up to 6 nodes with holes in the mask: nodes (5, 3, 6, c), weighted and directed links, mask."""
    mask = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)) < 0.7
    mask[:, 0], mask[0] = True, True
    mask[1, :2] = torch.tensor([False, True])
    return normal(5, 3, 6, channels, dtype=dtype), normal(5, 6, 6, dtype=dtype, seed=2), mask


def build(channels=2, dtype=torch.float64, **options):
    torch.manual_seed(0)
    net = GIN(channels, **options).to(dtype)
    for module in net.modules():
        if hasattr(module, "running_mean"):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def literally(net, x, adjacency, mask):
    """Each graph by itself, without its padding, its draws one after another; scattered back to (B, K, n)."""
    nodes, links = [], []
    for item, real in zip(x, mask, strict=True):
        nodes.append(item[:, real])
    for item, real in zip(adjacency, mask, strict=True):
        links.append(item[real][:, real].expand(x.shape[1], -1, -1))
    scores = torch.zeros(x.shape[:3], dtype=x.dtype)
    for place, (real, graph_scores) in enumerate(zip(mask, naive.gin(net, nodes, links), strict=True)):
        scores[place, :, real] = graph_scores
    return scores


@both_dtypes
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("channels", [0, 1, 2])
def test_agrees_with_the_formula(channels, masked, training, dtype):
    x, adjacency, mask = graphs(dtype, max(channels, 1))
    net = build(channels, dtype, hidden=8).train(training)
    given = mask if masked else None
    mask = mask if masked else torch.ones_like(mask)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    scores, wanted = net(leaf, adjacency, given).scores, literally(net, other, adjacency, mask)
    assert_close(scores, wanted, **TOLERANCE[dtype])
    cotangent = normal(*scores.shape, dtype=dtype, seed=4)
    got = torch.autograd.grad((scores * cotangent).sum(), [leaf, *net.parameters()])
    want = torch.autograd.grad((wanted * cotangent).sum(), [other, *net.parameters()])
    loose = TOLERANCE[dtype] if dtype == torch.float64 else {"rtol": 2e-2, "atol": 2e-3}
    assert_close(got, want, **loose)
    listed = net(leaf, EdgeList.from_dense(adjacency), given).scores
    assert_close(listed, wanted, **TOLERANCE[dtype])
    got = torch.autograd.grad((listed * cotangent).sum(), [leaf, *net.parameters()])
    assert_close(got, want, **loose)


@pytest.mark.parametrize("training", [True, False])
def test_follows_permutations(training):
    x, adjacency, mask = graphs()
    net, p = build().train(training), torch.tensor([3, 1, 5, 0, 2, 4])
    moved = net(x[:, :, p], adjacency[:, p][:, :, p], mask[:, p]).scores
    assert_close(moved, net(x, adjacency, mask).scores[..., p], rtol=0, atol=1e-10)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("garbage", [1e20, torch.nan])
def test_padding_has_no_say(garbage, training):
    x, adjacency, mask = graphs()
    net, results = build().train(training), []
    for fill in (0.0, garbage):
        padded = torch.where(mask[:, None, :, None], x, fill).requires_grad_()
        links = torch.where(mask[:, :, None] & mask[:, None, :], adjacency, fill).requires_grad_()
        scores = net(padded, links, mask).scores
        gradients = torch.autograd.grad(scores.square().sum(), [padded, links, *net.parameters()])
        results.append([scores, *gradients])
    assert_close(results[0], results[1], rtol=0, atol=0)
    assert (results[0][0][~mask.unsqueeze(1).expand(-1, 3, -1)] == 0).all()


def test_more_padding_changes_nothing():
    x, adjacency, mask = graphs()
    pad = torch.nn.functional.pad
    wider = build()(pad(x, (0, 0, 0, 4)), pad(adjacency, (0, 4, 0, 4)), pad(mask, (0, 4))).scores
    assert_close(wider[..., :6], build()(x, adjacency, mask).scores, rtol=0, atol=1e-12)


def test_draws_are_apart_in_evaluation_and_optional():
    x, adjacency, mask = graphs()
    net = build().eval()
    together = net(x, adjacency, mask).scores
    for draw in range(3):
        alone = net(x[:, draw], adjacency, mask).scores
        assert alone.shape == (5, 6)
        assert_close(alone, together[:, draw], rtol=0, atol=1e-12)


def test_adjacency_of_any_dtype_and_with_channels():
    x, adjacency, mask = graphs()
    net = build().eval()
    links = (adjacency > 0).long()
    wanted = net(x, links.double(), mask).scores
    assert_close(net(x, links, mask).scores, wanted)
    assert_close(net(x, links.bool(), mask).scores, wanted)
    pairs = normal(5, 6, 6, 3, seed=7)
    assert_close(net(x, pairs, mask).scores, net(x, pairs.abs().sum(-1), mask).scores)
    assert_close(net(x, EdgeList.from_dense(pairs), mask).scores, net(x, pairs, mask).scores)
    assert_close(net(x, EdgeList.from_dense(links), mask).scores, wanted)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_an_empty_batch_gives_empty_scores_and_keeps_the_statistics(training, masked):
    net = GIN(in_channels=2, hidden=8).train(training)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    mask = torch.empty(0, 5).bool() if masked else None
    scores = net(torch.empty(0, 3, 5, 2), torch.empty(0, 5, 5), mask=mask).scores
    scores.sum().backward()
    assert scores.shape == (0, 3, 5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_draws_share_one_adjacency(monkeypatch):
    """Every product with the adjacency has one matrix a graph, (n + 1) x n: draws are columns of the other factor."""
    shapes, bmm = [], torch.bmm

    def watched(left, right):
        shapes.append((left.shape, right.shape))
        return bmm(left, right)

    monkeypatch.setattr(torch, "bmm", watched)
    x, adjacency, mask = graphs()
    build(hidden=8)(x, adjacency, mask)
    assert shapes == [((5, 7, 6), (5, 6, 3 * width)) for width in (2, 8, 8)]


def test_memory_does_not_hold_an_adjacency_for_each_draw():
    """With many nodes and draws and few channels, repeated adjacencies would be most of what backward keeps."""
    kept = 0

    def pack(tensor):
        nonlocal kept
        kept += tensor.untyped_storage().nbytes()
        return tensor

    batch, draws, n = 2, 16, 128
    net = build(1, torch.float32, hidden=1, layers=1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        net(torch.rand(batch, draws, n, 1), torch.rand(batch, n, n))
    assert kept < batch * draws * n * n * 4 / 4


def test_parameter_count():
    """2 for the virtual node, 4609 + 2 * 8577 for the layers, 65 for the head: the paper says around 25k."""
    assert sum(parameter.numel() for parameter in GIN(2).parameters()) == 2 + 4609 + 2 * 8577 + 65 == 21830
    assert sum(parameter.numel() for parameter in GIN(64).parameters()) == 21830 + 62 * 65 == 25860


def test_protocol():
    assert (GIN(2).perturbs, GIN(2).extra_noise) == ((0,), 0)
    assert (GIN(0).perturbs, GIN(0).extra_noise) == ((), 1)
    epsilons = [layer.epsilon.item() for _ in range(20) for layer in GIN(1, hidden=1).layers]
    assert 0 <= min(epsilons) < 0.2
    assert 0.8 < max(epsilons) < 1


def test_dropout_only_in_training():
    x, adjacency, mask = graphs()
    net = build(dropout=0.5)
    assert not torch.equal(net(x, adjacency, mask).scores, net(x, adjacency, mask).scores)
    net.eval()
    assert torch.equal(net(x, adjacency, mask).scores, net(x, adjacency, mask).scores)


def test_dropout_stands_between_the_two_maps_of_a_layer(monkeypatch):
    net, (x, adjacency, mask) = build(dropout=0.5), graphs()
    seen = []
    monkeypatch.setattr("probsym.nets.gin.drop", lambda rows, rate, training: seen.append((rate, rows)) or 0 * rows)
    scores = net(x, adjacency, mask).scores
    assert [rate for rate, _ in seen] == [0.5] * len(net.layers)
    assert all((rows >= 0).all() for _, rows in seen)
    # all that was inside is gone, and with it whatever tells nodes apart
    assert torch.allclose(scores[mask.unsqueeze(1).expand_as(scores)], scores[mask.unsqueeze(1).expand_as(scores)][0])


@pytest.mark.parametrize(
    "options",
    [{"in_channels": -1}, {"hidden": 0}, {"layers": 0}, {"dropout": 1.0}, {"dropout": -0.1}, {"hidden": 2.5}],
    ids=str,
)
def test_refuses_malformed_sizes(options):
    with pytest.raises(RangeError, match=r"Expected .* \(got"):
        GIN(**{"in_channels": 2, **options})


@pytest.mark.parametrize(
    ("shape", "links", "error"),
    [
        ((5, 3, 6, 3), (5, 6, 6), "Expected x to be"),
        ((6, 2), (5, 6, 6), "Expected x to be"),
        ((5, 3, 0, 2), (5, 0, 0), "n at least 1"),
        ((5, 3, 6, 2), (5, 6, 5), "Expected adjacency"),
        ((5, 3, 6, 2), (4, 6, 6), "Expected adjacency"),
        ((5, 3, 6, 2), (6, 6), "Expected adjacency"),
        ((5, 6, 2), (5, 3, 6, 6), "Expected adjacency"),
    ],
)
def test_refuses_the_wrong_shapes(shape, links, error):
    with pytest.raises(ShapeError, match=error):
        GIN(2)(torch.zeros(shape), torch.zeros(links))


def test_refuses_the_wrong_types():
    x, adjacency = torch.zeros(5, 6, 2), torch.zeros(5, 6, 6)
    with pytest.raises(DtypeError, match=r"floating tensor \(got torch.int64\)"):
        GIN(2)(x.long(), adjacency)
    with pytest.raises(MaskError, match=r"boolean \(got torch.float32\)"):
        GIN(2)(x, adjacency, torch.ones(5, 6))
    with pytest.raises(MaskError, match=r"shape \(5, 6\) \(got \(6, 5\)\)"):
        GIN(2)(x, adjacency, torch.ones(6, 5, dtype=torch.bool))


def sparse_gin(net, x, edges):
    """One graph and draw: x (n, c), edges (2, m) from j to i, the virtual node last; messages go along the edges."""
    n = len(x)
    hidden = torch.cat([x, net.virtual.unsqueeze(0)])
    everyone, hub = torch.arange(n), torch.full((n,), n)
    source = torch.cat([edges[0], hub, everyone, torch.tensor([n])])
    target = torch.cat([edges[1], everyone, hub, torch.tensor([n])])
    for layer in net.layers:
        gathered = torch.zeros_like(hidden).index_add_(0, target, hidden[source]) + (1 + layer.epsilon) * hidden
        for linear, norm in ((layer.inner, layer.inner_norm), (layer.outer, layer.outer_norm)):
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            gathered = torch.relu((linear(gathered) - norm.running_mean) * scale + norm.bias)
        hidden = gathered
    return net.head(hidden[:n]).squeeze(-1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_agrees_with_message_passing_along_edges(dtype, tolerance):
    torch.manual_seed(0)
    net = GIN(2, hidden=8).to(dtype)
    sizes, most = (7, 4, 1), 9
    mask = torch.arange(most) < torch.tensor(sizes).unsqueeze(1)
    x = torch.randn(3, 5, most, 2, dtype=dtype)
    adjacency = ((torch.rand(3, most, most) < 0.4) & mask.unsqueeze(1) & mask.unsqueeze(2)).to(dtype)
    net(x, adjacency, mask)  # so that the running statistics are not the initial ones
    net.eval()
    scores = net(x, adjacency, mask).scores
    for graph, size in enumerate(sizes):
        edges = adjacency[graph].nonzero().T.flip(0)
        for draw in range(5):
            wanted = sparse_gin(net, x[graph, draw, :size], edges)
            assert (scores[graph, draw, :size] - wanted).abs().max() <= tolerance * wanted.abs().max().clamp(min=1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leaving_padding_out_changes_nothing(
    dtype: torch.dtype, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 6, 2, dtype=dtype, generator=generator)
    adjacency = (torch.rand(4, 6, 6, generator=generator) < 0.5).to(dtype)
    mask = torch.rand(4, 6, generator=generator) < 0.6
    mask[:, 0] = True
    results = []
    links = adjacency, EdgeList.from_dense(adjacency)
    for masked, given in itertools.product((False, True), links):
        torch.manual_seed(0)
        net = GIN(2, hidden=8).to(dtype).train(training)
        for tensor in (*net.parameters(), *net.buffers()):  # so that a norm does not leave padding zero
            tensor.data.add_(torch.rand_like(tensor))
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, "is_compiling", lambda masked=masked: masked)
            scores = net(x, given, mask=mask).scores
        scores.square().sum().backward()
        results.append(
            [scores, *(parameter.grad for parameter in net.parameters()), *(buffer.clone() for buffer in net.buffers())]
        )
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    for result in results[1:]:
        for wanted, actual in zip(results[0], result, strict=True):
            torch.testing.assert_close(wanted, actual, rtol=tolerance, atol=tolerance)
