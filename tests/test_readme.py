import re
from pathlib import Path

from probsym.lab.paper import TABLES
from probsym.lab.report import load_results
from probsym.lab.report.comparison import LEGEND
from probsym.lab.report.paper_tables import paper_grid
from probsym.lab.report.write import render

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(code, str(README), "exec"), {})


def test_it_opens_with_the_two_commands() -> None:
    lines = [line for line in README.read_text().splitlines() if line.startswith("make ")]
    assert [line.split()[1] for line in lines[:2]] == ["demo", "test"]


def test_table_1_is_what_the_report_makes_of_the_results() -> None:
    grid = paper_grid(TABLES[1], load_results(README.parent / "results"))
    assert grid is not None
    assert render("table.md", grid=grid) in README.read_text()
    assert LEGEND in " ".join(README.read_text().split())
