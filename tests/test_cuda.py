"""The same numbers on a GPU as on a CPU, for whatever has its own path through the hardware."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from probsym import Signature, Symmetrized, groups, samplers
from probsym.bases import PatchTransformer
from probsym.bases.encoders import Encoder, EncoderSettings
from probsym.lab.analyses import ANALYSES, STUDIES
from probsym.lab.analyses.analysis import Questions
from probsym.lab.capture import Captured
from probsym.lab.engine import COMPILER, Engine
from probsym.lab.pictures.permutations import permutations
from probsym.lab.run import Options, load_run, make_fabric
from probsym.lab.training import initial_weights, make_engine
from probsym.nets.edge_convolution import EdgeConvolution
from probsym.ops import descending, gram_schmidt, short_attention, soft_sort, take
from probsym.ops.jacobi import jacobi
from probsym.ops.masked_batch_norm import MaskedBatchNorm
from probsym.testing import assert_equivariant, assert_group_laws
from tests.data.packing import packed, several
from tests.lab.analyses.test_analyses import quiet
from tests.lab.cases import PS, kept_run
from tests.lab.nbody_cases import NAMES, Few
from tests.symmetrized_cases import SAMPLERS, SETTINGS, applies, make_inputs, make_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def close(actual: Tensor, wanted: Tensor, tolerance: float) -> bool:
    return bool((actual.cpu().double() - wanted.double()).abs().max() <= tolerance * wanted.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 5, 64, 444])
def test_soft_sort(n: int, dtype: torch.dtype) -> None:
    scores = torch.randn(3, 4, n, dtype=dtype)
    mask = torch.rand(3, 1, n) < 0.8
    mask[..., 0] = True
    features, pairs, output = (torch.randn(*shape, dtype=dtype) for shape in ((3, 1, n, 2), (3, 1, n, n), (3, 4, n, 2)))
    results = []
    for device in ("cpu", "cuda"):
        leaf = scores.to(device, torch.float64 if device == "cpu" else dtype).requires_grad_()
        order = soft_sort(leaf, mask=mask.to(device), tau=0.05)
        x, a, y = (tensor.to(leaf) for tensor in (features, pairs, output))
        uses = [order.sort(x, -2), order.sort(a, (2, 3)), order.unsort(y, -2), order.entropy()]
        (gradient,) = torch.autograd.grad(sum(use.sin().sum() for use in uses), leaf)
        results.append([*uses, gradient])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    assert n == 1 or all(close(actual, wanted, tolerance) for wanted, actual in zip(*results, strict=True))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_synchronisation_in_a_step() -> None:
    """Nothing in a training step waits for the GPU, so that a step can be captured as a CUDA graph."""
    scores = torch.randn(4, 10, 64, device="cuda", requires_grad=True)
    mask = torch.ones(4, 1, 64, device="cuda", dtype=torch.bool)
    pairs = torch.randn(4, 1, 64, 64, device="cuda")
    features, noise = torch.randn(2, 40, 3, 3, device="cuda").unbind(0)

    def step() -> None:
        order = soft_sort(scores, mask=mask)
        (order.sort(pairs, (2, 3)).sum() + order.entropy().sum() + gram_schmidt(features, noise).sum()).backward()

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_step_can_be_captured() -> None:
    scores = torch.randn(4, 10, 64, device="cuda", requires_grad=True)
    pairs = torch.randn(4, 1, 64, 64, device="cuda")

    def step() -> Tensor:
        order = soft_sort(scores)
        value = order.sort(pairs, (2, 3)).sin().sum() + order.entropy().sum()
        return torch.autograd.grad(value, scores)[0]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            wanted = step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradient = step()
    graph.replay()
    torch.cuda.synchronize()
    assert close(gradient, wanted.cpu(), 1e-6)


@pytest.mark.parametrize("group", [groups.S(), groups.SO(3), groups.SE(3), groups.D(4)], ids=repr)
def test_group_laws_and_signature(group: groups.Group) -> None:
    device = torch.device("cuda")
    assert_group_laws(group, size=6 if group != groups.S() else 9)
    elements = group.haar((5,), size=9, device=device)
    assert elements.device.type == "cuda"
    assert group.contains(elements).all()
    d = group.axis_size() or 9
    signature = Signature.parse("a c -> a c", {"a": group})
    x = torch.randn(5, d, 2, device=device)
    (moved,) = signature.act({"a": elements}, [x])
    (wanted,) = signature.act({"a": elements.cpu()}, [x.cpu()])
    assert close(moved, wanted, 1e-5)


@pytest.mark.parametrize(
    ("setting", "sampler", "masking"),
    [
        (setting, sampler, masking)
        for setting, case in SETTINGS.items()
        for sampler in SAMPLERS
        if applies(setting, sampler)
        for masking in (("none", "holes") if case.maskable else ("none",))
    ],
)
def test_symmetrized_models_are_equivariant(setting: str, sampler: str, masking: str) -> None:
    case = SETTINGS[setting]
    inputs, mask = make_inputs(case, torch.float64, masking, torch.Generator().manual_seed(1))
    inputs = [x.cuda() for x in inputs]
    mask = torch.utils._pytree.tree_map(lambda tensor: tensor if tensor is None else tensor.cuda(), mask)
    for output in case.outputs:
        model = make_model(case, output, sampler, torch.float64).cuda()
        assert_equivariant(model, *inputs, mask=mask, generator=torch.Generator("cuda").manual_seed(2))


@pytest.mark.parametrize("setting", ["S", "S x SE(3)", "D(4) on images"])
def test_symmetrized_training_step_agrees_with_a_cpu(setting: str) -> None:
    case = SETTINGS[setting]
    inputs, mask = make_inputs(case, torch.float64, "holes", torch.Generator().manual_seed(1))
    gradients = []
    for device in ("cpu", "cuda"):
        model = make_model(case, case.outputs[0], "Learned", torch.float64).train()
        noise = model.noise(*inputs, mask=mask, samples=3, generator=torch.Generator().manual_seed(3))
        model.to(device)
        there = torch.utils._pytree.tree_map(lambda tensor, device=device: tensor.to(device), noise)
        estimate = model.estimate(
            *(x.to(device) for x in inputs), mask=None if mask is None else mask.to(device), noise=there
        )
        loss = estimate.mean.square().sum() + sum(estimate.losses.values())
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten().cpu() for p in model.parameters() if p.grad is not None]))
    assert close(gradients[1], gradients[0], 1e-8)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("setting", ["S", "O(3)", "S x SE(3)"])
def test_no_synchronisation_in_a_training_step_of_a_model(setting: str, estimate: bool) -> None:
    case = SETTINGS[setting]
    inputs, mask = make_inputs(case, torch.float32, "holes", torch.Generator().manual_seed(1))
    inputs = [x.cuda() for x in inputs]
    mask = torch.utils._pytree.tree_map(lambda tensor: tensor.cuda(), mask)
    model = make_model(case, case.outputs[0], "Learned", torch.float32).cuda().train()

    def step() -> None:
        output = (model.estimator() if estimate else model)(*inputs, mask=mask)
        loss = output.mean.square().mean() + sum(output.losses.values()) if estimate else output.square().mean()
        loss.backward()

    step()  # what is made once may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("setting", ["O(3)", "S x SE(3)"])
def test_no_synchronisation_in_a_training_step_with_a_frame(setting: str) -> None:
    case = SETTINGS[setting]
    inputs, mask = make_inputs(case, torch.float32, "holes", torch.Generator().manual_seed(1))
    inputs = [x.cuda() for x in inputs]
    mask = torch.utils._pytree.tree_map(lambda tensor: tensor.cuda(), mask)
    model = make_model(case, case.outputs[0], "Frame", torch.float32).cuda().train()
    model(*inputs, mask=mask).square().mean().backward()  # what is made once may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        model(*inputs, mask=mask).square().mean().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_of_particles_can_be_captured(name: str) -> None:
    recipe, losses = replace(NAMES[name], task=Few), []
    settings = replace(recipe.settings, batch_size=4, samples=2, dropout=0.0)
    for capture in (False, True):
        engine = make_engine(recipe, settings, make_fabric(Options("cuda")), capture=capture)
        engine.model.load_state_dict(initial_weights(recipe, settings, 0))
        engine.model.train()
        index = torch.arange(4, device="cuda")
        losses.append([float(engine.train_step(index, 0, step)[0]) for step in range(3)])
    plain, captured = losses
    assert plain[0] == pytest.approx(captured[0], rel=1e-4)
    assert plain == pytest.approx(captured, rel=1e-2)
    assert len(set(captured)) == 3


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_the_captured_loop_of_the_docs() -> None:
    """Its weights are those of the same steps without a graph: three on the first batch, then one on each."""
    page = Path(__file__).resolve().parents[1] / "docs" / "guide" / "speed.md"
    section = page.read_text().split("## Capture whole steps")[1].split("\n## ")[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    base = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 6))
    model = Symmetrized(Flattened(base), "n d -> n d", {"n": groups.S()}, samplers.Enumerate()).double().cuda()
    batches = torch.randn(5, 2, 4, 3, 2, device="cuda", dtype=torch.float64)
    plain = deepcopy(model)
    exec(compile(code, str(page), "exec"), {"torch": torch, "model": model, "batches": batches})
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
    for x, target in (*[batches[0]] * 3, *batches):
        optimizer.zero_grad()
        (plain(x) - target).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    for parameter, wanted in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter, wanted, atol=1e-10, rtol=1e-8)


class Flattened(nn.Module):
    """A base that reads all items of a set as one vector."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x.flatten(1)).view(x.shape)


