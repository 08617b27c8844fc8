"""Counting pairs against brute force; models that separate, do not, and only seem to."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import pytest
import torch
from torch import Tensor, nn

from probsym import groups, samplers
from probsym.data import decorated_cycles
from probsym.lab.examples import Examples
from probsym.lab.hotelling import Moments
from probsym.lab.recipe import Settings
from probsym.lab.recipes import RECIPES
from probsym.lab.recipes.graphs import as_examples, graph_network
from probsym.lab.separation import SeparationRecipe, close_pairs, models, outputs, relabel, separate
from probsym.samplers import spectral_ranks
from probsym.symmetrized import Symmetrized
from tests.lab.cases import NODES, SEPARATION, run_quietly, separation_graphs

CPU = torch.device("cpu")
DATA = Path(os.environ.get("PROBSYM_DATA", ""))
real = pytest.mark.skipif(not (DATA / "graph8c_adj.npz").is_file(), reason="no GRAPH8c in PROBSYM_DATA")


class FirstEdge(nn.Module):
    """Reads one entry of the adjacency matrix."""

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        return adjacency[:, :1, 1]


class Spectrum(nn.Module):
    """Invariant without any draws, and tells cycles apart."""

    def forward(self, features: Tensor, adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.linalg.eigvalsh(adjacency)


def gin(settings: Settings) -> nn.Module:
    return graph_network("gin", NODES, 10, "tanh", final="tanh")


def first_edge(settings: Settings) -> nn.Module:
    return Symmetrized(FirstEdge(), "n c, n n -> k", {"n": groups.S()}, samplers.Haar(), eval_samples=10)


def spectrum(settings: Settings) -> nn.Module:
    return Spectrum()


def counted(build: Any, **changes: Any) -> dict[str, float]:
    recipe = replace(SEPARATION, build=build, models=4, calibrated_models=2, calibrated_draws=200, **changes)
    return separate(recipe, 0, CPU)


def graph(examples: Examples, i: int) -> networkx.Graph:
    count = int(examples.mask[i].sum())
    return networkx.from_numpy_array(examples.inputs[1][i, :count, :count].numpy())


# counting


@pytest.mark.parametrize("count", [2, 9, 600])
def test_all_pairs_are_counted_as_by_brute_force(count: int) -> None:
    answers = torch.randint(3, (3, count, 2), generator=torch.Generator().manual_seed(0)).float()
    together = torch.ones(count, count, dtype=torch.bool).triu(1)
    pairs = None
    for answer in answers:
        pairs = close_pairs(answer, pairs, 1.5)
        together &= (answer.unsqueeze(0) - answer.unsqueeze(1)).abs().sum(-1) <= 1.5
        assert torch.equal(pairs, together.nonzero())


def test_given_pairs_are_counted_and_no_others() -> None:
    pairs = torch.tensor([[0, 1], [2, 3], [0, 3], [1, 2]])
    pairs = close_pairs(torch.tensor([[0.0, 0.0], [0.0, 0.05], [1.0, 0.0], [0.0, 0.0]]), pairs, 0.1)
    assert pairs.tolist() == [[0, 1], [0, 3]]
    assert len(close_pairs(torch.zeros(4, 2), pairs, 0.1)) == 2
    pairs = close_pairs(torch.tensor([[0.06, 0.06], [0.0, 0.0], [0.0, 0.0], [0.06, 0.06]]), pairs, 0.1)
    assert pairs.tolist() == [[0, 3]]


def test_without_models_no_pair_is_separated() -> None:
    assert separate(replace(SEPARATION, models=0), 0, CPU)["not_separated"] == 4
    every = separate(replace(SEPARATION, models=0, pairs=lambda examples: None), 0, CPU)
    assert every["not_separated"] == every["pairs"] == 28


# the control


def test_relabelled_graphs_are_isomorphic_and_padded_alike() -> None:
    examples = as_examples(decorated_cycles(8, NODES, torch.Generator().manual_seed(0)), ranks=True)
    moved = relabel(examples, 0)
    assert not torch.equal(moved.inputs[1], examples.inputs[1])
    assert torch.equal(moved.mask, examples.mask)
    assert not set(moved.ids.tolist()) & set(examples.ids.tolist())
    pad = ~examples.mask
    assert not moved.inputs[0][pad].any()
    assert not moved.inputs[1][pad].any()
    assert not moved.inputs[1].mT[pad].any()
    for i in range(examples.size):
        assert networkx.is_isomorphic(graph(examples, i), graph(moved, i))
    assert torch.equal(moved.inputs[0][..., 1], moved.inputs[1].sum(-1))
    ranks = torch.where(moved.mask, -spectral_ranks(moved.inputs[1], moved.mask).float(), 0)
    assert torch.equal(moved.inputs[2], ranks)


def test_relabelling_depends_on_the_seed_alone() -> None:
    examples = separation_graphs()
    first, same, second = (relabel(examples, seed).inputs[1] for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, second)


def test_nodes_stay_real_where_padding_comes_first() -> None:
    examples = separation_graphs()
    back = Examples(
        (examples.inputs[0].flip(1), examples.inputs[1].flip(1, 2)),
        examples.mask.flip(1),
        examples.targets,
        examples.ids,
    )
    moved = relabel(back, 0)
    assert torch.equal(moved.inputs[0][..., 0] > 0, moved.mask)


# both protocols


def test_message_passing_separates_neither_pairs_nor_controls() -> None:
    counts = counted(gin)
    assert counts["pairs"] == counts["not_separated"] == counts["not_separated_calibrated"] == 4
    assert counts["controls"] == 8
    assert counts["control_separated"] == counts["control_separated_calibrated"] == 0


def test_an_invariant_that_tells_graphs_apart_separates_all_pairs_and_no_control() -> None:
    counts = counted(spectrum)
    assert counts["not_separated"] == counts["not_separated_calibrated"] == 0
    assert counts["control_separated"] == counts["control_separated_calibrated"] == 0


def test_draws_seem_to_separate_a_graph_from_itself_until_they_are_tested() -> None:
    """Of 20 calibrated counts at the level 0.05 about one errs; by the paper's protocol all do."""
    recipe = replace(SEPARATION, build=first_edge, models=4, calibrated_models=2, calibrated_draws=200)
    by_seed = [separate(recipe, seed, CPU) for seed in range(20)]
    assert min(counts["control_separated"] for counts in by_seed) >= 5
    assert max(counts["not_separated"] for counts in by_seed) <= 2
    assert sum(counts["control_separated_calibrated"] > 0 for counts in by_seed) <= 3
    assert sum(counts["not_separated_calibrated"] < 4 for counts in by_seed) <= 3


