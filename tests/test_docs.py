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


@pytest.mark.filterwarnings("ignore")  # of torch.onnx itself
def test_the_code_about_tools_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    page = (ROOT / "docs" / "tools.md").read_text()
    model = Symmetrized(bases.MLP([12, 1]), "n c -> k", {"n": groups.S()}, samples=3)
    names: dict[str, object] = {
        "torch": torch,
        "model": model,
        "x": torch.randn(2, 4, 3),
        "other": torch.randn(5, 4, 3),
    }
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 3
    exec(
        blocks[0].replace("drawing =", "wanted = model(other, noise=noise)\nassert torch.equal(y, wanted)\ndrawing ="),
        names,
    )
    for block in blocks[1:]:
        exec(block, names)
    assert {path.suffix for path in tmp_path.iterdir()} == {".pt2", ".onnx"}
    assert [len(one) for one in names["each"].values()] == [2, 2]  # type: ignore[attr-defined]
