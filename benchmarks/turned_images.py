"""A frozen ImageNet classifier on turned images: bare, averaged, and symmetrized by samplers that look for the pose.

Rows, each in every orientation of C(4), and of D(4), which has the mirror images too:

- bare, and the exact average over the group;
- `Energy` with the entropy of the prediction, which needs no training;
- `Energy` with a small head on the classifier's own frozen features, which has learned from other images, turned by
  quarters, which turn is upright. With tau > 0 classifier and energy share their passes, as many as the average takes;
- `Canonical` and `Learned` with a small image net, trained by the prior alone, on other images too.

Then all but the last under any angle, averaged over C(8). Each image passes the classifier once in each orientation.
What it says is kept in files, and samplers look it up (`kept_images.py`). A few images go through whole models besides,
to check that and to count passes.

Run: python benchmarks/turned_images.py IMAGES --training FOLDER --small FOLDER --weights FILE --kept FOLDER
[--classifier deit-tiny] [--first 5000] [--mirrored 5000] [--any-angle 1000] [--out FILE]. IMAGES has one folder for
each class, in the order of the classes by name; the first images are the first of every class. The head learns from
--training, the net from --training and --small. The last line is JSON; `turned_images_chart.py` draws it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.any_angle import UPRIGHT, answer, any_angle_errors, any_angle_rows
from benchmarks.image_classifiers import CLASSIFIERS, Classifier, classifier
from benchmarks.image_passes import image_files, images_of, labels_of, passed, turned, turned_by_any_angle
from benchmarks.kept_images import Kept, answers, marked, model_of
from benchmarks.pose_head import PoseHead, trained_head
from benchmarks.pose_net import NOISE, PoseNet, pose_sampler, thumbnails, trained_net
from benchmarks.record import finish
from benchmarks.shares import accuracies
from probsym import Symmetrized, groups, samplers, testing
from probsym.lab.provenance import provenance

TAUS = {"entropy": (0.0, 0.1, 0.3, 1.0), "head": (0.0, 0.5, 1.0, 2.0)}
"""The head was trained at tau = 1; no temperature is chosen by the images that are measured."""
CHECKED, VIEWS, DRAWS = 2, 2, 4
"""Images that go through whole models; random crops of each training image for the small net; draws of `Learned`."""


def entropy(probabilities: Tensor) -> Tensor:
    """Of predictions (..., classes)."""
    return -torch.xlogy(probabilities, probabilities).sum(-1)


class Shared(nn.Module):
    """A frozen classifier that a base and an energy share, so that the same images pass once; it counts them."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model, self.passes = model, 0
        self.last: tuple[Tensor, Tensor, Tensor] | None = None

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and features."""
        if self.last is None or not torch.equal(self.last[0], images):
            self.passes += len(images)
            logits, features = self.model(images)
            self.last = images, logits.softmax(-1), features
        return self.last[1], self.last[2]

    def forward(self, images: Tensor) -> Tensor:
        return self.both(images)[0]


class HeadEnergy(nn.Module):
    """The head's energy of images."""

    def __init__(self, shared: Shared, head: PoseHead) -> None:
        super().__init__()
        self.shared, self.head = shared, head

    def forward(self, images: Tensor) -> Tensor:
        energies: Tensor = self.head(self.shared.both(images)[1])
        return energies


def rows(
    energies: Mapping[str, Callable[..., Tensor]],
    pose_nets: dict[float, PoseNet],
    group: groups.Group,
    reads: tuple[int, ...] | None,
) -> dict[str, samplers.Sampler]:
    """The sampler of each row but the bare one."""
    by_row: dict[str, samplers.Sampler] = {"average": samplers.Enumerate()}
    for name, energy in energies.items():
        by_row |= {f"energy: {name}, tau {tau:g}": samplers.Energy(energy, tau) for tau in TAUS[name]}
    nets = {"canonical": 0.0, "learned": NOISE}
    return by_row | {name: pose_sampler(pose_nets[noise], group, noise, reads) for name, noise in nets.items()}


def passes(name: str, order: int) -> int:
    """Images through the classifier for one answer; with tau 0 the chosen one passes again."""
    return {"bare": 1, "upright, in the disc": 1, "canonical": 1, "learned": DRAWS}.get(
        name, order + name.endswith("tau 0")
    )


def looked_up(
    probabilities: Tensor, head_energies: Tensor, pose_nets: dict[float, PoseNet], small: Tensor, labels: Tensor
) -> dict[str, dict[str, Any]]:
    """Every row from what was kept of images moved by each element of C(4) or D(4), (elements, count, ...)."""
    group = group_of(probabilities)
    base, blank, grids = Kept(probabilities), marked(small[:, :0, :2, :2]), marked(small)
    average = answers(base, samplers.Enumerate(), group, blank)
    bare = answers(base, None, group, blank)
    by_row = {"bare": accuracies(bare, average, labels)}
    by_row["bare"] |= {"passes": 1, "equivariance_error": float((bare - bare[:1]).abs().max())}
    energies = {"entropy": Kept(entropy(probabilities)), "head": Kept(head_energies)}
    for name, sampler in rows(energies, pose_nets, group, (1,)).items():
        own = grids if isinstance(sampler, samplers.Learned) else blank  # others do not look at the image
        by_row[name] = accuracies(answers(base, sampler, group, own, DRAWS), average, labels)
        few = torch.arange(min(20, len(own)), dtype=own.dtype).unsqueeze(1), own[:20]
        error = testing.assert_equivariant(model_of(base, sampler, group, DRAWS), *few).error
        by_row[name] |= {"passes": passes(name, len(probabilities)), "equivariance_error": error}
        print(name, *(f"{accuracy:.2f}" for accuracy in by_row[name]["accuracy"]), flush=True)
    return by_row


