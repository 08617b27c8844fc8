"""What trained runs can be asked: on models whose answers are known."""

import csv
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probsym import groups, nets, samplers
from probsym.errors import RangeError, RunError
from probsym.lab.analyses import ANALYSES, STUDIES, questions_for, questions_of
from probsym.lab.analyses.analysis import Questions, numbers_of, write_analysis
from probsym.lab.analyses.concentration import by_group, entropies
from probsym.lab.analyses.cost import by_stage
from probsym.lab.analyses.draws import by_draws, couplings_of
from probsym.lab.analyses.equivariance import by_move, moves
from probsym.lab.analyses.parts import by_part
from probsym.lab.analyses.tolerance import by_tolerance
from probsym.lab.engine import Engine
from probsym.lab.examples import Examples, Splits
from probsym.lab.inspection import inspected, suggested_samples
from probsym.lab.recipe import Settings, Task
from probsym.lab.results import read_results, write_result
from probsym.lab.run import Options, make_fabric
from probsym.signature import Signature
from probsym.symmetrized import Symmetrized
from tests.lab.cases import METHODS, PLAIN, engine_of, kept_run
from tests.lab.test_results import result

ITEMS = 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A run to ask, which stays as it is."""
    return kept_run(tmp_path_factory.mktemp("run"))


def quiet(*_: object) -> None: ...


class Points(Task):
    """Four points with their centre as the target."""

    name = "points"
    selects = {"loss": False}  # noqa: RUF012
    symmetry = Signature.parse("n d:point -> d:point", {"n": groups.S(), "d": groups.E(3)})

    def load(self) -> Splits:
        x = torch.randn(30, ITEMS, 3, generator=torch.Generator().manual_seed(0))
        return Splits(*(Examples((part,), None, part.mean(1), torch.arange(10)) for part in x.split(10)))

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        return self.losses(output, targets).mean()

    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        return (output - targets).square().mean(-1)

    def test_parts(self) -> dict[str, Tensor]:
        return {"early": torch.arange(10) < 3}

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": self.loss(output, targets)}


class First(nn.Module):
    """The first point alone, whatever the others are."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x[:, 0] + self.shift


def engine_with(model: nn.Module) -> Engine:
    task = Points()
    return Engine(make_fabric(Options("cpu")), model, task, Settings(batch_size=5), task.load())


def averaged(keys: str = "nd") -> Symmetrized:
    chosen = {key: group for key, group in Points.symmetry.groups.items() if key in keys}
    return Symmetrized(First(), "n d:point -> d:point" if "d" in keys else "n c -> c", chosen, samples=2)


