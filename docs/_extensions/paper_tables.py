"""`{paper-table} N` is table N of the paper with our numbers beside it; the report is built along with the site."""

from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from probsym.lab.paper import TABLES
from probsym.lab.report import load_results, write_report
from probsym.lab.report.paper_tables import paper_grid
from probsym.lab.report.write import render

RESULTS = Path(__file__).resolve().parents[2] / "results"
load_once = cache(load_results)


class PaperTableDirective(SphinxDirective):
    """One table, from the files in results/."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Its rows, as the report has them."""
        grid = paper_grid(TABLES[int(self.arguments[0])], load_once(RESULTS))
        assert grid is not None, f"Expected a number of ours in table {self.arguments[0]}"
        box = nodes.container()
        self.state.nested_parse(StringList(render("table.md", grid=grid).splitlines()), 0, box)
        return box.children


def add_report(app: Any, error: Exception | None) -> None:
    """Beside the pages, once all are there."""
    if error is None and app.builder.name == "html":
        for name in ("report.html", "report.md"):
            (Path(app.outdir) / name).unlink(missing_ok=True)
        write_report(load_once(RESULTS), Path(app.outdir) / "report.html")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("paper-table", PaperTableDirective)
    app.connect("build-finished", add_report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
