"""Lists of edges in place of arrays of pairs: the same numbers as from the dense array, or a refusal by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from probsym import Symmetrized, groups, nets, samplers, testing
from probsym.bases import GINID, EdgeList
from probsym.errors import DerivativeError, DtypeError, GroupError, MaskError, NonFiniteError, ShapeError, TracingError
from probsym.export import program
from probsym.ops.edge_list import Input

B, N = 3, 5
S = groups.S()


class Sums(nn.Module):
    """Reads every entry of the pairs at its place, of an array or of edges, with or without channels."""

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.pairs = nn.Parameter(torch.randn(N, N, channels, generator=generator))
        self.nodes = nn.Parameter(torch.randn(N, 2, generator=generator))

    def forward(self, x: Tensor, pairs: Input) -> Tensor:
        y = (x * self.nodes).sum((1, 2))
        if isinstance(pairs, Tensor):
            return y + (pairs.reshape(*pairs.shape[:3], -1) * self.pairs).flatten(1).sum(1).tanh()
        item, row, column = pairs.index
        each = (pairs.values.reshape(len(item), -1) * self.pairs[row, column]).sum(1)
        return y + torch.zeros_like(y).index_add(0, item, each).tanh()


class Energy(nn.Module):
    """One number for each row, which depends on the pairs."""

    def forward(self, x: Tensor, pairs: Input) -> Tensor:
        links = pairs.dense() if isinstance(pairs, EdgeList) else pairs
        return (links.flatten(3).sum(-1) if links.dim() == 4 else links)[:, 0].sum(-1) + x[:, 0, 0]


def graph(dtype: torch.dtype = torch.float64, channels: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, N, 2, generator=generator, dtype=dtype)
    there = torch.rand(B, N, N, *(1 for _ in channels), generator=generator) < 0.5
    pairs = torch.randn(B, N, N, *channels, generator=generator, dtype=dtype)
    return x, torch.where(there, pairs, 0)


def gin(reads: int = 2) -> nets.GIN:
    torch.manual_seed(1)
    return nets.GIN(in_channels=reads, hidden=8, layers=2)


def frozen(sampler: samplers.Sampler) -> samplers.Sampler:
    return sampler.requires_grad_(False)


SAMPLERS: dict[str, Callable[[], samplers.Sampler]] = {
    "haar": samplers.Haar,
    "enumerate": samplers.Enumerate,
    "sort": lambda: samplers.Frame("sort"),
    "colours": lambda: samplers.Frame("colours"),
    "canonical": lambda: frozen(samplers.Canonical(gin())),
    "learned": lambda: frozen(samplers.Learned(gin())),
    "learned from edges": lambda: frozen(samplers.Learned(gin(0), reads=(1,))),
    "from haar": lambda: frozen(samplers.FromHaar(gin())),
    "energy": lambda: samplers.Energy(Energy(), tau=1.0, elements=3),
}
MASK = torch.tensor([[True, True, False, True, True], [False, True, True, True, False], [True] * N])


def model_of(sampler: str, term: str = "n n", dtype: torch.dtype = torch.float64, **options: Any) -> Symmetrized:
    base = Sums(1 if term == "n n" else 3)
    samples = 1 if sampler in ("enumerate", "energy") else 4  # they have a number of their own
    model = Symmetrized(base, f"n c, {term} -> ", {"n": S}, SAMPLERS[sampler](), samples, **options)
    return model.to(dtype)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_edges_give_the_numbers_of_the_array_and_their_gradients(sampler: str, mask: Tensor | None) -> None:
    for dtype, term, training in [(torch.float64, "n n e", True), (torch.float32, "n n", False)]:
        x, pairs = graph(dtype, (3,) if term == "n n e" else ())
        results = []
        for given in (pairs, EdgeList.from_dense(pairs)):
            model = model_of(sampler, term, dtype).train(training)
            numbers = (given.values if isinstance(given, EdgeList) else given).requires_grad_()
            y = model(x, given, mask=mask, seed=7)
            of = [*model.base.parameters(), numbers]
            *own, of_values = torch.autograd.grad(y.square().sum(), of)
            at = tuple(EdgeList.from_dense(pairs.detach()).index)
            results.append([y, *own, of_values if isinstance(given, EdgeList) else of_values[at]])
        assert_close(results[1], results[0])


def test_edges_are_moved_as_the_array_is_whatever_their_order_and_the_dtype_of_the_index() -> None:
    x, pairs = graph()
    edges = EdgeList.from_dense(pairs)
    turned = torch.randperm(edges.index.shape[1], generator=torch.Generator().manual_seed(0))
    shuffled = EdgeList(edges.index[:, turned].int(), edges.values[turned], B, N)
    model = model_of("haar")
    assert_close(model(x, shuffled, seed=1), model(x, pairs, seed=1))


def test_estimates_in_chunks_of_draws_and_with_a_residual() -> None:
    x, pairs = graph()
    edges = EdgeList.from_dense(pairs)
    model = model_of("learned").eval()
    dense, sparse = (
        model.estimate(x, given, samples=7, chunk=2, seed=3, keep_values=True, mask=MASK) for given in (pairs, edges)
    )
    for field in ("mean", "stderr", "values"):
        assert_close(getattr(sparse, field), getattr(dense, field))
    assert torch.equal(sparse.elements["n"], dense.elements["n"])
    assert model.suggest_samples(x, edges, stderr=0.1, seed=0) == model.suggest_samples(x, pairs, stderr=0.1, seed=0)
    noise = model.noise(x, edges)
    assert_close(model(x, edges, noise=noise), model(x, pairs, noise=noise))

    def change(x: Tensor, links: Input) -> Tensor:
        return (links.dense() if isinstance(links, EdgeList) else links) @ x

    added = Symmetrized(change, "n c, n n -> n c", {"n": S}, residual=0)
    assert_close(added(x, edges), x + pairs @ x)
    training = model_of("haar", chunk=1).train()
    assert_close(*(torch.autograd.grad(training(x, g, seed=0).sum(), training.base.pairs) for g in (edges, pairs)))


def test_the_base_sees_one_list_for_all_draws_with_nothing_at_padding() -> None:
    x, pairs = graph()
    edges = EdgeList.from_dense(pairs)
    seen: list[EdgeList] = []

    def base(x: Tensor, links: EdgeList, mask: Tensor) -> Tensor:
        seen.append(links)
        assert links.shape == (4 * B, N, N)
        assert links.index.shape[1] == 4 * edges.index.shape[1]
        assert torch.equal(links.dense() != 0, (links.dense() != 0) & mask.unsqueeze(1) & mask.unsqueeze(2))
        return links.dense().sum((1, 2))

    model = Symmetrized(base, "n c, n n -> ", {"n": S}, samples=4)
    wanted = torch.where(MASK.unsqueeze(1) & MASK.unsqueeze(2), pairs, 0).sum((1, 2))
    assert_close(model(x, edges, mask=MASK), wanted)
    item, row, column = edges.index
    at_padding = ~(MASK[item, row] & MASK[item, column])
    assert at_padding.any()
    assert bool((seen[0].values.view(4, -1)[:, at_padding] == 0).all())


def test_integer_values_and_edges_alone() -> None:
    links = (graph()[1] != 0).long()
    model = Symmetrized(lambda a: (a.dense() if isinstance(a, EdgeList) else a)[:, 0], "n n -> n", {"n": S}, samples=3)
    assert_close(model(EdgeList.from_dense(links), seed=1), model(links, seed=1))
    assert_close(model(EdgeList.from_dense(links == 1), seed=1), model(links == 1, seed=1))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_models_on_edges_are_equivariant(sampler: str) -> None:
    x, pairs = graph()
    edges = EdgeList.from_dense(pairs)
    generator = torch.Generator().manual_seed(0)
    testing.assert_equivariant(model_of(sampler), x, edges, mask=MASK, generator=generator)


def test_a_model_on_edges_that_is_not_equivariant_is_found_out() -> None:
    x, pairs = graph()
    generator = torch.Generator().manual_seed(0)
    rules: dict[str, Any] = {"signature": "n c, n n -> ", "groups": {"n": S}}
    with pytest.raises(AssertionError, match="under S"):
        testing.assert_equivariant(Sums().double(), x, EdgeList.from_dense(pairs), **rules, generator=generator)
    listed = model_of("colours")
    gap = testing.equivariance_gap(listed, x, EdgeList.from_dense(pairs), samples=20, generator=generator)
    assert gap.p_value > 0.01


def test_nodes_are_renamed_beside_rotations() -> None:
    x, pairs = torch.randn(B, N, 3, dtype=torch.float64), graph()[1]

    def base(x: Tensor, links: Input) -> Tensor:
        return (links.dense() if isinstance(links, EdgeList) else links) @ x * torch.tensor([1.0, 2.0, 3.0])

    model = Symmetrized(base, "n d:point, n n -> n d", {"n": S, "d": groups.SE(3)}, samples=2)
    edges = EdgeList.from_dense(pairs)
    assert_close(model(x, edges, seed=2), model(x, pairs, seed=2))
    testing.assert_equivariant(model, x, edges)


def test_gin_id_trains_and_evaluates_on_edges_as_on_the_array() -> None:
    x, pairs = graph()
    torch.manual_seed(0)
    model = Symmetrized(GINID("n 2, n n -> 3", n=N, width=8), "n c, n n -> k", {"n": S}, samples=2).double()
    for given in (pairs, EdgeList.from_dense(pairs)):
        model.zero_grad()
        model(x, given, mask=MASK, seed=1).square().sum().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(x, pairs, mask=MASK, seed=1).square().sum().backward()
    assert_close(grads, [parameter.grad for parameter in model.parameters()])


@pytest.mark.parametrize("sampler", [samplers.Learned, samplers.Canonical, samplers.FromHaar])
def test_the_gradient_of_scores_that_rename_nodes_is_refused(sampler: Callable[[nn.Module], samplers.Sampler]) -> None:
    x, pairs = graph()
    model = Symmetrized(Sums(), "n c, n n -> ", {"n": S}, sampler(gin())).double().eval()
    y = model(x, EdgeList.from_dense(pairs))  # evaluation with a gradient that nobody asks for
    with pytest.raises(DerivativeError, match=r"^Expected input 1 \('n n'\) to be a tensor in training.*got EdgeList;"):
        y.sum().backward()
    model(x, pairs).sum().backward()


def test_other_gradients_than_that_of_scores_are_there() -> None:
    """Forces, and gradients of the base, though the net could be trained."""
    x, pairs = graph()
    model = Symmetrized(Sums(), "n c, n n -> ", {"n": S}, samplers.Learned(gin(), reads=(0, 1))).double().eval()
    edges, live = EdgeList.from_dense(pairs), x.clone().requires_grad_()
    wanted, gradients = (torch.autograd.grad(model(live, given, seed=1).sum(), live) for given in (pairs, edges))
    assert_close(gradients, wanted)
    assert wanted[0].abs().max() > 0
    assert_close(torch.func.grad(lambda x: model(x, edges, seed=1).sum())(x), wanted[0])
    asked = list(model.base.parameters())
    wanted, gradients = (torch.autograd.grad(model(x, given, seed=1).sum(), asked) for given in (pairs, edges))
    assert_close(gradients, wanted)


NAMES = {"n": S}


@pytest.mark.parametrize(
    ("signature", "bound", "error", "match"),
    [
        ("n c -> ", NAMES, DtypeError, r"input 0 \('n c'\) .* pairs such as 'n n' \(got EdgeList\)"),
        ("n n n -> ", NAMES, DtypeError, r"input 0 \('n n n'\)"),
        ("n n d -> ", {"n": S, "d": groups.O(3)}, GroupError, r"O\(3\) acts on 'd'"),
        ("n n -> ", {"n": groups.Shift()}, GroupError, r"Shift\(\) on 'n' has not the verb `renaming`"),
        ("n n -> ", {"n": groups.C(N)}, GroupError, r"C\(5\) on 'n'"),
        ("n n c e -> ", NAMES, DtypeError, r"input 0 \('n n c e'\)"),
    ],
)
def test_edges_for_other_terms_and_groups_are_refused(signature: str, bound: Any, error: Any, match: str) -> None:
    channels = (3,) if " d" in signature or "n n n" in signature or " c e" in signature else ()
    edges = EdgeList.from_dense(graph(channels=channels)[1])
    with pytest.raises(error, match=match):
        Symmetrized(lambda a: a.values, signature, bound)(edges)


def test_what_edges_cannot_be_used_for_is_refused() -> None:
    x, pairs = graph()
    edges, wide = EdgeList.from_dense(pairs), EdgeList.from_dense(graph(channels=(3,))[1])
    with pytest.raises(DtypeError, match=r"^Expected 'n n' to be a tensor for a frame of kind 'laplacian' \(got Edge"):
        Symmetrized(Sums(), "n c, n n -> ", NAMES, samplers.Frame())(x, edges)
    with pytest.raises(DtypeError, match=r"^Expected input 1, which is the residual, to be a tensor \(got EdgeList\)"):
        Symmetrized(lambda x, a: a, "n c, n n -> n n", NAMES, residual=1)(x, edges)
    with pytest.raises(DtypeError, match=r"^Expected output 0 \('n n'\) to be a tensor \(got EdgeList\)"):
        Symmetrized(lambda x, a: a, "n c, n n -> n n", NAMES)(x, edges)
    with pytest.raises(MaskError, match=r"^Expected no mask on axis 'e' of input 1 \('n n e'\)"):
        model_of("haar", "n n e")(x, wide, mask={"e": torch.ones(B, 3, dtype=torch.bool)})
    with pytest.raises(DtypeError, match=r"^Expected input 1 \('n n'\) to be torch.float64 like input 0"):
        model_of("haar")(x, edges.to(torch.float32))
    with pytest.raises(
        ShapeError, match=r"^Expected input 1 \('n n'\) to have equal sizes on axis 'n' \(got 5 and 6\)"
    ):
        model_of("haar")(x, EdgeList(edges.index, edges.values, B, N + 1))
    with pytest.raises(TracingError, match=r"^Expected tensors to export \(got EdgeList"):
        program(model_of("haar").eval(), x, edges)
    bad = EdgeList(edges.index, edges.values.clone().fill_(torch.nan), B, N)
    with pytest.raises(NonFiniteError, match=r"^Expected input 1 \('n n'\) to be finite \(got nan at \(0, "):
        model_of("learned")(x, bad)
    with pytest.raises(NonFiniteError, match=r"input 1 \('n n'\)"):
        model_of("haar").signature.check_inputs([x, bad], finite=True)


class PerturbsAll(nn.Module):
    def forward(self, x: Tensor, pairs: Any) -> Tensor:
        return x[..., 0] if x.dim() == 4 else x[..., 0].unsqueeze(1)


def test_noise_for_every_pair_is_refused_and_none_is_not() -> None:
    x, pairs = graph()
    edges = EdgeList.from_dense(pairs)
    noisy = Symmetrized(Sums(), "n c, n n -> ", NAMES, samplers.Learned(PerturbsAll())).double().eval()
    for coupling in ("independent", "antithetic", "quasi"):
        with pytest.raises(DtypeError, match=r"^Expected input 1 \('n n'\) to be a tensor, since PerturbsAll perturbs"):
            noisy(x, edges, coupling=coupling)
    quiet = Symmetrized(Sums(), "n c, n n -> ", NAMES, samplers.Canonical(PerturbsAll())).double()
    assert_close(quiet(x, edges), quiet(x, pairs))


class Largest(TorchDispatchMode):
    """How many entries the largest tensor has that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, Tensor):
                self.entries = max(self.entries, leaf.numel())
        return output


def test_nothing_of_n_by_n_is_made() -> None:
    n, count = 3000, 6000
    generator = torch.Generator().manual_seed(0)
    index = torch.cat([torch.zeros(1, count, dtype=torch.long), torch.randint(n, (2, count), generator=generator)])
    edges = EdgeList(index, torch.rand(count, generator=generator), 1, n)
    x, mask = torch.rand(1, n, 1, generator=generator), (torch.arange(n) > 5).unsqueeze(0)
    base = GINID("n 1, n n -> 2", n=n, width=2, layers=2)
    net = nets.GIN(in_channels=1, hidden=2, layers=1)
    learned = [samplers.Learned(net), samplers.Canonical(net), samplers.FromHaar(net)]
    for sampler in [samplers.Haar(), samplers.Frame("colours"), samplers.Frame("sort"), *learned]:
        model = Symmetrized(base, "n c, n n -> k", NAMES, sampler, samples=2)
        with Largest() as seen:
            y = model(x, edges, mask=mask)
            if sampler not in learned:
                y.sum().backward()
            with torch.no_grad():
                assert model.eval()(x, edges).isfinite().all()
        assert 0 < seen.entries < n * n / 20
