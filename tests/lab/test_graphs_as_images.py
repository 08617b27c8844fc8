"""Every recipe of PATTERN and of molecules: small, with tiny encoders, two steps an epoch, stopped and resumed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from probsym.data import PackedGraphs, Rows, pcqm_contact, peptides_func, peptides_struct
from probsym.data.lrgb_files import Known
from probsym.errors import RunError
from probsym.lab import backbones
from probsym.lab.analyses import ANALYSES
from probsym.lab.analyses.analysis import Questions
from probsym.lab.examples import NO_TARGET, PackedExamples
from probsym.lab.final_test import report_on_test
from probsym.lab.kept_weights import KeptWeights, keep_weights
from probsym.lab.recipe import Recipe
from probsym.lab.recipes import molecules, pattern
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, initial_weights, make_engine
from probsym.samplers import Noise
from probsym.symmetrized import Symmetrized
from probsym.testing import assert_equivariant
from tests.data.molecules import contacts, peptides, write

transformers = pytest.importorskip("transformers")

NODES = 9
RECIPES = {recipe.name: recipe for recipe in pattern.RECIPES} | {
    recipe.name: replace(recipe, build=partial(recipe.build, sizes=(NODES, *recipe.build.keywords["sizes"][1:])))
    for recipe in molecules.RECIPES
}
SHAPE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
COUNTS = {"train": 50, "valid": 11, "test": 12}
RESUMED = ("vit-s-scratch-ga", "vit-s-scratch-fa", "vit-s-scratch-canonical", "vit-s-scratch-ps", "minilm-scratch-ps")
"""Recipes of every task and method, which differ from others in the size and the weights of the encoder alone."""


def graphs(count: int, atoms: tuple[int, ...], bonds: tuple[int, ...] | None, target: str) -> PackedGraphs:
    """Random graphs of 3 to 9 nodes."""
    random = torch.Generator().manual_seed(count)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=random)

    sizes = [3 + int(whole(7, 1)) for _ in range(count)]
    edges = []
    for n in sizes:
        upper = torch.rand(n, n, generator=random).triu(1) > 0.5
        edges.append((upper | upper.T).nonzero())
    nodes = Rows.join([torch.stack([whole(kinds, n) for kinds in atoms], -1) for n in sizes], most=NODES)
    links = Rows.join(edges)
    features = None
    if bonds is not None:
        features = links.like(torch.stack([whole(kinds, len(links.values)) for kinds in bonds], -1))
    pairs, targets = None, None
    if target == "nodes":
        targets = nodes.like(whole(2, sum(sizes)))
    elif target == "pairs":
        pairs = Rows.join([torch.ones(n, n).triu(1).nonzero() for n in sizes])
        targets = pairs.like((whole(3, len(pairs.values)) == 0).to(torch.uint8))
    else:
        targets = (
            torch.rand(count, int(target), generator=random).round()
            if target == "10"
            else torch.rand(count, 11, generator=random)
        )
    return PackedGraphs(nodes, links, targets, features, pairs, node_kinds=atoms, edge_kinds=bonds)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny encoders and weights of their own."""
    folder = tmp_path_factory.mktemp("encoders")
    torch.manual_seed(0)
    vit = transformers.ViTModel(transformers.ViTConfig(**SHAPE), add_pooling_layer=False)
    vit.save_pretrained(folder / "vit")
    bert = transformers.BertModel(transformers.BertConfig(**SHAPE, vocab_size=5), add_pooling_layer=False)
    bert.save_pretrained(folder / "bert")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoders: Path) -> None:
    """Few graphs and tiny encoders."""
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pattern, "NODES", NODES)
    monkeypatch.setattr(
        pattern, "pattern", lambda published: {n: graphs(c, (3,), None, "nodes") for n, c in COUNTS.items()}
    )
    atoms, bonds = (17, 3, 7, 7, 5, 1, 6, 2, 2), (4, 1, 2)
    sets = {"peptides_func": (atoms, bonds, "10"), "peptides_struct": (atoms, bonds, "11")}
    sets["pcqm_contact"] = ((35, 3, 7, 7, 2, 4, 6, 2, 2), (4, 1, 1), "pairs")
    for name, given in sets.items():
        monkeypatch.setattr(molecules, name, lambda given=given: {n: graphs(c, *given) for n, c in COUNTS.items()})
    tiny = {"width": 8, "layers": 1, "heads": 2, "feed_forward": 16, "eps": 1e-12}
    for name in backbones.BACKBONES:
        family = "bert" if name == "minilm" else "vit"
        backbone = backbones.Backbone({"family": family, **tiny}, lambda family=family: encoders / family, grid=3)
        monkeypatch.setitem(backbones.BACKBONES, name, backbone)