def test_the_error_falls_as_one_over_the_draws() -> None:
    engine = engine_with(averaged())
    rows = by_draws(engine, Questions(samples=24, repeats=100), quiet)
    assert [row["coupling"] for row in rows[:: len(rows) // 4]] == ["independent", "antithetic", "quasi", "stratified"]
    by_key = {(row["coupling"], row["draws"], row["part"]): row for row in rows}
    assert {draws for _, draws, _ in by_key} == {1, 2, 5, 10, 20, 24}
    x = engine.data.test.inputs[0].double()
    variance = float(x.var(1, unbiased=False).mean())  # of a single point about the centre
    for draws in (1, 5, 20):
        row = by_key["independent", draws, "all"]
        assert row["loss"] == pytest.approx(variance / draws, rel=0.15)
        assert row["variance"] == pytest.approx(variance / draws, rel=0.15)
        assert row["examples"] == 10
    assert by_key["stratified", 24, "all"]["loss"] < 1e-12
    early = float(x[:3].var(1, unbiased=False).mean())
    row = by_key["independent", 1, "early"]
    assert (row["examples"], row["loss"]) == (3, pytest.approx(early, rel=0.2))
    # the standard error over the repeats is that of their mean
    assert by_key["independent", 1, "all"]["spread"] < 0.1 * variance
    assert by_key["independent", 1, "all"]["spread"] > 0.005 * variance


def test_numbers_are_means_and_standard_errors() -> None:
    losses = torch.tensor([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]])
    numbers = numbers_of(losses)
    assert numbers["loss"] == 4.0
    assert numbers["spread"] == pytest.approx(2**0.5 / 2**0.5)  # of 3 and 5
    assert numbers["stderr"] == pytest.approx((7.0**0.5 * 1.0) / 3**0.5, rel=1e-6)  # of 2, 3 and 7
    assert numbers_of(losses[:1])["spread"] is None
    assert numbers_of(losses[:, :1])["stderr"] is None


def test_models_without_draws_are_refused() -> None:
    for model in (First(), Symmetrized(First(), "n c -> c", {"n": groups.S()}, samplers.Enumerate())):
        with pytest.raises(RunError, match="a model that averages over draws"):
            by_draws(engine_with(model), Questions(), quiet)


def test_couplings_are_those_that_the_sampler_has() -> None:
    learned = samplers.Learned(nets.VNDGCNN(in_channels=1))
    model = Symmetrized(First(), "n d:point -> d:point", Points.symmetry.groups, learned)
    example = Points().load().test.take(slice(0, 1))
    assert couplings_of(model, example) == ["independent", "antithetic", "quasi"]
    assert couplings_of(averaged("d"), example) == ["independent", "antithetic", "quasi", "stratified"]
    graphs = engine_of(METHODS["ga"])  # of 12 nodes, too many to list their orders
    assert couplings_of(graphs.model, graphs.data.test.take(slice(0, 1))) == ["independent", "antithetic", "quasi"]


def test_moves_of_a_symmetric_model_change_nothing_but_what_draws_leave_open() -> None:
    engine = engine_with(averaged())
    rows = by_move(engine, Questions(samples=50), quiet)
    assert engine.model.base.shift.dtype == torch.float32  # the model stays as it was
    assert [row["move"] for row in rows] == ["n: moved", "d: rotated", "d: translated", "all"]
    for row in rows:
        assert (row["examples"], row["draws"]) == (10, 50)
        assert row["largest"] < 1e-13
        assert 0.05 < row["fresh"] < 0.5
        assert row["moved_noise"] <= row["largest"]
    # the prediction itself stays with permutations, but for the draws, and moves with all else
    assert rows[0]["change"] < 1e-13
    assert all(row["change"] > 0.1 for row in rows[2:])


def test_predictions_have_a_scale_to_judge_changes_by() -> None:
    engine = engine_with(First())
    x = engine.data.test.inputs[0].double()
    for row in by_move(engine, Questions(), quiet):
        assert row["scale"] == pytest.approx(float(x[:, 0].square().mean().sqrt()))
    invariant = by_move(engine_of(METHODS["ps"]), Questions(samples=4, examples=6), quiet)
    assert all(row["change"] == 0 < row["scale"] for row in invariant)


def test_padding_counts_in_no_mean_over_predictions() -> None:
    class Nodes(Points):
        symmetry = Signature.parse("n c -> n", {"n": groups.S()})

        def load(self) -> Splits:
            mask = torch.arange(ITEMS).expand(10, -1) < 2
            return Splits(*(part._replace(mask=mask) for part in super().load()))

    class Own(First):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            assert mask is not None
            return torch.where(mask, 3.0 + self.shift, 100.0)  # also where there is nothing

    task = Nodes()
    engine = Engine(make_fabric(Options("cpu")), Own(), task, Settings(batch_size=5), task.load())
    for row in by_move(engine, Questions(), quiet):
        assert row["scale"] == pytest.approx(3)
        assert row["largest"] == 0
        assert 0 < row["change"] < 3  # some stay where they were


@pytest.mark.parametrize(("keys", "broken"), [("n", {"d: rotated", "all"}), ("d", {"n: moved", "all"})])
def test_moves_show_which_symmetry_is_missing(keys: str, broken: set[str]) -> None:
    model = averaged(keys)
    model.base.shift.data.fill_(1.0)  # a direction of its own, which does not rotate
    rows = by_move(engine_with(model), Questions(samples=20), quiet)
    assert {row["move"] for row in rows if row["largest"] > 1e-6} == broken


def test_a_model_that_is_not_symmetrized_is_asked_as_it_is() -> None:
    rows = by_move(engine_with(First()), Questions(samples=20), quiet)
    assert {row["move"] for row in rows if row["largest"] > 1e-6} == {"n: moved", "all"}
    assert all(row["fresh"] == row["moved_noise"] for row in rows)
    assert all(row["draws"] == 1 for row in rows)


def test_tasks_that_say_nothing_of_symmetry_are_refused() -> None:
    with pytest.raises(RunError, match="says what it is symmetric under"):
        by_move(engine_of(PLAIN), Questions(), quiet)
    assert list(moves(Points.symmetry))[-1] == "all"


def test_parts_and_what_they_leave_out_add_up() -> None:
    for model in (averaged(), First()):
        engine = engine_with(model)
        rows = {row["part"]: row for row in by_part(engine, Questions(samples=7, repeats=3), quiet)}
        assert list(rows) == ["all", "early", "not early"]
        assert [row["examples"] for row in rows.values()] == [10, 3, 7]
        whole = (3 * rows["early"]["loss"] + 7 * rows["not early"]["loss"]) / 10
        assert rows["all"]["loss"] == pytest.approx(whole)
        assert rows["all"]["draws"] == (7 if engine.draws else 1)
    x = engine.data.test.inputs[0].double()
    assert rows["all"]["loss"] == pytest.approx(float((x[:, 0] - x.mean(1)).square().mean()), rel=1e-5)
    assert rows["all"]["spread"] == 0


def test_a_smaller_tolerance_takes_more_draws() -> None:
    engine = engine_with(averaged())
    rows = by_tolerance(engine, Questions(samples=600), quiet)
    assert [row["tolerance"] for row in rows] == sorted((row["tolerance"] for row in rows), reverse=True)
    assert rows[0]["least"] >= 30  # fewer do not tell
    assert [row["draws"] for row in rows] == sorted(row["draws"] for row in rows)
    assert rows[-1]["most"] == 600
    for row in rows:
        assert row["least"] <= row["draws"] <= row["most"]
        assert (row["reached"] == 1) == (row["most"] < 600)
    # where all came to the tolerance, so did their loss: the prediction without draws would be exact
    assert all(row["loss"] < row["tolerance"] ** 2 for row in rows if row["reached"] == 1)
    with pytest.raises(RunError, match="a model that averages over draws"):
        by_tolerance(engine_with(First()), Questions(), quiet)


def test_uniform_draws_are_as_spread_as_uniform_ones() -> None:
    rows = {(row["group"][0], row["measure"]): row for row in by_group(engine_with(averaged()), Questions(), quiet)}
    assert set(rows) == {("n", "row entropy"), ("n", "column entropy"), ("d", "spread")}
    for row in rows.values():
        assert row["model"] == pytest.approx(row["uniform"], rel=0.02)
        assert (row["examples"], row["draws"]) == (10, 200)
    assert rows["n", "row entropy"]["uniform"] == pytest.approx(math.log(ITEMS), rel=0.02)
    assert rows["d", "spread"]["uniform"] == pytest.approx(1, abs=0.02)


def test_a_distribution_at_one_point_is_not_spread() -> None:
    class Still(samplers.Haar):
        def forward(self, batch: samplers.Batch, noise: samplers.Noise) -> samplers.Draw:
            return super().forward(
                batch, noise._replace(elements={key: g[:, :1].expand_as(g) for key, g in noise.elements.items()})
            )

    model = Symmetrized(First(), "n d:point -> d:point", Points.symmetry.groups, Still(), samples=2)
    for row in by_group(engine_with(model), Questions(samples=20), quiet):
        assert row["model"] == pytest.approx(0, abs=1e-6)
        assert row["uniform"] > 0.5
    with pytest.raises(RunError, match="a model that averages over draws"):
        by_group(engine_with(First()), Questions(), quiet)


def test_entropies_are_those_of_the_mean_matrix() -> None:
    orders = torch.tensor([[[1, 0, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]])
    mask = torch.tensor([[True, True, True, False]])
    two = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    for entropy in entropies(orders, mask).values():
        assert entropy.item() == pytest.approx(2 * two / 3)
    graphs = engine_of(METHODS["ps"])
    for row in by_group(graphs, Questions(samples=30, examples=5), quiet):
        assert 0 < row["model"] < row["uniform"] + 0.1


def test_stages_make_up_the_whole() -> None:
    for model in (averaged(), Symmetrized(First(), "n c -> c", {"n": groups.S()}, samplers.Enumerate())):
        engine = engine_with(model)
        rows = {row["stage"]: row for row in by_stage(engine, Questions(samples=50), quiet)}
        assert list(rows) == ["sampler", "base", "between", "whole"]
        assert rows["whole"]["share"] == 1
        assert sum(rows[name]["share"] for name in ("sampler", "base", "between")) == pytest.approx(1)
        assert all(rows[name]["ms"] > 0 for name in ("sampler", "base", "whole"))
        assert {row["draws"] for row in rows.values()} == {50 if engine.draws else None}
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(RunError, match="a symmetrized module"):
        by_stage(engine_with(First()), Questions(), quiet)


def test_a_slow_base_takes_the_time() -> None:
    class Slow(First):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            time.sleep(0.05)
            return super().forward(x)

    model = Symmetrized(Slow(), "n c -> c", {"n": groups.S()}, samples=2)
    rows = {row["stage"]: row for row in by_stage(engine_with(model), Questions(samples=2, repeats=3), quiet)}
    assert rows["base"]["share"] > 0.5
    assert rows["base"]["ms"] >= 50


def test_inspection_has_all_tables_and_advice() -> None:
    tables = dict(inspected(engine_with(averaged()), Questions(samples=30, repeats=40), quiet))
    assert len(tables) == 4
    rows = tables["Loss and variance by number of draws"]
    assert {row["coupling"] for row in rows} == {"independent"}
    variance = float(Points().load().test.take(slice(None)).inputs[0].var(1, unbiased=False).mean())
    assert suggested_samples(rows, 0.1) == pytest.approx(variance / 0.01, rel=0.2)
    assert suggested_samples(rows, 100.0) == 1
    with pytest.raises(RangeError, match="positive"):
        suggested_samples(rows, 0.0)
    assert len(dict(inspected(engine_with(First()), Questions(), quiet))) == 1


def test_models_of_tasks_without_a_word_on_symmetry_are_asked_about_their_own() -> None:
    rows = by_move(engine_of(METHODS["ps"]), Questions(samples=4, examples=6), quiet)
    assert [row["move"] for row in rows] == ["n: moved", "all"]
    assert all(row["largest"] < 1e-9 for row in rows)


def test_fewer_examples_can_be_asked(finished: Engine) -> None:
    for name, analysis in ANALYSES.items():
        rows = analysis(finished, Questions(examples=4, samples=40, repeats=1), quiet)
        assert max(row["examples"] for row in rows) == 4, name


def test_parts_without_an_example_are_left_out() -> None:
    class Late(Points):
        def test_parts(self) -> dict[str, Tensor]:
            return {"late": torch.arange(10) >= 5}

    engine = engine_with(averaged())
    engine.task = Late()
    rows = by_part(engine, Questions(examples=3, samples=2, repeats=1), quiet)
    assert [row["part"] for row in rows] == ["all"]


@pytest.mark.parametrize("name", [*ANALYSES, *STUDIES])
def test_analyses_use_the_questions_that_they_say(name: str, finished: Engine) -> None:
    used = set()

    class Noted(Questions):
        def __getattribute__(self, key: str) -> Any:
            if key in vars(Questions()):
                used.add(key)
            return super().__getattribute__(key)

    questions = Noted(examples=3, samples=4, repeats=2)
    used.clear()  # checking them is no use
    subject: Any = torch.device("cpu") if name in STUDIES else finished
    {**ANALYSES, **STUDIES}[name](subject, questions, quiet)
    assert used == set(questions_of(name, Questions()))


def test_questions_without_a_use_are_refused() -> None:
    with pytest.raises(
        RunError, match=r"gradient to be asked with examples, seed \(got samples, repeats, which it never"
    ):
        questions_for("gradient", samples=3, repeats=2, seed=1)
    assert questions_for("gradient", examples=3, samples=None).examples == 3
    assert questions_for("draws", examples=1, samples=2, repeats=3, seed=4) == Questions(1, 2, 3, 4)


def test_fixed_noise_has_no_variance_between_repeats(tmp_path: Path) -> None:
    engine, questions = kept_run(tmp_path, METHODS["ps-fixed-noise"]), Questions(samples=4, repeats=3, examples=5)
    for name in ("variance", "sample_size"):
        with pytest.raises(RunError, match=r"draws anew in every repeat \(got one whose noise is fixed"):
            ANALYSES[name](engine, questions, quiet)
    for row in (*by_draws(engine, questions, quiet), *by_part(engine, questions, quiet)):
        assert row["spread"] is None
        assert row.get("variance") is None
        assert row["stderr"] > 0
    # what compares draws with each other is as for any noise
    assert all(row["model"] > 0.1 for row in by_group(engine, questions, quiet))
    rows = by_tolerance(engine, Questions(samples=200, examples=5), quiet)
    assert rows[0]["draws"] < rows[-1]["draws"]
    tables = dict(inspected(engine, questions, quiet))
    assert len(tables) == 4
    with pytest.raises(RunError, match=r"a variance between repeats \(got none"):
        suggested_samples(tables["Loss and variance by number of draws"], 0.1)


@pytest.mark.parametrize("wrong", [{"examples": 0}, {"samples": 0}, {"repeats": -1}])
def test_questions_that_ask_nothing_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(RangeError, match="to be 1 or more"):
        Questions(**wrong)


def test_rows_are_kept_beside_the_result(tmp_path: Path) -> None:
    run = {**result(3, "points/first", loss=1.0), "changed": {"epochs": 9}}
    engine, questions = engine_with(First()), Questions(repeats=1)
    rows = by_part(engine, questions, quiet)
    beside = write_result(tmp_path, run)
    asked = questions_of("parts", questions)
    path = write_analysis(tmp_path, "parts", run, rows, asked, engine.device)
    assert path == beside.parent / "seed-3.parts.json"
    written = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert written["rows"] == rows
    assert written["run"]["row"] == "points/first"
    assert {"command", "commit", "hardware", "torch", "date"} <= set(written)
    assert written["questions"] == {"examples": None, "samples": 200, "repeats": 1, "seed": 0}
    with path.with_suffix(".csv").open() as file:
        table = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in table] == [row["loss"] for row in rows]
    assert table[0]["spread"] == ""
    with pytest.raises(RunError, match="never overwritten"):
        write_analysis(tmp_path, "parts", run, rows, asked, engine.device)
    assert len(read_results(tmp_path)["points/first"]) == 1
    assert not math.isnan(rows[0]["loss"])
