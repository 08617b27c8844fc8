import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from probsym import Symmetrized, bases, testing
from probsym.lab.engine import Engine
from probsym.lab.examples import Examples
from probsym.lab.recipe import Recipe
from probsym.lab.recipes.motion import SOFTENING, RelativeMotion, Stages
from probsym.lab.recipes.nbody import METHODS, READING_MOTION, RECIPES, ROUNDS, STAGED, STAGES, NBody
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine
from probsym.nets import edge_convolution, vector_neurons, vn_dgcnn
from probsym.ops import argument_checks, permute
from probsym.ops.jacobi import jacobi
from probsym.samplers import principal_axes
from tests.host_waits import HostWaitError, no_host_waits
from tests.lab.nbody_cases import EXAMPLES, NAMES, Few, particles


def in_double(examples: Examples) -> list[torch.Tensor]:
    return [tensor.double() for tensor in examples.inputs]


def losses_with(**changes: float) -> tuple[float, float]:
    """Of the first training step, and of validation before it."""
    recipe = replace(NAMES["nbody/gnn-ga"], task=Few)
    settings = replace(recipe.settings, batch_size=4, samples=2, eval_samples=2, **changes)
    engine = make_engine(recipe, settings, make_fabric(Options("cpu")), seed=0)
    valid = engine.evaluate(engine.data.valid, 0, "valid")["loss"]
    return engine.train_step(torch.arange(4), 0, 0)[1].item(), valid


def test_pair_features_are_charges_and_squared_distances() -> None:
    position, _, pairs = EXAMPLES.inputs
    given = particles()
    for i in range(5):
        for j in range(5):
            products = (given.charges[:, i] * given.charges[:, j])[:, 0] if i != j else torch.zeros(12).double()
            assert torch.allclose(pairs[:, i, j, 0].double(), products)
            assert torch.allclose(pairs[:, i, j, 1], (position[:, i] - position[:, j]).square().sum(-1), atol=1e-5)
    assert EXAMPLES.ids.tolist() == list(range(12))


def test_noise_is_on_positions_and_velocities_and_distances_follow() -> None:
    many = EXAMPLES.take(torch.arange(12).repeat(500))
    noisy = NBody().disturbed(many, 0.1, torch.Generator().manual_seed(0))
    position, velocity, pairs = noisy.inputs
    moved = [new - old for new, old in zip((position, velocity), many.inputs[:2], strict=True)]
    for noise in moved:
        assert noise.mean().abs() < 0.002
        assert abs(noise.std() - 0.1) < 0.002
    assert (moved[0] * moved[1]).mean().abs() < 0.0002
    torch.testing.assert_close(pairs[..., 1], torch.cdist(position, position).square(), rtol=1e-4, atol=1e-3)
    assert pairs[..., 0].equal(many.inputs[2][..., 0])
    assert noisy.targets is many.targets
    assert noisy.ids is many.ids


def test_only_training_has_noise_on_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed, seen = NBody.disturbed, []

    def noted(task: NBody, batch: Examples, deviation: float, generator: torch.Generator) -> Examples:
        seen.append(disturbed(task, batch, deviation, generator))
        return seen[-1]

    monkeypatch.setattr(NBody, "disturbed", noted)
    (plain, valid), (noisy, same) = (losses_with(input_noise=deviation) for deviation in (0.0, 0.3))
    assert valid == same
    assert plain != noisy
    tried, trained = seen
    assert len(tried.ids) == 1 < len(trained.ids)


def test_large_errors_may_count_linearly_in_training_alone() -> None:
    output, targets = torch.tensor([0.05, -0.3]), torch.zeros(2)
    wanted = torch.tensor([0.05**2, 2 * 0.1 * 0.3 - 0.1**2]).mean()
    torch.testing.assert_close(NBody().huber_loss(output, targets, 0.1), wanted)
    (square, valid), (linear, same) = (losses_with(huber=bound) for bound in (0.0, 0.1))
    assert valid == same
    assert square > linear > 0


