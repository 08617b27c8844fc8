"""One page about results: load files, make a document of them, write it as HTML and as Markdown."""

from probsym.lab.report.load import ReportData, load_results, load_runs
from probsym.lab.report.write import check_places, write_report

__all__ = ["ReportData", "check_places", "load_results", "load_runs", "write_report"]