@pytest.mark.parametrize("capture", [False, True])
def test_weights_are_averaged_in_captured_steps_too(capture: bool) -> None:
    recipe = replace(NAMES["nbody/gnn-ps"], task=Few)
    settings = replace(recipe.settings, batch_size=4, samples=2, averaging=0.5)
    engine = make_engine(recipe, settings, make_fabric(Options("cuda")), capture=capture)
    engine.start(initial_weights(recipe, settings, 0))
    engine.model.train()
    wanted = [parameter.detach().clone() for parameter in engine.model.parameters()]
    for step in range(3):
        engine.train_step(torch.arange(4, device="cuda"), 0, step)
        for average, now in zip(wanted, engine.model.parameters(), strict=True):
            average.lerp_(now.detach(), 0.5)
    assert engine.average is not None
    for average, wanted_average in zip(engine.average, wanted, strict=True):
        torch.testing.assert_close(average, wanted_average)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_jacobi(d: int, dtype: torch.dtype) -> None:
    x = torch.randn(100, d, d, dtype=dtype)
    matrix = x + x.mT
    values, vectors = jacobi(matrix.cuda())
    rounding = 100 * torch.finfo(dtype).eps
    assert close(values, torch.linalg.eigvalsh(matrix), rounding)
    assert close((vectors * values.unsqueeze(-2)) @ vectors.mT, matrix, rounding)
    assert close(vectors.mT @ vectors, torch.eye(d).expand(100, d, d), rounding)


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_short_attention(dtype: torch.dtype, masked: bool, compiled: bool) -> None:
    packed = torch.randn(40, 25, 3 * 64)
    seen = torch.rand(40, 25) < 0.7 if masked else None
    weights = torch.randn(40, 25, 64)
    results = []
    for device in ("cpu", "cuda"):
        leaf = packed.to(device, torch.float64 if device == "cpu" else dtype).requires_grad_()
        attend = torch.compile(short_attention, fullgraph=True) if compiled and device == "cuda" else short_attention
        y = attend(leaf, 4, None if seen is None else seen.to(device))
        results.append([y, *torch.autograd.grad((y * weights.to(y)).sum(), leaf)])
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float64: 1e-12}[dtype]
    assert all(close(actual, wanted, tolerance) for wanted, actual in zip(*results, strict=True))