def test_calm_systems_are_those_that_are_not_chaotic(monkeypatch: pytest.MonkeyPatch) -> None:
    chaotic = {"train": torch.tensor([True]), "test": torch.tensor([False, True, False])}
    monkeypatch.setattr("probsym.lab.recipes.nbody.nbody_chaos", lambda show: chaotic)
    parts = NBody().test_parts()
    assert {name: part.tolist() for name, part in parts.items()} == {"calm": [True, False, True]}


def test_there_is_a_recipe_for_every_base_and_method() -> None:
    methods = (*METHODS, *(f"{method}-motion" for method in READING_MOTION))
    both = {f"nbody/{base}-{method}" for base in ("transformer", "gnn") for method in methods}
    assert set(NAMES) == both | {"nbody/gnn-ps-best"} | {
        f"nbody/{base}-{method}" for base in STAGED for method in READING_MOTION
    }


@pytest.mark.parametrize("name", NAMES)
def test_models_follow_permutations_and_rigid_motions(name: str) -> None:
    torch.manual_seed(0)
    recipe = NAMES[name]
    model = recipe.build(replace(recipe.settings, samples=2, eval_samples=2)).double().eval()
    assert isinstance(model, Symmetrized)
    few = EXAMPLES.take(slice(0, 3))
    equivariance = testing.assert_equivariant(model, *in_double(few), tolerance=1e-8)
    assert equivariance.unclear < equivariance.draws


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_positions(name: str) -> None:
    torch.manual_seed(0)
    recipe = NAMES[name]
    model = recipe.build(replace(recipe.settings, samples=2, eval_samples=2)).eval()
    few = EXAMPLES.take(slice(0, 3))
    shift = torch.tensor([10.0, -20.0, 30.0])
    inputs = list(few.inputs)
    noise = model.noise(*inputs)
    with torch.no_grad():
        here = model(*inputs, noise=noise)
        there = model(inputs[0] + shift, *inputs[1:], noise=noise)
    assert here.shape == (3, 5, 3)
    torch.testing.assert_close(there - shift, here, rtol=0, atol=2e-2 if "canonical" in name else 1e-3)


def test_the_egnn_is_there_to_compare_with(tmp_path: Path) -> None:
    recipe = replace(next(recipe for recipe in RECIPES if recipe.name == "nbody/egnn"), task=Few)
    engine = make_engine(recipe, replace(recipe.settings, epochs=30, batch_size=4), make_fabric(Options("cpu")))
    training = Training(engine, recipe, 0, tmp_path)
    training.run()
    losses = [row["train_loss"] for row in training.progress.curve]
    assert losses[-1] < losses[0] / 2


def test_parameters_are_those_of_the_paper() -> None:
    for name, base, sampler in (
        ("nbody/transformer-ps", 208_387, 6_897),
        ("nbody/gnn-ga", 92_103, 0),
    ):
        model = NAMES[name].build(NAMES[name].settings)
        assert sum(parameter.numel() for parameter in model.base.parameters()) == base
        assert sum(parameter.numel() for parameter in model.sampler.parameters()) == sampler


def test_transformers_predict_displacements_that_are_added_after_the_average() -> None:
    for name, recipe in NAMES.items():
        model = recipe.build(recipe.settings)
        moves = any(word in name for word in ("transformer", "-motion", "-best", *STAGED))
        assert model.residual == (0 if moves else None)


