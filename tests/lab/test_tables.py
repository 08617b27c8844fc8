"""The paper's numbers, against its source where there is one, and our numbers beside them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from probsym.errors import RecipeError
from probsym.lab.paper import TABLES, paper_number
from probsym.lab.recipes import RECIPES
from probsym.lab.results import Summary
from probsym.lab.tables import controls, listing, spoken_number, table
from tests.lab.test_results import result

SOURCE = Path(__file__).resolve().parents[3] / "shared" / "paper" / "paper.tex"
LABELS = {1: "exp_graph_separation", 2: "nbody", 3: "pattern", 4: "lrgb", 7: "exp_more", 8: "nbody_more"}


BESIDES = {f"{task}/gin-id-ps-fixed-noise" for task in ("exp", "graph8c", "exp-classify")}
BESIDES |= {f"{task}/{kind}-sum" for task in ("exp", "graph8c") for kind in ("gin", "gcn")}
BESIDES |= {"nbody/transformer-fa", "nbody/transformer-from-haar", "nbody/gnn-from-haar", "nbody/gnn-ps-best"}
BESIDES |= {f"nbody/{base}-{method}-motion" for base in ("transformer", "gnn") for method in ("ga", "ps")}
BESIDES |= {f"nbody/{base}-gnn-{method}" for base in ("staged", "recurrent") for method in ("ga", "ps")}
BESIDES |= {
    f"acetylacetone/transformer-{method}" for method in ("augmented", "ga", "fa", "canonical", "ps", "quadrature")
}
IMAGES = ("pattern/", "peptides-func/", "peptides-struct/", "pcqm-contact/")
BESIDES |= {  # the paper has ViT-B only, and pretrained only for molecules; lines of ours have DeiT-Tiny
    name
    for name in RECIPES
    if name.startswith(IMAGES)
    and "/deit-ti" not in name
    and ("/vit-b" not in name or ("pattern" not in name and "scratch" in name))
}


def printed(shown: Table, width: int = 250) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(shown)
    return file.getvalue()


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def source_rows(number: int) -> list[list[float]]:
    """The numbers of every line of a table in the paper's source, without deviations."""
    text = SOURCE.read_text()
    start = text.index(f"label{{table:{LABELS[number]}}}")
    body = text[start : text.index("end{tabular}", start)]
    rows = []
    for line in body.split("\n")[2:]:
        cells = [re.sub(r"\\pm.*", "", cell.replace(r"\%", "")) for cell in line.split("&")[1:]]
        matches = [
            re.search(r"(?<![\w~-])\d+\.?\d*(?=[}\s$\\]|$)", re.sub(r"ImageNet-21k|\{2.*", "", cell)) for cell in cells
        ]
        if any(matches) and "arch" not in line and "multicol" not in line and "arrow" not in line:
            rows.append([float(match.group()) for match in matches if match])
    return rows


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("number", TABLES)
def test_every_number_is_the_papers(number: int) -> None:
    ours = [list(line.numbers.values()) for line in TABLES[number].lines if line.numbers]
    assert ours == source_rows(number)


@pytest.mark.parametrize(
    ("row", "metric", "value"),
    [
        ("exp-classify/mlp-ps-fixed-noise", "test_accuracy", 79.5),
        ("exp-classify/mlp-ps", "test_accuracy", 100),
        ("exp-classify/gin-id-canonical", "test_accuracy", 84),
        ("graph8c/gcn", "not_separated", 4755),
        ("graph8c/gin", "not_separated", 386),
        ("exp/gin", "not_separated", 600),
        ("nbody/transformer-ps", "test_mse", 0.00401),
        ("nbody/gnn-ps", "test_mse", 0.00386),
        ("pattern/vit-b-pretrained-ps", "test_accuracy@10", 86.650),
        ("pattern/vit-b-scratch-ga", "test_accuracy@1", 76.956),
        ("pcqm-contact/vit-b-pretrained-ps", "test_mrr", 0.5341),
        ("peptides-func/vit-b-pretrained-ps", "test_ap", 0.6575),
    ],
)
def test_numbers_stand_beside_our_rows(row: str, metric: str, value: float) -> None:
    assert paper_number(row)[metric] == value


def test_rows_that_the_paper_has_not_have_no_number() -> None:
    assert paper_number("demo/mlp-ps") == {}
    assert paper_number("graph8c/nothing") == {}


def test_the_listing_has_every_recipe_of_tables_1_and_7() -> None:
    text = printed(listing({}, RECIPES))
    wanted = [name for name in RECIPES if not name.startswith("demo/") and name not in BESIDES]
    assert len(wanted) > 30
    for name in wanted:
        assert all("not run yet" in line for line in lines_with(text, f" {name} "))
        assert lines_with(text, f" {name} ")
    assert "published only" in lines_with(text, "PPGN")[0]
    assert "not run yet" in lines_with(text, "pattern/vit-b-scratch-fa")[0]
    assert "no recipe yet" in lines_with(printed(listing({}, {})), "pattern/vit-b-scratch-fa")[0]