def encoder_that_drops() -> tuple[Encoder, list[Tensor]]:
    """An encoder whose values are all one, and a list of what its attention gives: sums of what it keeps."""
    shape = {"family": "bert", "width": 128, "layers": 1, "heads": 2, "feed_forward": 128}
    encoder, kept = Encoder(EncoderSettings.of({**shape, "attention_dropout": 0.1})).cuda(), []
    attention = encoder.layers[0].attention.self
    torch.nn.init.zeros_(attention.value.weight)
    torch.nn.init.ones_(attention.value.bias)
    attention.register_forward_hook(lambda module, inputs, output: kept.append(output[0].detach()))
    return encoder, kept


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_in_attention_has_its_rate(compiled: bool) -> None:
    torch.manual_seed(0)
    encoder, kept = encoder_that_drops()
    call = torch.compile(encoder, fullgraph=True) if compiled else encoder
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(2):
            call(torch.randn(64, 197, 128, device="cuda"))
    first, second = (output.float() for output in kept[-2:])
    assert float(first.mean()) == pytest.approx(1, abs=5e-3)
    assert float(first.std()) == pytest.approx((0.1 / 0.9 / 197) ** 0.5, rel=0.05)
    assert not torch.equal(first, second)


def test_captured_attention_drops_anew_every_time() -> None:
    encoder, kept = encoder_that_drops()
    tokens, index = torch.randn(8, 197, 128, device="cuda"), torch.arange(8, device="cuda")

    def call(index: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            encoder(tokens[index])
        return kept[-1]

    captured, outputs = Captured(call, index, torch.Generator("cuda")), []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        outputs.append(captured(index).clone())
    torch.manual_seed(0)
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[0], call(index))
    assert not torch.equal(outputs[0], outputs[1])


