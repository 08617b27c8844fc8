import re
import warnings
from pathlib import Path
from typing import Any

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


def test_the_code_about_training_runs_in_a_loop_in_lightning_and_in_hugging_face(tmp_path: Path) -> None:
    names: dict[str, Any] = {"folder": str(tmp_path)}
    first, *trainings = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.S)
    exec(first, names)
    train, make_model = names["train"], names["make_model"]

    def loss(model: Symmetrized) -> float:
        features, adjacency, mask, label = train.tensors
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            logits = model.eval()(features, adjacency, mask=mask, samples=20, generator=generator)
            return float(torch.nn.functional.cross_entropy(logits, label))

    assert len(trainings) == 3
    before = loss(make_model())
    for block, trained in zip(trainings, ("model", "classifier", "hugging"), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the trainers themselves, about workers and their own versions
            exec(block, names)
        found = names[trained]
        model = found if trained == "model" else found.model if trained == "classifier" else found.model.model
        assert loss(model) < before - 0.05, trained


def test_the_code_about_nets_runs() -> None:
    torch.manual_seed(0)
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "nets": nets, "groups": groups}
    names |= {"Symmetrized": Symmetrized, "images": torch.randn(2, 8, 8), "classifier": lambda x: x[:, 0]}
    names |= {"types": torch.rand(2, 6, 5), "positions": torch.randn(2, 6, 3)}
    names |= {"mask": torch.ones(2, 6, dtype=torch.bool)}
    names |= {"energy": lambda types, positions, mask: (types[..., 0] * positions[..., 0] * mask["n"]).sum(1)}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "nets.md").read_text(), re.S)
    for block in blocks:
        exec(block, names)
    assert names["energies"].shape == (2,)  # type: ignore[attr-defined]
    assert names["logits"].shape == (2, 8)  # type: ignore[attr-defined]


def test_the_code_about_inference_runs() -> None:
    torch.manual_seed(0)
    model = Symmetrized(lambda x: x[:, 0, 0] / 5, "n c -> ", {"n": groups.S()})
    names: dict[str, object] = {"torch": torch, "model": model, "x": torch.randn(2, 6, 1)}
    names |= {"mask": torch.ones(2, 6, dtype=torch.bool)}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "inference.md").read_text(), re.S):
        exec(block, names)
    assert isinstance(names["samples"], int)
    assert names["samples"] > 100


def test_the_code_about_potentials_runs() -> None:
    torch.manual_seed(0)
    network = torch.nn.Bilinear(3, 3, 1, dtype=torch.float64)
    names: dict[str, Any] = {"network": lambda types, x: network(types, x.tanh()).sum((1, 2))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the network is in a function
        for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "potentials.md").read_text(), re.S):
            exec(block, names)
    assert names["degree"] == 0  # EMT is invariant
    assert names["forces"].shape == (6, 3)
    assert names["calculator"].conservative