def test_some_bases_read_how_pairs_move() -> None:
    """Each feature for one pair, by hand."""
    for name, recipe in NAMES.items():
        base = recipe.build(recipe.settings).base
        assert isinstance(base, RelativeMotion) == name.endswith(("-motion", "-best"))
        if isinstance(base, Stages):
            stages, rounds = (1, ROUNDS) if "recurrent" in name else (STAGES, 1)
            assert [type(stage) for stage in base.stages] == [RelativeMotion] * stages
            assert base.rounds == rounds
    position, velocity = torch.zeros(1, 5, 3), torch.zeros(1, 5, 3)
    position[0, 1, 0], velocity[0, 1], velocity[0, 2, 1] = 2.0, torch.tensor([3.0, 4.0, 0.0]), 1.0
    charges, squares = torch.full((1, 5, 5), -1.0), (position.unsqueeze(1) - position.unsqueeze(2)).square().sum(-1)
    seen: list[torch.Tensor] = []

    def base(*inputs: torch.Tensor) -> torch.Tensor:
        seen.extend(inputs)
        return inputs[0]

    RelativeMotion(base)(position, velocity, torch.stack([charges, squares], -1))
    r = (4 + SOFTENING) ** 0.5
    wanted = torch.tensor([-1.0, 4.0, 1 / r, -1 / r, 2 * 3 / r, 3**2 + 4**2])
    torch.testing.assert_close(seen[2][0, 0, 1], wanted)
    torch.testing.assert_close(seen[2][0, 1, 0], wanted)
    near = SOFTENING**-0.5
    torch.testing.assert_close(seen[2][0, 0, 2], torch.tensor([-1.0, 0.0, near, -near, 0.0, 1.0]))


