"""The examples run, learn what they say, and their models are equivariant: each asserts that itself."""

import math
import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, groups, samplers
from probsym.errors import GroupError
from tests.checkpoint_cases import classic, config_of, vit, write

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def _pictures() -> Iterator[None]:
    """Each draws at least one picture, on no screen."""
    matplotlib.use("agg")
    yield
    drawn = plt.get_fignums()
    plt.close("all")
    assert drawn


@pytest.mark.slow
def test_graphs() -> None:
    assert runpy.run_path(str(EXAMPLES / "graphs.py"))["main"](60) > 0.7


@pytest.mark.slow
def test_particles() -> None:
    assert runpy.run_path(str(EXAMPLES / "particles.py"))["main"](40, 260) < 1.2


def test_own_sampler() -> None:
    example = runpy.run_path(str(EXAMPLES / "own_sampler.py"))
    assert example["main"]() < 0.2
    x, seeds = example["clouds"](3), torch.tensor([5, 6, 7])
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": groups.SO(2)}, example["Facing"](), samples=4)
    torch.testing.assert_close(model(x[1:2], seed=6), model(x, seed=seeds)[1:2])


@pytest.mark.slow
def test_own_module() -> None:
    assert runpy.run_path(str(EXAMPLES / "own_module.py"))["main"](300) < 0.5


def test_own_group(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_group.py"))["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["Haar", "Enumerate", "Canonical", "Learned", "FromHaar"]
    assert all(line.endswith("loaded again the same: True") for line in lines[:5])
    off = {line.split()[0]: float(line.split()[-1]) for line in lines[5:]}
    assert off["stratified"] < 1e-6 < off["independent"]


def test_lorentz(capsys: pytest.CaptureFixture[str]) -> None:
    run = runpy.run_path(str(EXAMPLES / "lorentz.py"))
    errors = run["main"](150)
    assert "Expected a compact group, which has a uniform law (got Lorentz(3))" in capsys.readouterr().out
    assert errors["MLP"][-1] > 10 * errors["MLP"][0]
    assert max(errors["Canonical"]) < 0.1
    assert errors["Canonical"] == pytest.approx(len(errors["Canonical"]) * errors["Canonical"][:1], rel=1e-6)
    momenta, net = run["events"](2)[0], run["Frame"]()
    refused = {
        samplers.FromHaar(net): "uniform law",
        samplers.Energy(torch.sum, elements=4): "uniform law",
        samplers.Quadrature(2): "verb `quadrature`",
        samplers.Learned(net): "noise=0",
        samplers.Frame(): "for a frame",
        samplers.Enumerate(): "finite",
    }
    for sampler, message in refused.items():
        with pytest.raises(GroupError, match=message):
            run["symmetrized"](sampler)(momenta)


def test_potential(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path))  # molecules are made there and then
    _, title, code = (EXAMPLES / "potential.py").read_text().split('"""\n', 2)
    assert "60 lines" in title
    assert len(code.split("def draw")[0].splitlines()) <= 60
    assert runpy.run_path(str(EXAMPLES / "potential.py"))["main"](40) < 0.8


@pytest.mark.slow
def test_point_cloud() -> None:
    assert runpy.run_path(str(EXAMPLES / "point_cloud.py"))["main"](80) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["a checkpoint", "none"])
def test_pretrained_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str], given: bool) -> None:
    source = write(tmp_path / "vit", classic(vit()), config_of(vit())) if given else None
    loss = runpy.run_path(str(EXAMPLES / "pretrained_encoder.py"))["main"](source, 2)
    assert math.isfinite(loss)
    printed = capsys.readouterr().out
    assert "tensors loaded" in printed
    assert ("resized: positions" in printed) is not given  # its grid is 4 x 4 as well
    assert "with equal outputs" in printed


def test_turned_images(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "turned_images.py"))
    calls: list[int] = []

    def classifier(images: Tensor) -> Tensor:
        calls.append(len(images))
        logits: Tensor = example["stand_in"](images)
        return logits

    torch.manual_seed(0)
    example["make_images"](tmp_path)
    accuracies = example["main"](classifier, tmp_path, side=8)
    example["draw"](accuracies)
    bare, symmetrized = zip(*accuracies, strict=True)
    assert bare[0] == 1 > max(bare[1:])
    assert len(symmetrized) == 4
    assert len(set(symmetrized)) == 1
    assert symmetrized[0] >= 0.95
    assert sum(calls) == 4 * 40 + 4 * (40 + 4 * 40)  # to learn; then in each orientation bare, and once for each turn
