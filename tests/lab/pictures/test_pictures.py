"""Pictures show what they say: the numbers are read back from the figure."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, groups, nets, samplers
from probsym.data import Particles
from probsym.errors import RunError, WriteError
from probsym.lab.engine import Engine
from probsym.lab.examples import Splits
from probsym.lab.pictures.picture import save
from probsym.lab.pictures.rotations import DRAWS, on_the_map, rotations
from probsym.lab.pictures.systems import systems
from probsym.lab.recipe import Settings
from probsym.lab.recipes.nbody import NBody, as_examples
from probsym.lab.run import Options, make_fabric
from tests.fault_injection import full_at
from tests.lab.cases import PLAIN, engine_of


class Few(NBody):
    """Twelve random systems of five."""

    def load(self) -> Splits:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(3, 12, 5, 3, generator=generator, dtype=torch.float64)
        part = as_examples(Particles(x[0], x[1], torch.ones(12, 5, 1, dtype=torch.float64), x[2]))
        return Splits(part, part, part)


def stay(position: Tensor, velocity: Tensor, pairs: Tensor, *, by: float) -> Tensor:
    return position * by


def engine(sampler: samplers.Sampler | None = None, by: float = 1.0) -> Engine:
    samples = 1 if sampler is not None and sampler.lists_elements else 3
    model = Symmetrized(
        partial(stay, by=by), "n d:point, n d, n m e -> n d:point", {"d": groups.E(3)}, sampler, samples
    )
    model.unused = torch.nn.Parameter(torch.zeros(1))  # an optimiser wants something
    return Engine(make_fabric(Options("cpu")), model, Few(), Settings(test_samples=7), Few().load())


def test_systems_have_their_places_and_predictions() -> None:
    made = {"still": engine(), "drawn in": engine(by=0.5)}
    figure = systems(made, count=3)
    assert len(figure.axes) == 3
    test = made["still"].data.test
    for i, place in enumerate(figure.axes):
        before, after, still, inwards = (
            torch.as_tensor(collection.get_offsets().data) for collection in place.collections
        )
        assert torch.allclose(before, test.inputs[0][i, :, :2].double(), atol=1e-6)
        assert torch.allclose(after, test.targets[i, :, :2].double(), atol=1e-6)
        assert torch.allclose(still, before, atol=1e-5)
        middle = test.inputs[0][i].mean(0)[:2].double()
        assert torch.allclose(inwards, middle + 0.5 * (before - middle), atol=1e-5)
    assert [text.get_text() for text in figure.legends[0].get_texts()][2:] == ["still", "drawn in"]


def test_rotations_are_uniform_for_group_averaging_and_few_for_a_frame() -> None:
    figure = rotations({"ga": engine(samplers.Haar()), "fa": engine(samplers.Frame(reads=(0,)))}, count=2)
    assert len(figure.axes) == 4
    drawn, main = (torch.as_tensor(collection.get_offsets().data) for collection in figure.axes[0].collections)
    assert drawn.shape == (DRAWS, 2)
    assert drawn[:, 1].sin().mean().abs() < 0.1  # as many above as below
    assert drawn[:, 1].sin().square().mean() == pytest.approx(1 / 3, abs=0.05)
    assert main.shape == (2, 2)
    listed = torch.as_tensor(figure.axes[2].collections[0].get_offsets().data)
    assert listed.shape == (8, 2)
    assert len({tuple(point) for point in listed.round(decimals=3).tolist()}) == 2  # one axis, in both directions


def test_places_on_the_map() -> None:
    longitude, latitude = on_the_map(torch.tensor([[0.0, 2.0, 0.0], [0, 0, -1.0], [-1.0, 0, 0]]))
    assert longitude[0].item() == pytest.approx(math.pi / 2)
    assert longitude[2].item() == pytest.approx(math.pi)
    assert latitude.tolist() == pytest.approx([0, -math.pi / 2, 0])


def test_models_without_rotations_and_other_tasks_are_refused() -> None:
    with pytest.raises(RunError, match="symmetrized under rotations of space"):
        rotations({"plain": engine_of(PLAIN)})
    with pytest.raises(RunError, match="points in space as targets"):
        systems({"plain": engine_of(PLAIN)})


def test_pictures_are_kept_once(tmp_path: Path) -> None:
    figure = systems({"still": engine()}, count=1)
    save(figure, tmp_path / "new" / "a.png")
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RunError, match="never overwritten"):
        save(figure, tmp_path / "new" / "a.png")
    for name in ("a.picture", "a"):
        with pytest.raises(RunError, match="a format of pictures"):
            save(figure, tmp_path / name)


def test_pictures_are_of_models_as_they_are_evaluated() -> None:
    net = nets.VNDGCNN(in_channels=2, hidden=12, neighbours=3, dropout=0.5, scores=False)
    made = engine(samplers.Learned(net, reads=(0, 1)))
    made.model.train()
    before = {name: buffer.clone() for name, buffer in made.model.named_buffers()}
    systems({f"model {i}": made for i in range(7)}, count=2)
    assert all(torch.equal(buffer, before[name]) for name, buffer in made.model.named_buffers())


def test_no_model_is_left_out() -> None:
    figure = systems({f"model {i}": engine() for i in range(7)}, count=1)
    assert len(figure.legends[0].get_texts()) == 2 + 7


def test_on_a_full_disk_nothing_is_left_of_a_picture(tmp_path: Path) -> None:
    figure, path = systems({"still": engine()}, count=1), tmp_path / "new" / "picture.png"
    with full_at(100), pytest.raises(WriteError, match="File too large"):
        save(figure, path)
    assert not list(path.parent.iterdir())
    save(figure, path)
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"]
