"""Which runs belong together, and what their rows say on average."""

from __future__ import annotations

from typing import Any

from probsym.lab.report.load import File
from probsym.lab.report.rows import RunRows, averages, chosen, grouped, most_shared, with_value


def file(row: str = "exp/mlp-ps", seed: int = 0, rows: list[dict[str, Any]] | None = None, **changed: Any) -> File:
    name = f"{row}{seed}{changed}"
    return File(name, name, {"rows": rows or []}, {"row": row, "seed": seed, "changed": changed})


def test_labels_say_what_tells_runs_apart() -> None:
    assert list(grouped([file()])) == ["mlp-ps"]
    assert list(grouped([file(), file(seed=1)])) == ["mlp-ps, seed 0", "mlp-ps, seed 1"]
    assert list(grouped([file(), file(seed=1)], "seeds")) == ["mlp-ps"]
    assert list(grouped([file(), file(epochs=3), file("exp/gin")])) == [
        "mlp-ps, as in the paper",
        "mlp-ps, epochs=3",
        "gin",
    ]


def test_runs_join_over_seeds_and_draws_but_not_over_other_settings() -> None:
    files = [file(), file(seed=1), file(samples=2), file(samples=2, epochs=3), file("exp/mlp-ga")]
    assert {label: len(group) for label, group in grouped(files, "draws").items()} == {
        "mlp-ps, as in the paper": 3,
        "mlp-ps, epochs=3": 1,
        "mlp-ga": 1,
    }
    assert len(grouped(files, "seeds")) == 4
    assert [len(group) for group in grouped(files, "draws", methods=False).values()] == [4, 1]


def test_rows_are_chosen_by_value_and_know_their_method() -> None:
    rows = [{"draws": 1}, {"draws": 2, "method": "ga"}, {"other": 1}]
    (run,) = chosen([file(rows=rows)], {"draws": 1})
    assert run.rows == [{"method": "ps", "draws": 1}, {"method": "ps", "other": 1}]
    assert chosen([file(rows=rows)], {"method": "canonical"}) == []
    assert [row["draws"] for run in with_value(chosen([file(rows=rows)], {}), "method", "ga") for row in run.rows] == [
        2
    ]


def test_seeds_are_averaged_where_all_have_a_value() -> None:
    first, second = ([{"x": x, "y": x + seed} for x in xs] for seed, xs in ((0, (1, 2, 3)), (2, (2, 3, 4))))
    assert averages([RunRows("", first), RunRows("", second)], "x", "y") == {2: 3, 3: 4}
    assert averages([RunRows("", first), RunRows("samples=2", second)], "x", "y") == {1: 1, 2: 3, 3: 4, 4: 6}


def test_values_that_are_no_numbers_are_passed_over() -> None:
    rows = [
        {"x": 1, "y": None},
        {"x": 2, "y": float("nan")},
        {"x": "b", "y": 1},
        {"x": "a", "y": True},
        {"x": None, "y": 1},
    ]
    assert averages([RunRows("", rows)], "x", "y") == {"b": 1}
    assert averages([], "x", "y") == {}


def test_the_most_is_that_which_all_have() -> None:
    many, few = ([{"draws": draws} for draws in some] for some in ((1, 5, 500), (1, 5)))
    assert [run.rows for run in most_shared([RunRows("", many), RunRows("", few)], "draws")] == [[{"draws": 5}]] * 2
    assert most_shared([RunRows("", many), RunRows("", [{"draws": 7}])], "draws") == []
    assert most_shared([RunRows("", many)], "") == [RunRows("", many)]
