"""That what is looked up is what the images themselves would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from benchmarks import image_passes, pose_head, pose_net
from benchmarks.any_angle import UPRIGHT, answer, any_angle_errors
from benchmarks.image_classifiers import Classifier, DeiT
from benchmarks.image_passes import image_files, images_of, labels_of, passed, turned, turned_by_any_angle
from benchmarks.kept_images import Kept, answers, marked
from benchmarks.pose_head import PoseHead, trained_head
from benchmarks.pose_net import PoseNet, pose_sampler, thumbnails, trained_net
from benchmarks.shares import accuracies
from benchmarks.turned_images import HeadEnergy, Shared, entropy, looked_up, whole
from benchmarks.turned_images_chart import SHOWN, chart
from probsym import Symmetrized, groups, samplers
from tests.checkpoint_cases import timm, vit, write

CLASSES, SIDE = 3, 8


class Tiny(Classifier):
    """A linear classifier of small images, whose features are the means of its quarters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3 * SIDE * SIDE, CLASSES).requires_grad_(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(self.coloured(images).flatten(1)), nn.functional.avg_pool2d(images, SIDE // 2).flatten(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images in folders by class, lighter above."""
    monkeypatch.setattr(image_passes, "SIDE", SIDE)
    monkeypatch.setattr(image_passes, "BLOCK", 4)
    random = np.random.default_rng(0)
    for number in range(3 * CLASSES):
        pixels = random.integers(0, 200, (12, 16, 3))
        pixels[:6] += 50
        (tmp_path / "images" / f"{number % CLASSES:03d}").mkdir(parents=True, exist_ok=True)
        place = tmp_path / "images" / f"{number % CLASSES:03d}" / f"{number}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(place)
    return tmp_path / "images"


def test_the_first_images_are_from_all_classes(folder: Path) -> None:
    files = image_files(folder)
    assert labels_of(files).tolist() == 3 * list(range(CLASSES))
    middle, crop = images_of(files[:1]), images_of(files[:1], view=1)
    assert middle.shape == crop.shape == (1, 3, SIDE, SIDE)
    assert not torch.equal(middle, crop)
    assert torch.equal(crop, images_of(files[:1], view=1))


def test_images_pass_once_in_each_orientation(folder: Path, tmp_path: Path) -> None:
    model, files = Tiny(), image_files(folder)
    logits, features = passed(model, files, range(8), tmp_path / "kept")
    images = images_of(files)
    for element in range(8):
        expected, means = model(turned(images, element))
        torch.testing.assert_close(logits[element], expected)
        torch.testing.assert_close(features[element], means, atol=1e-3, rtol=1e-3)  # kept in half precision
    again, _ = passed(None, files, range(8), tmp_path / "kept")
    assert torch.equal(again, logits)


@pytest.mark.parametrize("group", [groups.C(4), groups.D(4)], ids=repr)
def test_models_that_look_up_answer_as_those_on_images(folder: Path, group: groups.C | groups.D) -> None:
    shared, images = Shared(Tiny()), images_of(image_files(folder))
    head = PoseHead(torch.zeros(12), torch.ones(12), hidden=4, dropout=0.0).eval().requires_grad_(False)
    outputs = [shared.both(turned(images, element)) for element in group.elements().tolist()]
    kept, energies = (torch.stack(each) for each in zip(*outputs, strict=True))
    pairs = [
        (samplers.Enumerate(), samplers.Enumerate()),
        (samplers.Energy(Kept(head(energies)), 0.5), samplers.Energy(HeadEnergy(shared, head), 0.5)),
        (samplers.Energy(Kept(entropy(kept))), samplers.Energy(lambda x: entropy(shared(x)))),
    ]
    for looking_up, direct in pairs:
        actual = answers(Kept(kept), looking_up, group, marked(images[:, :0, :2, :2]))
        model = Symmetrized(shared, "c (h w) -> k", {"h w": group}, direct).eval()
        before = shared.passes
        expected = torch.stack([model(turned(images, element)) for element in group.elements().tolist()])
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(actual, actual[:1].expand_as(actual))
        each = (shared.passes - before) / len(images) / group.order
        assert each == group.order + (1 if getattr(direct, "tau", 1.0) == 0 else 0)
    bare = answers(Kept(kept), None, group, marked(images[:, :0, :2, :2]))
    assert torch.equal(bare, kept)


def test_every_row_is_measured_and_drawn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pose_net, "SIDE", SIDE)
    shared, files = Shared(Tiny()), image_files(folder)
    images = images_of(files)
    head = PoseHead(torch.zeros(12), torch.ones(12), hidden=0, dropout=0.0).eval().requires_grad_(False)
    pose_nets = {noise: PoseNet().eval().requires_grad_(False) for noise in (0.0, pose_net.NOISE)}
    outputs = [shared.both(turned(images, element)) for element in range(4)]
    kept, features = (torch.stack(each) for each in zip(*outputs, strict=True))
    rows = looked_up(kept, head(features), pose_nets, thumbnails(images), labels_of(files))
    assert set(SHOWN) <= set(rows)
    assert all(row["equivariance_error"] < 1e-5 for name, row in rows.items() if name != "bare")
    assert rows["bare"]["equivariance_error"] > 0.01
    checked = whole(shared, head, pose_nets, images[:2], kept[:, :2])
    assert {name: row["passes"] for name, row in checked.items()} == {
        "average": 4,
        "energy: head, tau 0": 5,
        "energy: head, tau 1": 4,
        "canonical": 1,
    }
    assert checked["average"]["from_looked_up"] < 1e-6
    figure = chart([{"classifier": "tiny", "C4": {"images": 9, "rows": rows}}])
    assert len(figure.axes[0].containers) == 2 * len(SHOWN)  # bars and their intervals


def test_under_any_angle_weights_are_those_of_energy(folder: Path) -> None:
    shared, images = Shared(Tiny()), images_of(image_files(folder))
    head = PoseHead(torch.zeros(12), torch.ones(12), hidden=4, dropout=0.0).eval().requires_grad_(False)
    outputs = [shared.both(turned_by_any_angle(images, element, 0)) for element in range(UPRIGHT + 1)]
    kept, features = (torch.stack(each) for each in zip(*outputs, strict=True))
    expected = {None: answer(kept, torch.zeros(kept.shape[:2]), 1.0)}
    expected |= {tau: answer(kept, head(features), tau) for tau in (0.0, 0.5)}
    errors = any_angle_errors(shared, HeadEnergy(shared, head), images, expected)
    assert all(row["from_looked_up"] < 1e-5 for row in errors.values())
    second = turned_by_any_angle(images[1:], 3, 1)
    torch.testing.assert_close(second, turned_by_any_angle(images, 3, 0)[1:])


def test_a_head_learns_which_turn_is_upright(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(pose_head, "STEPS", 100)
    features = torch.randn(4, 60, 6)
    features[0, :, 2] += 6
    head, choice = trained_head(features)
    assert choice.upright > 0.8
    assert (head(features).argmin(0) == 0).float().mean() > 0.9


def test_a_net_learns_to_put_images_upright(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(pose_net, "SIDE", 16)
    monkeypatch.setattr(pose_net, "ROWS", 16)
    images = torch.rand(64, 3, 16, 16) * 0.5
    images[:, :, :8] += 0.5
    net, loss = trained_net(images, noise=0.0)
    assert loss < 0.7 < torch.log(torch.tensor(4.0))
    model = Symmetrized(
        lambda x: x, "c (h w) -> c (h w)", {"h w": groups.C(4)}, pose_sampler(net, groups.C(4), 0.0, None)
    )
    elements = model.eval().estimate(turned(images, 1)).elements["h w"]
    assert (elements == 1).float().mean() > 0.9


def test_shares_have_intervals() -> None:
    labels = torch.tensor([0] * 50 + [1] * 50)
    always, right = torch.tensor([[1.0, 0.0]]).expand(100, 2), nn.functional.one_hot(labels).float()
    shares = accuracies(torch.stack([always, right]), torch.stack([always, always]), labels)
    assert shares["accuracy"] == [50, 100]
    assert shares["interval"][0] == pytest.approx([40.38, 59.62], abs=0.01)  # Wilson's, as tables have it
    assert shares["over_average"] == [0, 50]
    assert shares["over_average_interval"][1] == pytest.approx([40.15, 59.85], abs=0.01)


def test_a_vit_with_names_of_timm_classifies(tmp_path: Path) -> None:
    shape = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
    model = vit(**shape, image_size=SIDE, patch_size=4, layer_norm_eps=1e-6)
    deit, images = DeiT(write(tmp_path, timm(model, fused=False)) / "model.safetensors").eval(), torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        logits, features = deit(images)
        tokens = model(deit.coloured(images), output_hidden_states=True)
        expected = model.pooler.dense(tokens.last_hidden_state[:, 0])
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    assert features.shape == (2, 6 * 192)
    torch.testing.assert_close(features[:, :192], tokens.hidden_states[7][:, 1:].mean(1), atol=1e-4, rtol=1e-4)