def test_recipes_that_no_table_lists_are_few() -> None:
    listed = {f"{c.task}/{line.row}" for t in TABLES.values() for line in t.lines for c in t.columns}
    others = {name for name in RECIPES if name not in listed and not name.startswith("demo/")}
    assert others == BESIDES


def test_lines_of_a_smaller_encoder_have_our_numbers_alone() -> None:
    results = {"pattern/deit-ti-scratch-ps": [result(0, "pattern/deit-ti-scratch-ps", **{"test_accuracy@10": 86.5})]}
    text = printed(table(3, results))
    (line,) = lines_with(text, "DeiT-Ti-PS, 10 samples  ")
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["DeiT-Ti-PS, 10 samples", "", "86.5"]
    assert paper_number("pattern/deit-ti-scratch-ps") == {}
    assert "not in it" not in text


def test_our_numbers_and_the_state_of_things_are_listed() -> None:
    results: dict[str, Any] = {
        "exp-classify/mlp-ps": [result(0, test_accuracy=99.0), result(1, test_accuracy=100.0)],
        "exp/gin": [result(0, "exp/gin", not_separated=600.0)],
    }
    text = printed(listing(results, RECIPES))
    (line,) = lines_with(text, " exp-classify/mlp-ps ")
    assert "99.5 ± 0.71 (2 seeds)" in line
    assert "done, 2 seeds" in line
    (line,) = lines_with(text, " exp/gin ")
    assert "done, 1 seed " in line
    short = {"nbody/gnn-ga": [{**result(0, "nbody/gnn-ga", test_mse=0.5), "changed": {"epochs": 9}}]}
    (line,) = lines_with(printed(listing(short, RECIPES)), " nbody/gnn-ga ")
    assert "only with epochs=9" in line
    assert "0.5" not in line


def test_a_table_says_which_way_is_better_and_has_both_numbers() -> None:
    results = {"graph8c/mlp-ps": [result(0, "graph8c/mlp-ps", not_separated=3.0)]}
    text = printed(table(1, results))
    assert "GRAPH8c ↓" in text
    assert "EXP-classify ↑" in text
    line = next(line for line in text.splitlines() if re.search(r"MLP-PS +│", line))
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["MLP-PS", "0", "3", "0", "", "100", ""]
    assert "0.5341" in printed(table(4, {}))
    changed = {"nbody/gnn-ps": [{**result(0, "nbody/gnn-ps", test_mse=0.125), "changed": {"epochs": 9}}]}
    assert "0.125" not in printed(table(8, changed))
    text = printed(table(8, changed, {"epochs": 9}))
    assert "0.125" in text
    assert "ours with epochs=9" in text
    assert "diverged" not in printed(table(3, {}))


def test_a_table_tells_of_rows_that_it_has_no_place_for() -> None:
    results: dict[str, Any] = {
        "pattern/vit-b-scratch-ps": [result(0, **{"test_accuracy@1": 80.0})],
        "pattern/vit-ti-scratch-ps": [result(0, test_accuracy=80.0), result(1, test_accuracy=81.0)],
        "exp/gin": [result(0, "exp/gin", not_separated=600.0)],
    }
    assert "1 row of ours is not in it" in printed(table(3, results))
    results["pattern/vit-b-scratch-ps"] += [{**result(0, **{"test_accuracy@1": 70.0}), "changed": {"epochs": 9}}]
    assert "2 rows of ours are not in it" in printed(table(3, results))
    assert "2 rows of ours are not in it" in printed(table(3, results, {"epochs": 9}))
    assert "of ours" not in printed(table(7, results))  # exp/gin stands in Table 1


def test_counts_stand_beside_their_controls() -> None:
    ours = {"not_separated": 3.0, "control_separated": 7.0}
    ours |= {"not_separated_calibrated": 5.0, "control_separated_calibrated": 1.0}
    counts = controls(1, {"exp/mlp-ps": [result(0, "exp/mlp-ps", **ours)]})
    assert counts is not None
    line = next(line for line in printed(counts).splitlines() if "MLP-PS" in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["MLP-PS", "", "", "", "", "3", "7", "5", "1"]
    assert controls(2, {}) is None


@pytest.mark.parametrize("number", TABLES)
def test_every_table_is_printed(number: int) -> None:
    text = printed(table(number, {}))
    for line in TABLES[number].lines:
        assert line.title in text


@pytest.mark.parametrize("number", [0, 5, 9, -1])
def test_tables_that_there_are_not_are_refused(number: int) -> None:
    with pytest.raises(RecipeError, match=f"table of the paper.*'{number}'"):
        table(number, {})


def test_numbers_in_words() -> None:
    assert spoken_number(None) == ""
    assert spoken_number(Summary(0.00401, None, 1)) == "0.00401"
    assert spoken_number(Summary(99.5, 0.5, 3)) == "99.5 ± 0.5 (3 seeds)"
    assert spoken_number(Summary(10358, None, 1)) == "10358"