def whole(
    shared: Shared, head: PoseHead, pose_nets: dict[float, PoseNet], images: Tensor, kept: Tensor
) -> dict[str, dict[str, float]]:
    """A few images in every orientation through models that look nothing up.

    `kept` (elements, count, classes) is the bare classifier's answer for the same images. `learned` is left out, whose
    noise is that of thumbnails.
    """
    group, by_row = group_of(kept), {}
    energies: dict[str, Callable[..., Tensor]]
    energies = {"entropy": lambda x: entropy(shared(x)), "head": HeadEnergy(shared, head)}
    for name in ("average", "energy: head, tau 0", "energy: head, tau 1", "canonical"):
        sampler = rows(energies, pose_nets, group, None)[name]
        model = Symmetrized(shared, "c (h w) -> k", {"h w": group}, sampler).eval()
        before, answered = shared.passes, []
        for element in range(len(kept)):
            shared.last = None  # which may have been the same images after a turn
            with torch.no_grad():
                answered.append(model(turned(images, element)))
        outputs = torch.stack(answered)
        each = (shared.passes - before) / outputs.shape[:2].numel()
        by_row[name] = {"passes": each, "equivariance_error": float((outputs - outputs[:1]).abs().max())}
        if name == "average":
            by_row[name]["from_looked_up"] = float((outputs - kept.mean(0)).abs().max())
    return by_row


def group_of(kept: Tensor) -> groups.C | groups.D:
    """The group that images were moved by, from the number of its elements."""
    return groups.C(4) if len(kept) == groups.C(4).order else groups.D(4)


def pose_nets_from(training: Path, small: Path, kept: Path) -> tuple[dict[float, PoseNet], dict[str, Any]]:
    """A small net for `Canonical` and one for `Learned`, by their noise, and what they were trained on.

    Those that an earlier call has kept in the folder are read.
    """
    files, trained = {noise: kept / f"net-noise-{noise:g}.pt" for noise in (0.0, NOISE)}, {}
    if not all(file.exists() for file in files.values()):
        views = [thumbnails_of(image_files(training), view) for view in range(VIEWS + 1)]
        images = torch.cat([*views, thumbnails_of(image_files(small))])
        for noise, file in files.items():
            net, loss = trained_net(images, noise)
            torch.save({"weights": net.state_dict(), "loss": loss, "images": len(images)}, file)
    report: dict[str, Any] = {}
    for noise, file in files.items():
        read = torch.load(file, weights_only=True)
        trained[noise] = PoseNet().eval().requires_grad_(False)
        trained[noise].load_state_dict(read["weights"])
        report |= {"images": read["images"], f"loss at noise {noise:g}": read["loss"]}
    return trained, report


def thumbnails_of(files: list[Path], view: int = 0) -> Tensor:
    """Of images in files, (count, 3, 56, 56)."""
    return torch.cat([thumbnails(images_of(files[at : at + 250], view)) for at in range(0, len(files), 250)])


def main() -> None:
    """Pass, train, measure, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("images", type=Path)
    for name in ("training", "small", "weights", "kept"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--classifier", choices=CLASSIFIERS, default="deit-tiny")
    for name, count in (("first", 5000), ("mirrored", 5000), ("any-angle", 1000)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    files, labels, kept = image_files(given.images), labels_of(image_files(given.images)), given.kept / given.classifier
    shared = Shared(classifier(given.classifier, given.weights))
    _, features = passed(shared.model, image_files(given.training), range(4), kept / "training")
    head, choice = trained_head(features)
    pose_nets, net_report = pose_nets_from(given.training, given.small, given.kept)
    print(choice, net_report, flush=True)
    result = {"benchmark": "turned_images", "classifier": given.classifier, "head": asdict(choice), "net": net_report}
    few = images_of(files[:CHECKED])
    for name, order, count in (("C4", 4, given.first), ("D4", 8, given.mirrored)):
        logits, features = passed(shared.model, files[:count], range(order), kept / "images")
        probabilities, energies = logits.softmax(-1), torch.stack([head(rows) for rows in features])
        small = thumbnails_of(files[:count])
        by_row = looked_up(probabilities, energies, pose_nets, small, labels[:count])
        checked = whole(shared, head, pose_nets, few, probabilities[:, :CHECKED])
        result[name] = {"images": len(small), "rows": by_row, "whole_models": checked}
    count = given.any_angle
    logits, features = passed(shared.model, files[:count], range(UPRIGHT + 1), kept / "angle", turned_by_any_angle)
    probabilities, energies = logits.softmax(-1), torch.stack([head(rows) for rows in features])
    by_name = {"entropy": entropy(probabilities), "head": energies}
    by_row = any_angle_rows(probabilities, by_name, TAUS, labels[:count])
    by_row = {row: {**numbers, "passes": passes(row, UPRIGHT)} for row, numbers in by_row.items()}
    expected = {None: answer(probabilities, 0 * energies, 1.0), 1.0: answer(probabilities, energies, 1.0)}
    expected = {tau: outputs[:CHECKED] for tau, outputs in expected.items()}
    checked = any_angle_errors(shared, HeadEnergy(shared, head), few, expected)
    result["any angle, C8"] = {"images": probabilities.shape[1], "rows": by_row, "whole_models": checked}
    finish({**result, **provenance(torch.device("cpu"))}, given.out)


if __name__ == "__main__":
    main()
