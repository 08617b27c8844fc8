"""One page about results: a document is gathered from files, and written as HTML and as Markdown."""

from probsym.lab.report.gathered import Gathered, gather, gather_runs
from probsym.lab.report.write import check_places, write_report

__all__ = ["Gathered", "check_places", "gather", "gather_runs", "write_report"]