def test_captured_patch_dropout_draws_its_share_anew() -> None:
    shape = {"family": "vit", "width": 32, "layers": 1, "heads": 2, "feed_forward": 32}
    model, seen = PatchTransformer("n 3 -> 2", 9, shape, 4, patch_dropout=(0.0, 0.9)).cuda(), []
    model.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    x, index = torch.randn(8, 9, 3, device="cuda"), torch.arange(8, device="cuda")

    def call(index: Tensor) -> Tensor:
        with torch.no_grad():
            model(x[index])
        return seen[-1]

    captured, counts = Captured(call, index, torch.Generator("cuda")), []
    for seed in range(8):
        torch.manual_seed(seed)
        counts.append(int(captured(index).sum()))
        torch.manual_seed(seed)
        assert int(call(index).sum()) == counts[-1]
    assert len(set(counts)) > 3


@pytest.mark.parametrize("targets", ["graph", "node", "pair"])
def test_padded_batches_are_made_on_the_gpu_and_can_be_captured(targets: str) -> None:
    whole = packed(several(), targets)
    there = whole.to("cuda")
    index = torch.tensor([0, 1, 2], device="cuda")

    def call() -> list[Tensor]:
        batch = there.batch(index)
        return [batch.features, batch.edges.dense(), batch.edges.values, batch.mask, batch.targets, batch.known]

    call()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    for wanted in ([0, 1, 2], [3, 2, 3]):
        index.copy_(torch.tensor(wanted))
        graph.replay()
        batch = whole.batch(torch.tensor(wanted))
        expected = [batch.features, batch.edges.dense(), batch.edges.values, batch.mask, batch.targets, batch.known]
        assert all(torch.equal(on_gpu.cpu(), on_cpu) for on_gpu, on_cpu in zip(captured, expected, strict=True))


def test_runs_are_analysed(tmp_path: Path) -> None:
    """Also a run of captured steps, and on a CPU the weights that a GPU kept."""
    engine = kept_run(tmp_path, options=Options("cuda", capture=True))
    rows = {name: analysis(engine, Questions(samples=20, repeats=3), quiet) for name, analysis in ANALYSES.items()}
    assert [row["epoch"] for row in rows["entropy"]] == [row["epoch"] for row in rows["gradient"]] == [0, 2, 4]
    assert permutations({"mine": engine}).axes
    here = load_run(tmp_path / PS.name / "seed-0", PS, Options("cpu"))
    # other random numbers: means of ten seeds differ by 1 % and by 12 % at most
    for name, key, apart in (("entropy", "row_entropy", 0.03), ("gradient", "norm", 0.2)):
        ours, others = (_mean_over_seeds(run, name, key) for run in (engine, here))
        assert ours == pytest.approx(others, rel=apart)
    (study,) = STUDIES.values()
    spread = {row["method"]: row["spread"] for row in study(torch.device("cuda"), Questions(samples=500), quiet)}
    assert spread["ps"] < 0.1 < spread["canonical"]


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("tied", [False, True])
def test_compiled_sorts_are_one_operation_and_keep_ties_in_place(tied: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(3, (50, 444), generator=generator).float()
    ties = torch.randint(3, (50, 444), generator=generator).float() if tied else None
    mask = torch.rand(50, 444, generator=generator) < 0.8
    there = [None if x is None else x.cuda() for x in (scores, mask, ties)]
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    for backend in (keep, "inductor"):
        order = torch.compile(descending, backend=backend, fullgraph=True)(*there)
        assert torch.equal(order.cpu(), descending(scores, mask, ties))
    targets = [str(node.target) for node in graphs[0].graph.nodes]
    assert [name for name in targets if "sort" in name or "gather" in name] == ["probsym.argsort.default"]


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 1, 5, 4), 2), ((3, 2, 5, 5), (2, 3)), ((1, 2, 5, 5, 3), (3, 2)), ((3, 1, 4, 5), 3)]
)
def test_compiled_moves_and_their_gradients(shape: tuple[int, ...], axes: int | tuple[int, int], masked: bool) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    index = torch.rand(3, 2, 5).argsort(-1)
    mask = torch.rand(3, 1, 5) < 0.7 if masked else None
    x = torch.rand(shape)
    results = []
    for device, move in (("cpu", take), ("cuda", torch.compile(take, fullgraph=True, dynamic=False))):
        own = x.to(device).requires_grad_()
        y = move(own, index.to(device), axes, None if mask is None else mask.to(device))
        weights = torch.arange(y.numel(), device=device).view(y.shape).float()
        results.append([y, *torch.autograd.grad((y * weights).sum(), own)])
    assert all(torch.equal(on_gpu.cpu(), on_cpu) for on_gpu, on_cpu in zip(results[1], results[0], strict=True))