def training(recipe: Recipe, folder: Path, steps: int = 2, device: str = "cpu", capture: bool = False) -> Training:
    settings = replace(
        recipe.settings, epochs=2, batch_size=20, learning_rate=1e-3, warmup_epochs=0.5, test_samples=2,
        samples=min(recipe.settings.samples, 2), eval_samples=min(recipe.settings.eval_samples, 2),
        also_test_samples=(1,),
    )  # fmt: skip
    engine = make_engine(recipe, settings, make_fabric(Options(device)), capture=capture)
    assert engine.steps_per_epoch == steps
    return Training(engine, recipe, 0, folder, every=0)


@pytest.mark.parametrize("name", ["peptides-func", "peptides-struct", "pcqm-contact"])
def test_molecules_are_trained_on_as_their_files_have_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for read in (peptides_func, peptides_struct, pcqm_contact):
        monkeypatch.setattr(molecules, read.__name__, partial(read, download=False))
    monkeypatch.setattr("probsym.data.lrgb.KNOWN", {name: Known(6, 2.5 if name == "pcqm-contact" else 2.0, 2.0, 3)})
    sets = {"peptides-struct": peptides(11), "pcqm-contact": contacts()}
    sets["peptides-func"] = [
        [(*molecule[:-1], (molecule[-1] > 12).float()) for molecule in part] for part in peptides(10)
    ]
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path / "data"))
    write(tmp_path / "data", name, 3 * [sets[name][0]])
    run = training(RECIPES[f"{name}/vit-s-scratch-ps"], tmp_path / "run", steps=1)
    assert run.run()["test_loss"] > 0


def stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.endswith(RESUMED)])
def test_every_recipe_trains(name: str, tmp_path: Path) -> None:
    metrics = training(RECIPES[name], tmp_path).run()
    assert metrics["test_loss"] > 0
    assert ("test_loss@1" in metrics) == ("canonical" not in name)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.endswith(RESUMED)])
def test_every_task_and_method_trains_stops_and_resumes(name: str, tmp_path: Path) -> None:
    whole = training(RECIPES[name], tmp_path / "whole")
    metrics = whole.run()
    assert metrics["test_loss"] > 0
    part = training(RECIPES[name], tmp_path / "part")
    with pytest.raises(KeyboardInterrupt):
        part.run(stop)
    again = training(RECIPES[name], tmp_path / "part")
    assert again.resume()
    assert again.progress.step in (1, 2)
    resumed = again.run()
    del metrics["train_seconds"], resumed["train_seconds"]
    assert resumed == metrics
    for wanted, actual in zip(whole.engine.model.parameters(), again.engine.model.parameters(), strict=True):
        assert torch.equal(wanted, actual)
    assert ("test_loss@1" in metrics) == ("canonical" not in name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["peptides-func/vit-s-scratch-ps", "peptides-struct/vit-s-scratch-ps"])
def test_captured_steps_leave_out_the_patches_that_plain_ones_do(name: str, tmp_path: Path) -> None:
    """The first takes patches away, as many each time; the second hides a share of them that is drawn too."""
    curves = []
    for capture in (False, True):
        run = training(RECIPES[name], tmp_path / str(capture), device="cuda", capture=capture)
        run.run()
        curves.append([row[key] for row in run.progress.curve for key in ("train_total", "valid_loss")])
    assert curves[0] == pytest.approx(curves[1], rel=1e-4)


def test_validation_draws_are_those_of_the_published_settings() -> None:
    draws = {name: recipe.settings.eval_samples for name, recipe in RECIPES.items() if "vit-b" in name}
    for name, many in draws.items():
        assert many == (10 if name.endswith(("ps", "ga")) else 1)


