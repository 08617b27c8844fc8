import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from probsym.errors import DerivativeError, DtypeError, RangeError, ShapeError
from probsym.ops import relaxation, soft_sort
from tests.ops.dense_sort import DenseSort, dense_sort

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
BATCH, DRAWS = 2, 2


def problem(n: int, dtype: torch.dtype, masked: bool, scale: float = 1.0) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(n)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    mask = None
    if masked:
        mask = torch.rand(BATCH, 1, n, generator=generator) < 0.7
        mask[..., n // 2] = True
    return {
        "scores": normal(BATCH, DRAWS, n) * scale,
        "mask": mask,
        "features": normal(BATCH, 1, n, 3),
        "pairs": normal(BATCH, 1, n, n, 2) if n <= 64 else normal(BATCH, 1, n, n),
        "output": normal(BATCH, DRAWS, n, 2),
        "pair_output": normal(BATCH, DRAWS, n, n),
    }


def fast_uses(order, x: dict[str, Tensor | None]) -> dict[str, Tensor]:
    pair_axes = (2, 3)
    return {
        "features": order.sort(x["features"], -2),
        "pairs": order.sort(x["pairs"], pair_axes),
        "output": order.unsort(x["output"], -2),
        "pair_output": order.unsort(x["pair_output"], pair_axes),
        "entropy": order.entropy(),
    }


def dense_uses(order: DenseSort, x: dict[str, Tensor | None]) -> dict[str, Tensor]:
    p = order.straight_through()
    keep = {name: value.double() for name, value in x.items() if name not in ("scores", "mask")}
    pairs = keep["pairs"].expand(-1, DRAWS, *keep["pairs"].shape[2:])
    pairs = torch.einsum("bkij,bkil...->bkjl...", p, pairs)
    return {
        "features": torch.einsum("bkij,bkic->bkjc", p, keep["features"].expand(-1, DRAWS, -1, -1)),
        "pairs": torch.einsum("bklm,bkjl...->bkjm...", p, pairs),
        "output": p @ keep["output"],
        "pair_output": p @ keep["pair_output"] @ p.mT,
        "entropy": order.entropy(),
    }


def relative(actual: Tensor, wanted: Tensor, floor: float = 0.0) -> float:
    actual, wanted = actual.detach().double(), wanted.detach().double()
    error = (actual - wanted).abs().max()
    return float((error - floor).clamp(min=0) / wanted.abs().max().clamp(min=1e-300))


TAUS, SCALED = (1e-3, 1e-2, 0.1, 1.0), [(1e-3, 1e-8), (1e-3, 1e8), (1.0, 1e-8), (1.0, 1e8)]
RANGE = [
    *((n, *setting) for n in (1, 2, 8, 64) for setting in [*((tau, 1.0) for tau in TAUS), *SCALED]),
    *((188, tau, 1.0) for tau in TAUS),
    pytest.param(444, 1e-2, 1.0, marks=pytest.mark.slow),
]
"""Sizes, temperatures and scales of scores: one chunk, three, four and five."""


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("n", "tau", "scale"), RANGE)
def test_values_and_gradients_are_those_of_the_dense_form(
    n: int, tau: float, scale: float, dtype: torch.dtype, masked: bool
) -> None:
    x = problem(n, dtype, masked, scale)
    scores = x["scores"].clone().requires_grad_()
    exact = x["scores"].double().requires_grad_()
    uses = fast_uses(soft_sort(scores, mask=x["mask"], tau=tau), x)
    wanted = dense_uses(dense_sort(exact, x["mask"], tau), x)
    generator = torch.Generator().manual_seed(0)
    for use, value in uses.items():
        assert torch.isfinite(value).all(), use
        assert relative(value, wanted[use], floor=1e-15) <= TOLERANCE[dtype], use
        weight = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        (gradient,) = torch.autograd.grad((value * weight.to(dtype)).sum(), scores, retain_graph=True)
        (reference,) = torch.autograd.grad((wanted[use] * weight).sum(), exact, retain_graph=True)
        assert torch.isfinite(gradient).all(), use
        underflow = 1e-30 / scale  # below what float32 can say of exp(-distance / tau)
        assert relative(gradient, reference, floor=underflow) <= TOLERANCE[dtype], use


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("unit", ["norm", "gap"])
@pytest.mark.parametrize(("symmetric", "iterations"), [(False, 0), (False, 1), (False, 20), (True, 1), (True, 10)])
def test_every_option_is_the_dense_form_of_itself(unit: str, symmetric: bool, iterations: int, masked: bool) -> None:
    x = problem(40, torch.float64, masked)
    options = {"tau": 0.7 if unit == "gap" else 0.05, "iterations": iterations, "unit": unit, "symmetric": symmetric}
    scores, exact = (x["scores"].clone().requires_grad_() for _ in range(2))
    order = soft_sort(scores, mask=x["mask"], **options)
    dense = dense_sort(exact, x["mask"], **options)
    assert relative(order.matrix(), dense.soft) < 1e-12
    uses, wanted = fast_uses(order, x), dense_uses(dense, x)
    for use, value in uses.items():
        (gradient,) = torch.autograd.grad(value.square().sum(), scores, retain_graph=True)
        (reference,) = torch.autograd.grad(wanted[use].square().sum(), exact, retain_graph=True)
        assert relative(gradient, reference) < 1e-9, use