def _mean_over_seeds(engine: Engine, name: str, key: str) -> list[float]:
    each = [ANALYSES[name](engine, Questions(samples=20, seed=seed), quiet) for seed in range(10)]
    return [sum(float(row[key]) for row in rows) / len(rows) for rows in zip(*each, strict=True)]


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [100, 2000])
def test_compiled_gradients_of_vector_neurons_are_those_of_the_layer(rows: int, dtype: torch.dtype) -> None:
    """At these sizes torch 2.11 mixes up padded strides, unless it is told not to pad."""
    torch.manual_seed(0)
    layer = EdgeConvolution(21, 21, neighbours=4).to("cuda", dtype)
    x = torch.randn(3, rows, 5, 21, dtype=dtype, device="cuda", requires_grad=True)
    results = []
    for call in (layer, torch.compile(layer, fullgraph=True, dynamic=False, options=dict(COMPILER))):
        trained = [x, *(parameter for parameter in layer.parameters() if parameter.requires_grad)]
        results.append([gradient.cpu() for gradient in torch.autograd.grad(call(x).sin().sum(), trained)])
    tolerance = 1e-3 if dtype == torch.float32 else 1e-9
    assert all(close(compiled, plain, tolerance) for plain, compiled in zip(*results, strict=True))


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("rows", [4, 5, 6, 7])
def test_masked_norms_compiled_for_any_size_are_exact(rows: int) -> None:
    """A quotient of two sizes would be a float32, which for 6 is not exact."""
    norm, x = MaskedBatchNorm(3).double(), torch.randn(rows, 5, 4, 3, dtype=torch.float64)
    mask = torch.rand(rows, 5, 4) < 0.8
    wanted = deepcopy(norm)(x, mask)
    output = torch.compile(norm.cuda(), dynamic=True, fullgraph=True)(x.cuda(), mask.cuda())
    assert close(output, wanted, 1e-12)


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_compiled_sums_are_of_numbers_before_they_are_overwritten() -> None:
    """A bias's gradient sums what the same kernel may overwrite: some of it twice, if the compiler is allowed to."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 16), nn.Tanh(), nn.Linear(16, 15)).double().cuda()
    compiled = torch.compile(model, dynamic=True, options=dict(COMPILER))
    for rows in (16, 20, 24, 2000) * 20:
        x = torch.randn(rows, 40, dtype=torch.float64, device="cuda")
        wanted, gradients = (
            torch.autograd.grad(call(x).square().sum(), list(model.parameters())) for call in (model, compiled)
        )
        torch.testing.assert_close(gradients, wanted)


def test_gradient_under_autocast() -> None:
    """Products in low precision, of numbers that it holds exactly, give the gradient that others give."""
    torch.manual_seed(0)
    scores = torch.randn(3, 2, 300, device="cuda")
    x = torch.randint(-2, 3, (3, 1, 300, 300, 2), device="cuda").float()
    weights = torch.randint(-2, 3, (3, 2, 300, 300, 2), device="cuda").float()
    gradients = []
    for low in (False, True):
        own = scores.clone().requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            moved = soft_sort(own, tau=0.1).sort(x, (2, 3))
        (moved * weights).sum().backward()
        assert own.grad is not None
        gradients.append(own.grad)
    assert close(gradients[1], gradients[0].cpu(), 1e-4)


@pytest.mark.parametrize("sampler", ["Haar", "Learned"])
@pytest.mark.parametrize("setting", ["S", "S x SE(3)"])
def test_seeds_give_the_same_draws(setting: str, sampler: str) -> None:
    inputs, mask = make_inputs(SETTINGS[setting], torch.float64, "holes", torch.Generator().manual_seed(0))
    model = make_model(SETTINGS[setting], "k", sampler, torch.float64)
    assert isinstance(mask, Tensor)
    wanted, seeds = model(*inputs, mask=mask, seed=3), torch.full((len(mask),), 3, device="cuda")
    output = model.cuda()(*(x.cuda() for x in inputs), mask=mask.cuda(), seed=seeds)
    assert close(output, wanted, 1e-9)
