import io
import re
from pathlib import Path

from rich.console import Console

from probsym.lab.results import read_results
from probsym.lab.tables import table

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(code, str(README), "exec"), {})


def test_it_opens_with_the_two_commands() -> None:
    lines = [line for line in README.read_text().splitlines() if line.startswith("make ")]
    assert [line.split()[1] for line in lines[:2]] == ["demo", "test"]


def test_table_1_is_what_the_results_give() -> None:
    page = io.StringIO()
    Console(file=page, width=120).print(table(1, read_results(README.parent / "results")))
    shown = "\n".join(line.rstrip() for line in page.getvalue().splitlines())
    assert shown in README.read_text()