def test_one_model_that_separates_is_enough() -> None:
    """The first of four models reads one entry, which tells some graphs from their copies; the others read nothing."""
    made: list[nn.Module] = []

    class Entry(nn.Module):
        def forward(self, features: Tensor, adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
            return adjacency[:, :1, 1] * (self is made[0])

    def build(settings: Settings) -> nn.Module:
        made.append(Entry())
        return made[-1]

    examples = separation_graphs()
    first, copies = (graphs.inputs[1][:, 0, 1] for graphs in (examples, relabel(examples, 0)))
    counts = counted(build)
    assert counts["control_separated"] == counts["control_separated_calibrated"] == int((first != copies).sum()) > 0
    assert counts["not_separated"] == int((first[::2] == first[1::2]).sum()) < 4


@pytest.mark.parametrize(("share", "separated"), [(0.9, True), (1.1, False)])
def test_the_level_is_divided_among_pairs_and_models(
    share: float, separated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 pairs or 8 controls, under 2 models each."""

    def compare(first: Moments, second: Moments) -> Tensor:
        count = len(first.mean)
        return torch.full((count,), share * SEPARATION.level / (2 * count), dtype=torch.float64)

    monkeypatch.setattr("probsym.lab.separation.compare", compare)
    counts = counted(gin)
    assert counts["not_separated_calibrated"] == (0 if separated else 4)
    assert counts["control_separated_calibrated"] == (8 if separated else 0)


def test_all_pairs_and_named_sets_are_reported() -> None:
    both = {"one": torch.tensor([[0, 1]]), "two": torch.tensor([[0, 2], [2, 3]])}
    counts = counted(gin, pairs=lambda examples: None, calibrated_pairs=lambda examples: both)
    assert counts["pairs"] == 28
    assert counts["calibrated_pairs"] == 3
    assert counts["not_separated_calibrated_one"] == 1
    assert counts["not_separated_calibrated"] == sum(counts[f"not_separated_calibrated_{name}"] for name in both)


def test_the_same_seed_counts_the_same_and_leaves_others_random_numbers() -> None:
    before = torch.get_rng_state()
    assert separate(SEPARATION, 3, CPU) == separate(SEPARATION, 3, CPU)
    assert torch.equal(torch.get_rng_state(), before)


def test_models_are_all_different_and_in_evaluation_mode() -> None:
    made = list(models(replace(SEPARATION, models=3), 0, CPU))
    assert not any(model.training for model in made)
    firsts = [next(model.parameters()) for model in made]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(firsts, 2))
    (again,) = models(replace(SEPARATION, models=1), 0, CPU)
    assert torch.equal(next(again.parameters()), firsts[0])


def test_outputs_do_not_depend_on_how_many_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    examples, model = separation_graphs(), gin(Settings()).eval()
    (whole,) = outputs(model, examples, 1, torch.Generator())
    assert whole.shape == (8, 1, 10)
    monkeypatch.setattr("probsym.lab.separation.NUMBERS", 3 * NODES * NODES)
    parts = list(outputs(model, examples, 1, torch.Generator()))
    assert [len(part) for part in parts] == [3, 3, 2]
    torch.testing.assert_close(torch.cat(parts), whole)


def test_every_draw_has_an_output() -> None:
    examples = separation_graphs()
    (output,) = outputs(first_edge(Settings()), examples, 7, torch.Generator().manual_seed(0))
    assert output.shape == (8, 7, 1)
    assert set(output.flatten().tolist()) == {0.0, 1.0}


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    separate(SEPARATION, 0, CPU, lambda done, total, _: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_changed_settings_reach_the_model(tmp_path: Path) -> None:
    seen: list[Settings] = []

    def build(settings: Settings) -> nn.Module:
        seen.append(settings)
        return first_edge(settings)

    (result,) = run_quietly(replace(SEPARATION, build=build), tmp_path, changes=["samples=3", "eval_samples=4"])
    assert result["changed"] == {"samples": 3, "eval_samples": 4}
    assert {(settings.samples, settings.eval_samples) for settings in seen} == {(3, 4)}


# the recipes


@real
@pytest.mark.slow
def test_pairs_of_graph8c_are_those_of_colour_refinement_and_fixed_random_ones() -> None:
    recipe = RECIPES["graph8c/mlp-ps"]
    assert isinstance(recipe, SeparationRecipe)
    examples = recipe.load()
    assert examples.size == 11117
    assert recipe.pairs(examples) is None
    sets, again = (recipe.calibrated_pairs(examples) for _ in range(2))
    assert {name: len(pairs) for name, pairs in sets.items()} == {"wl": 312, "random": 10_000}
    assert all(torch.equal(sets[name], again[name]) for name in sets)
    assert (sets["random"][:, 0] != sets["random"][:, 1]).all()
    first, second = (examples.inputs[1][sets["wl"][:, i]].sum(-1).sort(-1).values for i in (0, 1))
    assert torch.equal(first, second)


def test_pairs_of_exp_are_neighbours() -> None:
    recipe = RECIPES["exp/mlp-ps"]
    assert isinstance(recipe, SeparationRecipe)
    examples = as_examples(decorated_cycles(6, NODES, torch.Generator().manual_seed(0)))
    assert recipe.pairs(examples).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert recipe.calibrated_pairs(examples)["all"].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("name", ["exp/mlp-ps", "graph8c/gin-id-ga", "exp/gin"])
def test_the_protocol_is_the_papers(name: str) -> None:
    recipe = RECIPES[name]
    assert isinstance(recipe, SeparationRecipe)
    assert (recipe.models, recipe.threshold, recipe.settings.eval_samples) == (100, 1e-3, 10)
    assert (recipe.calibrated_draws, recipe.calibrated_models, recipe.level) == (500, 3, 0.05)