@pytest.mark.parametrize("rounds", [1, 3])
def test_each_stage_reads_particles_as_the_one_before_left_them(rounds: int) -> None:
    """Free particles, by hand: every stage moves them by half their velocity, and doubles it."""
    seen: list[list[torch.Tensor]] = []

    class Stage(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            seen.append(list(inputs))
            return torch.cat([inputs[1] / 2, inputs[1]], -1)

    position, velocity, pairs = EXAMPLES.take(slice(0, 2)).inputs
    once = Stages([Stage(), Stage(), Stage()])
    moved = (once if rounds == 1 else Stages([Stage()], rounds))(position, velocity, pairs)
    torch.testing.assert_close(moved, (0.5 + 1 + 2) * velocity)
    for inputs, steps, factor in zip(seen, (0, 0.5, 1.5), (1, 2, 4), strict=True):
        here = position + steps * velocity
        torch.testing.assert_close(inputs[0], here)
        torch.testing.assert_close(inputs[1], factor * velocity)
        torch.testing.assert_close(inputs[2][..., 0], pairs[..., 0])
        torch.testing.assert_close(inputs[2][..., 1], (here.unsqueeze(1) - here.unsqueeze(2)).square().sum(-1))
    torch.testing.assert_close(seen[0][2], pairs)


@pytest.mark.parametrize("row", ["transformer-ps", "gnn-ps", "transformer-ps-motion", "gnn-ps-motion", "staged-gnn-ps"])
def test_a_base_can_have_dropout(row: str) -> None:
    recipe = NAMES[f"nbody/{row}"]
    model = recipe.build(replace(recipe.settings, base_dropout=0.3))
    parts = [part for part in model.base.modules() if isinstance(part, bases.GNN | bases.SequenceTransformer)]
    assert [part.arguments["dropout"] for part in parts] == [0.3] * (STAGES if "staged" in row else 1)


def test_draws_are_those_of_the_paper() -> None:
    for recipe in NAMES.values():
        model = recipe.build(recipe.settings)
        single = recipe.name.endswith(("canonical", "fa"))
        training = 1 if recipe.name.endswith("-best") or any(base in recipe.name for base in STAGED) else 20
        assert (model.samples, model.eval_samples) == ((1, 1) if single else (training, 20))
        draws = (20, (200,)) if "gnn" in recipe.name and "egnn" not in recipe.name else (200, (20,))
        assert (recipe.settings.test_samples, recipe.settings.also_test_samples) == draws


@pytest.mark.parametrize("name", ["nbody/transformer-ps", "nbody/gnn-fa", "nbody/gnn-canonical"])
def test_runs_are_trained_and_tested(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(NAMES[name], task=Few)
    settings = replace(recipe.settings, epochs=2, batch_size=4, samples=2, eval_samples=2)
    settings = replace(settings, test_samples=3, also_test_samples=(5,))
    assert isinstance(recipe, Recipe)
    engine = make_engine(recipe, settings, make_fabric(Options("cpu")))
    drawn = []
    noise = Symmetrized.noise

    def noted(model: Symmetrized, *inputs: torch.Tensor, **options: object) -> object:
        new_noise = noise(model, *inputs, **options)
        drawn.append(new_noise.draws())
        return new_noise

    monkeypatch.setattr(Symmetrized, "noise", noted)
    metrics = Training(engine, recipe, 0, tmp_path).run()
    assert metrics["test_mse"] == metrics["test_loss"] > 0
    wanted = {"nbody/transformer-ps": {2, 3, 5}, "nbody/gnn-fa": {1}, "nbody/gnn-canonical": {1}}[name]
    assert set(drawn) == wanted
    assert ("test_mse@5" in metrics) == ("test_mse_at_end@5" in metrics) == (5 in wanted)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways that tensors on a GPU go, for those that a CPU has its own for."""
    monkeypatch.setattr(principal_axes, "_solver", lambda points: jacobi)
    for module in (edge_convolution, vector_neurons, vn_dgcnn):
        monkeypatch.setattr(module, "in_blocks", lambda x: False)
    monkeypatch.setattr(permute, "traced", lambda: True)
    monkeypatch.setattr(argument_checks, "traced", lambda: True)


def small_engine(name: str) -> Engine:
    """In training, with an optimiser that waits for nothing; Adam's way not to is for GPUs alone."""
    recipe = replace(NAMES[name], task=Few)
    engine = make_engine(recipe, replace(recipe.settings, batch_size=4, samples=2), make_fabric(Options("cpu")))
    engine.optimiser = torch.optim.SGD(engine.model.parameters(), lr=1e-3)
    engine.model.train()
    return engine


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_a_training_step_waits_for_a_gpu(name: str) -> None:
    engine, index = small_engine(name), torch.arange(4)
    with no_host_waits():
        losses = engine.train_step(index, 0, 0)
    assert losses.isfinite().all()


@pytest.mark.parametrize("name", ["nbody/gnn-fa", "nbody/transformer-fa"])
def test_the_solver_of_a_cpu_would_be_noticed(name: str) -> None:
    engine, index = small_engine(name), torch.arange(4)
    engine.model.check_finite = False  # which looks at inputs on a CPU
    with pytest.raises(HostWaitError, match="eigh"), no_host_waits():
        engine.train_step(index, 0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
def test_losses_of_a_step_compile_in_one_graph() -> None:
    engine = small_engine("nbody/transformer-fa")
    batch = engine.data.train
    noise = engine._noise(batch)
    wanted = engine._losses(batch, noise, batch.targets)
    torch._dynamo.reset()
    losses = torch.compile(engine._losses, backend="aot_eager", fullgraph=True)(batch, noise, batch.targets)
    losses[0].backward()
    torch.testing.assert_close(losses, wanted, rtol=1e-4, atol=1e-5)


def test_data_are_simulated_once_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))
    module = importlib.import_module("probsym.data.nbody")
    monkeypatch.setattr(module, "SIZES", {"train": 5, "valid": 2, "test": 3})
    monkeypatch.setattr(module, "USED", {"train": 4, "valid": 2, "test": 3})
    first = NBody().load()
    assert [part.size for part in first] == [4, 2, 3]
    assert torch.cat([part.ids for part in first]).tolist() == list(range(9))
    assert "9/9" in capsys.readouterr().err
    again = NBody().load()
    assert torch.equal(first.test.targets, again.test.targets)
    assert capsys.readouterr().err == ""
