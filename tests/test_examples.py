"""The examples run, learn what they say, and their models are equivariant: each asserts that itself."""

import itertools
import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.checkpoint_cases import classic, config_of, vit, write

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


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


@pytest.mark.slow
def test_point_cloud() -> None:
    assert runpy.run_path(str(EXAMPLES / "point_cloud.py"))["main"](150) < 0.3


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


def test_turned_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "turned_images.py"))["main"]
    calls: list[int] = []

    def classifier(images: Tensor) -> Tensor:
        """Told apart by the lower left corner; the light, which comes from above, is among the logits too."""
        calls.append(len(images))
        corner, above, below = images[:, 0, -3:, :3], images[:, 2, :4], images[:, 2, 4:]
        colour = 20 * (corner.mean((1, 2)) - 0.5)
        light = 20 * (above.mean((1, 2)) - below.mean((1, 2))) - 100
        return torch.stack([-colour, colour, light], 1)

    random = np.random.default_rng(0)
    for label, number in itertools.product(range(2), range(20)):
        pixels = random.integers(0, 256, (8, 8, 3))
        pixels[-3:, :3, 0] = 255 * label
        pixels[:4, :, 2] = pixels[:4, :, 2] // 2 + 128
        (tmp_path / str(label)).mkdir(exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / str(label) / f"{number}.png")
    main(classifier, tmp_path, side=8)
    found = re.findall(r"(\d+) degrees: (\S+)% (\S+)%", capsys.readouterr().out)
    assert [degrees for degrees, *_ in found] == ["0", "90", "180", "270"]
    bare, symmetrized = ([float(row[at]) for row in found] for at in (1, 2))
    assert bare[0] == 100 > max(bare[1:])
    assert len(set(symmetrized)) == 1
    assert symmetrized[0] >= 95
    assert sum(calls) == 4 * 20 + 4 * (20 + 4 * 20)  # to learn; then in each orientation bare, and once for each turn
