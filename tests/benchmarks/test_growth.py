"""Exponents of growth, and a chart of one machine's numbers or of two."""

import pytest
import torch

from benchmarks.growth import SETTINGS, exponent, training_step
from benchmarks.growth_chart import chart


def rows(power: float) -> list[dict[str, float]]:
    """Of a cost that is constant below 100 items."""
    return [{"n": n, "seconds": max(n, 100) ** power, "bytes": n} for n in (8, 32, 128, 512, 2048)]


def test_exponents_are_those_of_the_larger_half() -> None:
    assert exponent(rows(1.5), "seconds") == pytest.approx(1.5)
    assert exponent(rows(1.5), "bytes") == pytest.approx(1)


@pytest.mark.parametrize("machines", [["one"], ["one", "other"]])
def test_a_chart_has_a_line_for_each_sampler_and_machine(machines: list[str]) -> None:
    series = {"sets": {"Haar": {"rows": rows(1)}}, "graphs": {"Haar": {"rows": rows(2)}, "Frame": {"rows": rows(3)}}}
    figure = chart([{"hardware": name, "series": series} for name in machines])
    assert [len(panel.lines) for panel in figure.axes] == [len(machines) * lines for lines in (1, 2, 1, 2)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Haar", "Frame"]
    assert all(name in figure.get_suptitle() for name in machines)


@pytest.mark.parametrize(
    ("setting", "sampler"), [(name, sampler) for name, row in SETTINGS.items() for sampler in row[-1]]
)
def test_every_step_runs(setting: str, sampler: str) -> None:
    training_step(setting, sampler, 6, torch.device("cpu"))()
