import re
from pathlib import Path

import pytest
import torch

from probsym import Symmetrized, bases, groups, nets, samplers

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BENCHMARKS = ROOT / "results" / "benchmarks"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_result_files_and_pictures_that_exist(page: Path) -> None:
    text = page.read_text()
    named = [name for name in re.findall(r"`(results/[^`]+)`", text) if not list(ROOT.glob(name))]
    beside = [
        name for name in re.findall(r"`([\w.-]+\.(?:json|csv))`", text) if not list(ROOT.glob(f"results/**/{name}"))
    ]
    pictures = [name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text) if not (page.parent / name).exists()]
    assert (named, beside, pictures) == ([], [], [])


def test_every_benchmark_is_named_on_a_page() -> None:
    named = {name for page in PAGES for name in re.findall(r"(\w+\.json)`", page.read_text())}
    assert {path.name for path in BENCHMARKS.glob("*.json")} - named == set()


def test_every_picture_is_shown_on_a_page() -> None:
    shown = {name for page in PAGES for name in re.findall(r"pictures/([\w.-]+)\)", page.read_text())}
    assert {path.name for path in (ROOT / "docs" / "pictures").iterdir()} == shown


def test_curves_belong_to_a_benchmark() -> None:
    results = [path.stem for path in BENCHMARKS.glob("*.json")]
    assert [path.name for path in BENCHMARKS.glob("*.csv") if not path.stem.startswith(tuple(results))] == []


def test_the_code_about_gradients_runs() -> None:
    torch.manual_seed(0)
    page = (ROOT / "docs" / "gradients.md").read_text()
    base = bases.MLP([12, 16, 1], activation="tanh", shape=())
    model = Symmetrized(base, "m d:point -> ", {"d": groups.E(3)}, samplers.Frame())
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "nets": nets, "model": model}
    names |= {"x": torch.randn(2, 4, 3), "forces": torch.randn(2, 4, 3)}
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert base.layers[0].weight.grad is not None


def test_the_code_about_averages_runs() -> None:
    torch.manual_seed(0)
    page = (ROOT / "docs" / "averages.md").read_text()
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5))
    score = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 1))
    net = nets.Lifted(score, groups.C(4), axis=(-2, -1), kind="grid", rank=3)
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "groups": groups, "Symmetrized": Symmetrized}
    names |= {"base": bases.MLP([12, 16, 1], activation="tanh", shape=()), "x": torch.randn(2, 4, 3)}
    names |= {"classifier": classifier, "images": torch.randn(6, 3, 8, 8), "labels": torch.arange(6) % 5, "net": net}
    names |= {"matrices": (m := torch.randn(3, 4, 4)) + m.mT, "reader": bases.MLP([16, 8, 2])}
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, names)
    assert names["energy"].shape == (2,)
    assert names["logits"].shape == (6, 5)
    assert score[1].weight.grad.abs().max() > 0
    assert names["readout"].shape == (3, 2)