SOFT_USES: dict[str, Callable] = {
    "features": lambda order, x: order.sort(x["features"], -2),
    "pairs": lambda order, x: order.sort(x["pairs"], (2, 3)),
    "output": lambda order, x: order.unsort(x["output"], -2),
    "pair_output": lambda order, x: order.unsort(x["pair_output"], (2, 3)),
    "entropy": lambda order, x: order.entropy(),
    "matrix": lambda order, x: order.matrix(),
}


@pytest.mark.parametrize("use", SOFT_USES)
@pytest.mark.parametrize("unit", ["norm", "gap"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_gradcheck_of_the_soft_variant(n: int, use: str, unit: str, symmetric: bool) -> None:
    x = problem(n, torch.float64, masked=n > 2)

    def run(scores: Tensor, tensor: Tensor) -> Tensor:
        order = soft_sort(scores, mask=x["mask"], tau=0.3, unit=unit, symmetric=symmetric, iterations=5, soft=True)
        return SOFT_USES[use](order, {**x, use: tensor})

    tensor = x.get(use, torch.zeros((), dtype=torch.float64)).clone().requires_grad_(use in x)
    assert torch.autograd.gradcheck(run, (x["scores"].clone().requires_grad_(), tensor), fast_mode=n > 2)


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("n", [1, 5, 64, 150])
def test_hard_backward_is_exactly_the_soft_one(n: int, masked: bool) -> None:
    x = problem(n, torch.float64, masked)
    gradients = []
    for soft in (False, True):
        scores = x["scores"].clone().requires_grad_()
        order = soft_sort(scores, mask=x["mask"], soft=soft)
        uses = (order.sort(x["features"], -2), order.unsort(x["output"], -2))
        weights = (torch.arange(use.numel(), dtype=use.dtype).view(use.shape).cos() for use in uses)
        gradients.append(torch.autograd.grad(uses, scores, grad_outputs=list(weights))[0])
    assert torch.equal(*gradients)
    assert n == 1 or gradients[0].abs().max() > 0


def test_inputs_get_the_gradient_of_the_hard_permutation() -> None:
    x = problem(9, torch.float64, masked=True)
    tensor = x["features"].clone().requires_grad_()
    order = soft_sort(x["scores"].clone().requires_grad_(), mask=x["mask"])
    weight = torch.randn(BATCH, DRAWS, 9, 3, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((order.sort(tensor, -2) * weight).sum(), tensor)
    p = dense_sort(x["scores"], x["mask"]).hard
    assert torch.allclose(gradient, (p @ weight).sum(1, keepdim=True))


def test_gradients_of_several_uses_add_up() -> None:
    x = problem(20, torch.float64, masked=True)
    scores = x["scores"].clone().requires_grad_()
    order = soft_sort(scores, mask=x["mask"], tau=0.1)
    uses = fast_uses(order, x)
    each = [torch.autograd.grad(use.sin().sum(), scores, retain_graph=True)[0] for use in uses.values()]
    (together,) = torch.autograd.grad(sum(use.sin().sum() for use in uses.values()), scores)
    assert relative(together, sum(each)) < 1e-12


def test_ties_have_the_right_values_and_the_one_sided_derivative_of_their_order() -> None:
    tied = torch.tensor([0.4, -0.2, 0.4, 0.1, -0.2, 0.4], dtype=torch.float64)
    ties = torch.tensor([0.0, 5.0, 2.0, 0.0, 1.0, 1.0], dtype=torch.float64)  # orders 2, 5, 0 and 1, 4
    weight = torch.randn(6, 6, dtype=torch.float64)

    def run(scores: Tensor, ties: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        scores = scores.clone().requires_grad_()
        order = soft_sort(scores, ties=ties, tau=0.2)
        (gradient,) = torch.autograd.grad((order.matrix() * weight).sum() + order.entropy(), scores)
        return order.index, order.matrix(), gradient

    index, matrix, gradient = run(tied, ties)
    assert index.tolist() == [2, 5, 0, 3, 1, 4]
    assert relative(matrix, dense_sort(tied, tau=0.2).soft) < 1e-12
    nearby = tied + 1e-9 * ties  # the same order without ties
    _, _, limit = run(nearby, None)
    assert relative(gradient, limit) < 1e-6


def test_equal_scores_give_the_uniform_matrix() -> None:
    for value in (0.0, 3.0, -1e-10):
        scores = torch.full((4,), value, requires_grad=True)
        order = soft_sort(scores)
        assert torch.allclose(order.matrix(), torch.full((4, 4), 0.25))
        assert math.isclose(order.entropy().item(), 2 * math.log(4), rel_tol=1e-6)
        (gradient,) = torch.autograd.grad((order.sort(torch.arange(4.0)) * torch.arange(4.0)).sum(), scores)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("magnitude", [1e-44, 1e-38, 1e-20, 1e20, 1e38])
def test_scores_of_any_float32_size_give_the_same_relaxation(magnitude: float) -> None:
    scores = torch.tensor([0.5, -1.0, 0.25, 2.0])
    scaled = scores * magnitude
    order, wanted = soft_sort(scaled, tau=0.3), soft_sort(scores, tau=0.3)
    assert torch.equal(order.index, wanted.index)
    if magnitude > 1e-40:  # subnormal numbers themselves are too coarse
        assert torch.allclose(order.matrix(), wanted.matrix(), atol=1e-6)
    assert torch.isfinite(order.matrix()).all()


def test_padding_never_leaks() -> None:
    x = problem(12, torch.float64, masked=True)
    mask = x["mask"]
    results = []
    for garbage in (0.0, float("nan"), float("inf")):
        scores = x["scores"].masked_fill(~mask, garbage).requires_grad_()
        order = soft_sort(scores, mask=mask, tau=0.1)
        places = ~mask.unsqueeze(-1)
        features = x["features"].masked_fill(places, garbage)
        pairs = x["pairs"].masked_fill(places.unsqueeze(-2) | ~mask.unsqueeze(-2).unsqueeze(-1), garbage)
        uses = [order.sort(features, -2), order.sort(pairs, (2, 3)), order.unsort(x["output"], -2), order.entropy()]
        (gradient,) = torch.autograd.grad(sum(use.sin().sum() for use in uses), scores)
        assert (gradient[~mask.expand_as(gradient)] == 0).all()
        results.append([*uses, gradient])
        front = torch.arange(12) < mask.sum(-1, keepdim=True)
        assert (uses[0][~front.expand(BATCH, DRAWS, 12)] == 0).all()
        assert (uses[2][~mask.expand(BATCH, DRAWS, 12)] == 0).all()
    for other in results[1:]:
        assert all(torch.equal(left, right) for left, right in zip(results[0], other, strict=True))


def test_an_item_that_is_all_padding_is_harmless() -> None:
    scores = torch.randn(2, 5, requires_grad=True)
    mask = torch.tensor([[True] * 3 + [False] * 2, [False] * 5])
    order = soft_sort(scores, mask=mask)
    value = order.sort(torch.randn(2, 5)).square().sum() + order.entropy().sum()
    (gradient,) = torch.autograd.grad(value, scores)
    assert torch.isfinite(gradient).all()
    assert (gradient[1] == 0).all()
    assert order.entropy()[1] == 0


def test_relabelled_scores_give_relabelled_gradients() -> None:
    x = problem(15, torch.float64, masked=False)
    move = torch.randperm(15, generator=torch.Generator().manual_seed(3))

    def gradient(scores: Tensor, features: Tensor) -> Tensor:
        scores = scores.clone().requires_grad_()
        order = soft_sort(scores, tau=0.1)
        value = (order.sort(features, -2) * torch.arange(45.0).view(15, 3).cos()).sum() + order.entropy().sum()
        return torch.autograd.grad(value, scores)[0]

    plain = gradient(x["scores"], x["features"])
    moved = gradient(x["scores"][..., move], x["features"][..., move, :])
    assert relative(moved, plain[..., move]) < 1e-12


def test_symmetric_scaling_converges_in_fewer_steps() -> None:
    scores = torch.randn(8, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    far = [
        (soft_sort(scores, symmetric=symmetric, iterations=iterations).matrix().sum(-1) - 1).abs().max()
        for symmetric, iterations in ((True, 10), (False, 20))
    ]
    assert far[0] < 1e-4
    assert far[1] > 1e-3


def test_gap_units_keep_the_relaxation_equally_sharp() -> None:
    width = {}
    for unit in ("norm", "gap"):
        for n in (64, 444):
            scores = torch.linspace(1, -1, n, dtype=torch.float64)
            tau = 0.01 if unit == "norm" else 1.0
            width[unit, n] = 1 / soft_sort(scores, tau=tau, unit=unit).matrix().square().sum(-1)[n // 2]
    assert math.isclose(width["gap", 64], width["gap", 444], rel_tol=0.01)
    assert width["norm", 444] > 5 * width["norm", 64]


def test_evaluation_runs_no_sinkhorn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("relaxed")

    monkeypatch.setattr(relaxation, "relax", refuse)
    scores = torch.randn(3, 6, requires_grad=True)
    with torch.no_grad():
        soft_sort(scores).sort(torch.randn(3, 6, 6), (-2, -1))
    soft_sort(scores.detach()).unsort(torch.randn(3, 6))
    soft_sort(scores, relax=False).sort(torch.randn(3, 6))
    with pytest.raises(AssertionError, match="relaxed"):
        soft_sort(scores)


def test_memory_saved_for_backward_is_linear_in_n() -> None:
    n, rows = 512, 3
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        scores = torch.randn(rows, n, requires_grad=True)
        order = soft_sort(scores)
        (order.sort(torch.randn(rows, n, 2), -2).sum() + order.entropy().sum()).backward()
    assert max(sizes) <= 41 * rows * n
    assert sum(sizes) <= 150 * rows * n


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_float_dtype(dtype: torch.dtype) -> None:
    scores = torch.randn(2, 6).to(dtype).requires_grad_()
    features = torch.randn(2, 6, 3).to(dtype)
    order = soft_sort(scores, tau=0.1)
    value = order.sort(features, -2)
    assert value.dtype == dtype
    (gradient,) = torch.autograd.grad(value.float().sin().sum() + order.entropy().sum(), scores)
    assert gradient.dtype == dtype
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_integers_are_moved_too(dtype: torch.dtype) -> None:
    order = soft_sort(torch.tensor([0.1, 0.9, 0.5], requires_grad=True))
    labels = torch.tensor([1, 0, 1]).to(dtype)
    assert torch.equal(order.sort(labels), labels[[1, 2, 0]])
    assert torch.equal(order.unsort(order.sort(labels)), labels)


def test_autocast_changes_nothing() -> None:
    x = problem(16, torch.float32, masked=True)
    gradients = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            scores = x["scores"].clone().requires_grad_()
            uses = fast_uses(soft_sort(scores, mask=x["mask"], tau=0.1), x)
            sum(use.sin().sum() for use in uses.values()).backward()
        gradients.append(scores.grad)
    assert torch.equal(*gradients)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised inside the tracer of torch itself
def test_compiled_training_and_evaluation_equal_eager() -> None:
    x = problem(16, torch.float64, masked=True)

    def run(scores: Tensor, pairs: Tensor) -> Tensor:
        order = soft_sort(scores, mask=x["mask"], tau=0.1)
        return order.sort(pairs, (2, 3)).sin().sum() + order.entropy().sum()

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    eager, traced = (x["scores"].clone().requires_grad_() for _ in range(2))
    run(eager, x["pairs"]).backward()
    compiled(traced, x["pairs"]).backward()
    assert relative(traced.grad, eager.grad) < 1e-12
    with torch.no_grad():
        assert torch.allclose(compiled(traced, x["pairs"]), run(eager, x["pairs"]))


MALFORMED = [
    (DtypeError, r"Expected scores to be floating \(got torch.int64\)", (torch.arange(3),), {}),
    (ShapeError, r"Expected scores \(\*batch, n\) with n at least 1 \(got \(\)\)", (torch.tensor(1.0),), {}),
    (ShapeError, r"with n at least 1 \(got \(2, 0\)\)", (torch.zeros(2, 0),), {}),
    (
        ShapeError,
        r"Expected mask to broadcast to \(2, 3\) \(got \(2, 4\)\)",
        (torch.zeros(2, 3),),
        {"mask": torch.ones(2, 4) > 0},
    ),
    (
        ShapeError,
        r"Expected mask to broadcast to \(2, 3\) \(got \(5, 3\)\)",
        (torch.zeros(2, 3),),
        {"mask": torch.ones(5, 3) > 0},
    ),
    (
        ShapeError,
        r"Expected ties to broadcast to \(3,\) \(got \(1, 3\)\)",
        (torch.zeros(3),),
        {"ties": torch.zeros(1, 3)},
    ),
    (DtypeError, r"Expected mask to be boolean \(got torch.float32\)", (torch.zeros(3),), {"mask": torch.ones(3)}),
    (RangeError, r"Expected tau to be positive \(got 0.0\)", (torch.zeros(3),), {"tau": 0.0}),
    (RangeError, r"Expected tau to be positive \(got nan\)", (torch.zeros(3),), {"tau": math.nan}),
    (RangeError, r"Expected iterations to be 0 or more \(got -1\)", (torch.zeros(3),), {"iterations": -1}),
    (RangeError, r"Expected unit to be 'norm' or 'gap' \(got 'mean'\)", (torch.zeros(3),), {"unit": "mean"}),
]


@pytest.mark.parametrize(("error", "message", "arguments", "options"), MALFORMED)
def test_malformed_calls(error: type[Exception], message: str, arguments: tuple, options: dict) -> None:
    with pytest.raises(error, match=message):
        soft_sort(*arguments, **options)


@pytest.mark.parametrize(
    ("x", "axis", "message"),
    [
        (torch.zeros(2, 4), -1, r"Expected size 3 on axis 1 \(got 4\)"),
        (torch.zeros(2, 3), 0, r"Expected axis to follow 1 batch axes in 2 axes \(got 0\)"),
        (torch.zeros(2, 3), 2, r"Expected axis to follow 1 batch axes in 2 axes \(got 2\)"),
        (torch.zeros(5, 3), -1, r"Expected batch axes that broadcast to \(2,\) \(got \(5,\)\)"),
    ],
)
def test_tensors_that_do_not_fit(x: Tensor, axis: int, message: str) -> None:
    order = soft_sort(torch.randn(2, 3))
    for move in (order.sort, order.unsort):
        with pytest.raises(ShapeError, match=message):
            move(x, axis)


def test_scores_of_any_memory_layout() -> None:
    scores = torch.randn(2, 6, 3).transpose(1, 2)
    pairs, features = torch.randn(2, 1, 6, 6), torch.randn(2, 1, 6, 2)
    for dtype in (torch.float32, torch.float64):
        strided = scores.to(dtype).requires_grad_()
        plain = scores.contiguous().to(dtype).requires_grad_()
        for sort in (lambda order: order.sort(pairs, (2, 3)), lambda order: order.sort(features, 2)):
            assert torch.equal(sort(soft_sort(strided)), sort(soft_sort(plain)))
        soft_sort(strided).sort(pairs, (2, 3)).sin().sum().backward()


def test_a_mask_of_only_some_batch_axes_is_refused() -> None:
    scores = torch.randn(3, 3, 5)
    with pytest.raises(ShapeError, match=r"Expected mask to broadcast to \(3, 3, 5\) \(got \(3, 5\)\)"):
        soft_sort(scores, mask=torch.ones(3, 5, dtype=torch.bool))
    mask = torch.tensor([True, False, True, True, False])
    common = soft_sort(scores, mask=mask).sort(torch.ones(3, 1, 5))
    assert torch.equal(common, torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0]).expand(3, 3, 5))


@pytest.mark.parametrize("soft", [False, True])
def test_garbage_on_padding_of_outputs_and_gradients_never_leaks(soft: bool) -> None:
    x = problem(12, torch.float64, masked=True)
    front = torch.arange(12) < x["mask"].sum(-1, keepdim=True)
    results = []
    for garbage in (0.0, float("nan"), float("inf")):
        scores = x["scores"].clone().requires_grad_()
        order = soft_sort(scores, mask=x["mask"], tau=0.1, soft=soft)
        moved = order.unsort(torch.where(front.unsqueeze(-1), x["output"], garbage), -2)
        come_back = torch.where(front.unsqueeze(-1), 1.0, 1e6 if garbage else 0.0).expand(BATCH, DRAWS, 12, 3)
        (gradient,) = torch.autograd.grad(
            [moved.sin().sum(), order.sort(x["features"], -2)], scores, [torch.ones(()).double(), come_back.double()]
        )
        results.append((moved, gradient))
    for moved, gradient in results[1:]:
        assert torch.equal(moved, results[0][0])
        assert torch.equal(gradient, results[0][1])


def test_a_score_that_is_not_a_number_stays_before_padding() -> None:
    for sign in (1.0, -1.0):
        scores = torch.tensor([math.nan * sign, 1.0, 5.0, -math.inf])
        mask = torch.tensor([True, True, False, True])
        for dtype in (torch.float32, torch.float64):
            assert soft_sort(scores.to(dtype), mask=mask).index.tolist()[-1] == 2


@pytest.mark.parametrize("soft", [False, True])
def test_an_empty_batch(soft: bool) -> None:
    scores = torch.randn(0, 3, 5, requires_grad=True)
    order = soft_sort(scores, mask=torch.ones(0, 1, 5, dtype=torch.bool), soft=soft)
    uses = [order.sort(torch.randn(0, 1, 5, 5), (2, 3)), order.unsort(torch.randn(0, 3, 5, 2), -2), order.entropy()]
    assert [use.shape for use in uses] == [(0, 3, 5, 5), (0, 3, 5, 2), (0, 3)]
    sum(use.sum() for use in uses).backward()
    assert scores.grad.shape == (0, 3, 5)


def test_masked_booleans_stay_booleans() -> None:
    order = soft_sort(torch.tensor([0.1, 0.9, 0.5]), mask=torch.tensor([True, False, True]))
    assert torch.equal(order.sort(torch.tensor([True, True, True])), torch.tensor([True, True, False]))


def test_what_cannot_be_blended_or_named_twice_is_refused() -> None:
    with pytest.raises(DtypeError, match=r"Expected a floating tensor to blend its items \(got torch.int64\)"):
        soft_sort(torch.randn(3), soft=True).sort(torch.arange(3))
    with pytest.raises(ShapeError, match=r"Expected different axes \(got \(-1, 1\)\)"):
        soft_sort(torch.randn(3)).sort(torch.randn(3, 3), (-1, 1))
    with pytest.raises(RangeError, match="Expected relax to be None or True"):
        soft_sort(torch.randn(3), soft=True, relax=False)


# second derivatives

MOVES = {
    "sort": lambda order, x: order.sort(x, -2),
    "sort pairs": lambda order, x: order.sort(x, (-2, -1)),
    "unsort": lambda order, x: order.unsort(x, -2),
    "both": lambda order, x: order.unsort(order.sort(x, -2).tanh() * torch.arange(1.0, 6).to(x).view(5, 1), -2),
}
DENSE_MOVES = {
    "sort": lambda matrix, x: matrix.mT @ x,
    "sort pairs": lambda matrix, x: matrix.mT @ x @ matrix,
    "unsort": lambda matrix, x: matrix @ x,
    "both": lambda matrix, x: matrix @ ((matrix.mT @ x).tanh() * torch.arange(1.0, 6).to(x).view(5, 1)),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_derivatives_in_the_inputs_and_then_in_the_scores_are_those_of_the_dense_form(name: str, masked: bool) -> None:
    """Those of y = P x + (R - stop(R)) x, with R the relaxed permutation."""
    generator = torch.Generator().manual_seed(0)
    x, v = (torch.randn(3, 5, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    scores = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]]).bool() if masked else None
    if mask is not None:
        x = x * mask.unsqueeze(-1) * mask.unsqueeze(-2)
    derivatives = []
    for ours in (True, False):
        leaf, z = x.clone().requires_grad_(), scores.clone().requires_grad_()
        if ours:
            y = MOVES[name](soft_sort(z, mask=mask, tau=0.3), leaf)
        else:
            y = DENSE_MOVES[name](dense_sort(z, mask, tau=0.3).straight_through(), leaf)
        (first,) = torch.autograd.grad((y.square() + 0.3 * y**3).sum(), leaf, create_graph=True)
        derivatives.append(torch.autograd.grad((first * v).sum(), (leaf, z), materialize_grads=True))
    for actual, wanted in zip(*derivatives, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-11)
    assert bool(derivatives[0][1].abs().max() > 1e-3)


def test_second_derivatives_in_the_scores_are_refused_by_name() -> None:
    z = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    for value in (soft_sort(z, tau=0.3).sort(torch.randn(2, 5, dtype=torch.float64)).square().sum(),
                  soft_sort(z, tau=0.3).entropy().sum()):  # fmt: skip
        (first,) = torch.autograd.grad(value, z, create_graph=True)
        with pytest.raises(DerivativeError, match="to be differentiated once"):
            torch.autograd.grad(first.sum(), z)