def test_paddings_and_selection_are_those_of_the_published_settings() -> None:
    paddings = {name.split("/")[0]: recipe.settings.padding for name, recipe in RECIPES.items()}
    assert paddings == {
        "pattern": "zeros",
        "peptides-func": "reflect",
        "peptides-struct": "circular",
        "pcqm-contact": "zeros",
    }
    assert molecules.PCQMContact.selects == {"loss": False}


def test_settings_reach_the_patch_transformer() -> None:
    recipe = RECIPES["peptides-func/vit-s-scratch-ps"]
    model = recipe.build(replace(recipe.settings, padding="circular", token_std=0.5, eval_patch_dropout=0.25))
    given = model.base.arguments
    assert (given["padding"], given["token_std"], given["eval_patch_dropout"]) == ("circular", 0.5, 0.25)
    recipe = RECIPES["pattern/vit-s-scratch-ps"]
    given = recipe.build(replace(recipe.settings, padding="reflect", token_std=0.5)).base.arguments
    assert (given["padding"], given["token_std"]) == ("reflect", 0.5)


def test_patches_dropped_in_testing_are_a_function_of_the_seed() -> None:
    recipe = RECIPES["peptides-func/vit-s-scratch-ps"]
    settings = replace(recipe.settings, epochs=0, eval_samples=2, eval_patch_dropout=0.5)
    engine = make_engine(recipe, settings, make_fabric(Options("cpu")))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second, other = (engine.evaluate(engine.data.test, seed, "test")["loss"] for seed in (0, 0, 1))
    assert first == second != other
    assert torch.equal(torch.get_rng_state(), state)


def test_runs_in_low_precision_are_evaluated_in_float32() -> None:
    recipe = RECIPES["pattern/vit-s-scratch-ps"]
    losses = []
    for precision, full in (("bf16-mixed", True), ("bf16-mixed", False), ("32-true", True)):
        settings = replace(recipe.settings, epochs=0, eval_samples=1, float32_evaluation=full)
        engine = make_engine(recipe, settings, make_fabric(Options("cpu", precision=precision)))
        engine.start(initial_weights(recipe, settings, 0))
        losses.append(engine.evaluate(engine.data.valid, 0, "validation")["loss"])
    assert losses[0] == losses[2] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.1)


def test_published_graphs_are_taken_where_they_are_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    sets = {n: graphs(c, (3,), None, "nodes") for n, c in COUNTS.items()}
    monkeypatch.setattr(pattern, "pattern", lambda published: asked.append(published) or sets)
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path / "data"))
    recipe = RECIPES["pattern/vit-s-scratch-ps"]
    generated = training(recipe, tmp_path / "run")
    assert (generated.engine.task.source, asked) == ("generated", [None])
    with pytest.raises(KeyboardInterrupt):
        generated.run(stop)
    path = tmp_path / "data" / "PATTERN" / "raw" / "PATTERN_v2.pt"
    path.parent.mkdir(parents=True)
    path.touch()
    published = training(recipe, tmp_path / "run")
    assert (published.engine.task.source, asked[-1]) == ("published", tmp_path / "data")
    with pytest.raises(RunError, match="generated"):
        published.resume()


def test_what_was_built_is_recorded_and_another_model_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = RECIPES["pattern/vit-s-scratch-fa"]
    before = training(recipe, tmp_path)
    inside = before.built["base"]["parts"]["base"]  # within the wrapper that leaves the ranks out
    assert (inside["part"], inside["encoder"]["dropout"]) == ("PatchTransformer", 0.0)
    assert before.built["sampler"]["part"] == "Frame"
    with pytest.raises(KeyboardInterrupt):
        before.run(stop)
    other = backbones.BACKBONES["vit-s"]
    encoder = {**other.encoder, "dropout": 0.1}
    monkeypatch.setitem(backbones.BACKBONES, "vit-s", replace(other, encoder=encoder))
    with pytest.raises(RunError, match=r"encoder\.dropout=0\.1"):
        training(recipe, tmp_path).resume()


def test_pattern_is_tested_with_ten_draws_and_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RECIPES["pattern/vit-s-scratch-ps"]
    engine = make_engine(recipe, replace(recipe.settings, epochs=0), make_fabric(Options("cpu")))
    drawn, noise = [], Symmetrized.noise

    def noted(model: Symmetrized, *inputs: Tensor, **options: object) -> Noise:
        new_noise = noise(model, *inputs, **options)
        drawn.append(new_noise.draws())
        return new_noise

    monkeypatch.setattr(Symmetrized, "noise", noted)
    metrics = report_on_test(engine, 0, "")
    assert drawn == [10, 1, 10]
    assert {"test_accuracy", "test_accuracy@1", "test_accuracy@10"} <= set(metrics)


@pytest.mark.parametrize(
    "name", ["pattern/vit-s-scratch-ps", "pattern/vit-s-scratch-ga", "pcqm-contact/vit-s-scratch-ps"]
)
def test_runs_can_be_analysed(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    settings = replace(recipe.settings, epochs=0, samples=2)
    engine = make_engine(recipe, settings, make_fabric(Options("cpu")))
    keep_weights(engine.model, tmp_path, 0)
    engine.kept_weights = KeptWeights(tmp_path, partial(initial_weights, recipe, settings, 0))
    refused = {"tolerance": "targets that are numbers", "predictions": "one number for each example"}
    if name.endswith("-ga"):
        refused["variance"] = "a run that learned a distribution"
    for title, analysis in ANALYSES.items():
        ask = partial(analysis, engine, Questions(examples=4, samples=3, repeats=2), lambda *_: None)
        if title in refused:
            with pytest.raises(RunError, match=refused[title]):
                ask()
        else:
            assert ask()


def test_a_validation_that_no_metric_can_be_computed_of_is_not_the_end(tmp_path: Path) -> None:
    run = training(RECIPES["peptides-func/vit-s-scratch-ps"], tmp_path)
    task, calls = run.engine.task, []

    def metrics(output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        calls.append(1)
        return type(task).metrics(task, output * (torch.nan if len(calls) == 1 else 1), targets, mask)

    task.metrics = metrics  # type: ignore[method-assign]
    reported = run.run()
    assert reported["best_epoch_ap"] == 2
    assert math.isnan(run.progress.curve[0]["valid_ap"])


@pytest.mark.parametrize("name", [name for name in RECIPES if "vit-s-scratch" in name])
def test_models_are_equivariant(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    torch.manual_seed(1)
    model = recipe.build(recipe.settings).double().eval()
    few = recipe.task().load().test.take(slice(0, 4)).double()
    assert_equivariant(model, *few.inputs, mask=few.mask, samples=None if "canonical" in name else 3)


def test_pretrained_weights_are_loaded(tmp_path: Path) -> None:
    for name in ("vit-b", "minilm"):
        scratch, pretrained = (RECIPES[f"pattern/{name}-{how}-ps"] for how in ("scratch", "pretrained"))
        model = pretrained.build(pretrained.settings)
        assert len(model.base.loaded.loaded) > 10
        assert scratch.build(scratch.settings).base.loaded is None


def test_settings_are_those_of_the_paper() -> None:
    for name, recipe in RECIPES.items():
        settings = recipe.settings
        steps = {"pattern": 78, "peptides-func": 84, "peptides-struct": 84, "pcqm-contact": 3722}[name.split("/")[0]]
        total = 25_000 if name.startswith("pattern") else 50_000
        assert settings.epochs * steps == pytest.approx(total, rel=0.05)
        assert settings.warmup_epochs * steps == pytest.approx(5_000, rel=0.01)
        assert (settings.batch_size, settings.decoupled, settings.decay) == (128, True, True)
        assert settings.learning_rate == (5e-5 if name.startswith("pcqm") else 1e-5)
        assert settings.weight_decay == (0.1 if name.startswith("peptides") else 0.01)
        assert settings.samples == (10 if name.startswith("pcqm") or name.endswith("-ga") else 1)
        assert (settings.noise, settings.tau, settings.entropy) == (1.0, 0.01, 0.1)
        assert settings.dropout == (0.0 if name.startswith("pcqm") else 0.1)
        if not name.startswith("pattern"):
            assert (settings.eval_samples, settings.test_samples) == (10, 10 if name.startswith("pcqm") else 100)
            shares = {"peptides-func": (0.5, 0.5), "peptides-struct": (0.0, 0.5), "pcqm-contact": (0.0, 0.0)}
            assert recipe.build(settings).base.patch_dropout == shares[name.split("/")[0]]


def test_the_loss_of_nodes_weighs_classes_by_the_share_of_the_other() -> None:
    task, random = pattern.Pattern(), torch.Generator().manual_seed(0)
    output, targets = torch.randn(4, 5, 2, generator=random), torch.randint(2, (4, 5), generator=random)
    targets[0, 3:], targets[2, 1:] = NO_TARGET, NO_TARGET
    real = targets != NO_TARGET
    share = (targets[real] == 1).double().mean()
    each = cross_entropy(output[real].double(), targets[real], reduction="none")
    weights = torch.where(targets[real] == 1, 1 - share, share)
    assert float(task.loss(output, targets)) == pytest.approx(float((weights * each).sum() / weights.sum()), rel=1e-5)
    assert task.loss(output.double(), targets).dtype == torch.float64
    spread = torch.zeros(4, 5, dtype=torch.float64)
    heavy = spread.clone()
    spread[real], heavy[real] = weights * each, weights
    assert torch.allclose(task.losses(output, targets).double(), spread.sum(1) / heavy.sum(1), rtol=1e-5)
    alone = torch.zeros(2, 5, dtype=torch.long)
    assert float(task.loss(output[:2], alone)) == pytest.approx(float(cross_entropy(output[:2].mT, alone)), rel=1e-5)


def test_the_loss_of_pairs_is_over_those_that_are_labelled() -> None:
    task, random = molecules.PCQMContact(), torch.Generator().manual_seed(0)
    output, targets = torch.randn(3, 4, 4, generator=random), torch.randint(2, (3, 4, 4), generator=random)
    targets[torch.rand(3, 4, 4, generator=random) < 0.5] = NO_TARGET
    targets[1] = NO_TARGET
    known = targets != NO_TARGET
    wanted = binary_cross_entropy_with_logits(output[known], targets[known].float())
    assert float(task.loss(output, targets)) == pytest.approx(float(wanted), rel=1e-5)
    losses = task.losses(output, targets)
    assert losses[1] == 0
    first = binary_cross_entropy_with_logits(output[0][known[0]], targets[0][known[0]].float())
    assert float(losses[0]) == pytest.approx(float(first), rel=1e-5)
    leaf = output.clone().requires_grad_()
    task.loss(leaf, targets).backward()
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


def test_packed_examples_are_padded_when_taken() -> None:
    packed = graphs(12, (3, 2), (4, 1), "nodes")
    examples = PackedExamples(packed, first=100, ranks=torch.arange(12 * 9.0).view(12, 9))
    taken = examples.take(torch.tensor([3, 0]))
    features, adjacency, bonds, ranks = taken.inputs
    assert (features.shape, adjacency.shape, bonds.shape) == ((2, 9, 5), (2, 9, 9), (2, 9, 9, 5))
    assert ranks[0, 0] == 27
    assert taken.ids.tolist() == [103, 100]
    assert taken.mask is not None
    assert ((taken.targets == NO_TARGET) == ~taken.mask).all()
    assert torch.equal(examples.mask[[3, 0]], taken.mask)
    assert torch.equal(examples.targets[[3, 0]], taken.targets)
    assert examples.take(slice(2, 5)).ids.tolist() == [102, 103, 104]
    assert examples.to(torch.device("cpu")).ids.tolist() == examples.ids.tolist()
    assert (bonds[adjacency == 0] == 0).all()
    assert (bonds[adjacency == 1].sum(-1) == 2).all()


def test_frames_sort_by_ranks_that_are_kept(tmp_path: Path) -> None:
    first = pattern.Pattern(ranks=True).load().test.take(slice(0, 12))
    assert len(list((tmp_path / "cache").glob("pattern_ranks_*.npz"))) == len(COUNTS)
    again = pattern.Pattern(ranks=True).load().test.take(slice(0, 12))
    assert torch.equal(first.inputs[2], again.inputs[2])
    assert len(pattern.Pattern().load().test.take(slice(0, 2)).inputs) == 2
    assert first.mask is not None
    assert (first.inputs[2][~first.mask] == 0).all()
    assert (first.inputs[2][first.mask] <= 0).all()
