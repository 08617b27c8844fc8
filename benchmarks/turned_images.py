"""A frozen ImageNet classifier on turned images: bare, averaged, and symmetrized by samplers that look for the pose.

Rows, each in every orientation of C(4), or of D(4), which has the mirror images too:

- bare, and the exact average over the group;
- `Energy` with the entropy of the prediction, which needs no training;
- `Energy` with a small head on the classifier's own frozen features, which has learned from other images, turned by
  quarters, which turn is upright. With tau > 0 classifier and energy share their passes, as many as the average takes;
- `Canonical` and `Learned` with a small image net, trained by the prior alone, on other images too.

Each image passes the classifier once in each orientation. What it says is kept in files, and samplers look it up
(`kept_images.py`). A few images go through whole models besides, to check that and to count passes.

Run: python benchmarks/turned_images.py IMAGES --training FOLDER --small FOLDER --classifier deit-tiny --weights FILE
--kept FOLDER [--group D4] [--first 1000] [--out FILE]. IMAGES has one folder for each class, in the order of the classes
by name. The head learns from --training, the net from --training and --small. The last line is JSON.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.image_classifiers import CLASSIFIERS, Classifier, classifier
from benchmarks.image_passes import image_files, images_of, labels_of, passed, turned
from benchmarks.kept_images import Kept, answers, marked, model_of
from benchmarks.pose_head import PoseHead, trained_head
from benchmarks.pose_net import NOISE, PoseNet, pose_sampler, thumbnails, trained_net
from benchmarks.record import finish
from probsym import Symmetrized, groups, samplers, testing
from probsym.lab.provenance import provenance

GROUPS: dict[str, groups.C | groups.D] = {"C4": groups.C(4), "D4": groups.D(4)}
ENTROPY_TAUS, HEAD_TAUS = (0.0, 0.1, 0.3, 1.0), (0.0, 0.5, 1.0, 2.0)
"""The head was trained at tau = 1; no temperature is chosen by the images that are measured."""
CHECKED, VIEWS, DRAWS = 4, 4, 4
"""Images that go through whole models; random crops of each training image for the small net; draws of `Learned`."""

Energies = dict[str, Callable[..., Tensor]]


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


def rows(
    energies: Energies, pose_nets: dict[float, PoseNet], group: groups.Group, reads: tuple[int, ...] | None
) -> dict[str, samplers.Sampler]:
    """The sampler of each row but the bare one."""
    found: dict[str, samplers.Sampler] = {"average": samplers.Enumerate()}
    for name, taus in (("entropy", ENTROPY_TAUS), ("head", HEAD_TAUS)):
        found |= {f"energy: {name}, tau {tau:g}": samplers.Energy(energies[name], tau) for tau in taus}
    nets = {"canonical": 0.0, "learned": NOISE}
    return found | {name: pose_sampler(pose_nets[noise], group, noise, reads) for name, noise in nets.items()}


def passes(name: str, group: groups.Group) -> int:
    """Images through the classifier for one answer; tau 0 lets the chosen one pass again."""
    order = group.cardinality()
    return {"bare": 1, "canonical": 1, "learned": DRAWS}.get(name, order + name.endswith("tau 0"))


def interval(right: Tensor) -> list[float]:
    """Wilson's 95 % interval of a share, in percent."""
    n, share, z = len(right), float(right.double().mean()), 1.959964
    middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [100 * (middle - half) / (1 + z * z / n), 100 * (middle + half) / (1 + z * z / n)]


def accuracies(found: Tensor, average: Tensor, labels: Tensor) -> dict[str, Any]:
    """In each orientation, in percent with 95 % intervals; and how far above the average on the same images."""
    right, other = (one.argmax(-1) == labels for one in (found, average))
    apart = (right.double() - other.double()) * 100
    half = 1.959964 * apart.std(1) / math.sqrt(len(labels))
    return {
        "accuracy": [100 * float(one.double().mean()) for one in right],
        "interval": [interval(one) for one in right],
        "over_average": apart.mean(1).tolist(),
        "over_average_interval": torch.stack([apart.mean(1) - half, apart.mean(1) + half], 1).tolist(),
    }


def looked_up(
    probabilities: Tensor, head_energies: Tensor, pose_nets: dict[float, PoseNet], small: Tensor, labels: Tensor
) -> dict[str, Any]:
    """Every row from what was kept of images moved by each element (elements, count, ...)."""
    group = GROUPS["C4" if len(probabilities) == 4 else "D4"]
    base, bare_grids, grids = Kept(probabilities), marked(small[:, :0, :2, :2]), marked(small)
    energies: Energies = {"entropy": Kept(entropy(probabilities)), "head": Kept(head_energies)}
    average = answers(base, samplers.Enumerate(), group, bare_grids)
    bare = answers(base, None, group, bare_grids)
    found = {"bare": accuracies(bare, average, labels)}
    found["bare"] |= {"passes": 1, "equivariance_error": float((bare - bare[:1]).abs().max())}
    for name, sampler in rows(energies, pose_nets, group, (1,)).items():
        own = grids if isinstance(sampler, samplers.Learned) else bare_grids  # others do not look at the image
        found[name] = accuracies(answers(base, sampler, group, own, DRAWS), average, labels)
        few = torch.arange(min(20, len(own)), dtype=own.dtype).unsqueeze(1), own[:20]
        error = testing.assert_equivariant(model_of(base, sampler, group, DRAWS), *few).error
        found[name] |= {"passes": passes(name, group), "equivariance_error": error}
        print(name, *(f"{one:.2f}" for one in found[name]["accuracy"]), flush=True)
    return found


def whole(
    shared: Shared, head: PoseHead, pose_nets: dict[float, PoseNet], images: Tensor, kept: Tensor
) -> dict[str, dict[str, float]]:
    """A few images in every orientation through models that look nothing up.

    `kept` (elements, count, classes) is the bare classifier's answer for the same images. `learned` is left out, whose
    noise is that of thumbnails.
    """
    group = GROUPS["C4" if len(kept) == 4 else "D4"]
    energies: Energies = {
        "entropy": lambda x: entropy(shared.both(x)[0]),
        "head": lambda x: head(shared.both(x)[1]),
    }
    grids, found = marked(thumbnails(images)), {}
    for name in ("average", "energy: head, tau 0", "energy: head, tau 1", "canonical"):
        sampler = rows(energies, pose_nets, group, None)[name]
        model = Symmetrized(shared, "c (h w) -> k", {"h w": group}, sampler).eval()
        before = shared.passes
        with torch.no_grad():
            outputs = torch.stack([model(turned(images, element)) for element in group.elements().tolist()])
        each = (shared.passes - before) / outputs.shape[:2].numel()
        found[name] = {"passes": each, "equivariance_error": float((outputs - outputs[:1]).abs().max())}
        if name == "average":
            lookup = answers(Kept(kept), sampler, group, grids)
            found[name]["from_looked_up"] = float((outputs - lookup).abs().max())
    return found


def pose_nets_from(training: Path, small: Path) -> tuple[dict[float, PoseNet], dict[str, Any]]:
    """A small net for `Canonical` and one for `Learned`, by their noise, and what they were trained on."""
    files, tiny = image_files(training), image_files(small)
    images = [thumbnails(images_of(files, view)) for view in range(VIEWS + 1)] + [thumbnails(images_of(tiny))]
    together = torch.cat(images)
    trained = {noise: trained_net(together, noise) for noise in (0.0, NOISE)}
    report = {f"loss at noise {noise}": loss for noise, (_, loss) in trained.items()}
    return {noise: net for noise, (net, _) in trained.items()}, {"images": len(together), **report}


def main() -> None:
    """Pass, train, measure, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("images", type=Path)
    parser.add_argument("--training", type=Path, required=True)
    parser.add_argument("--small", type=Path, required=True)
    parser.add_argument("--classifier", choices=CLASSIFIERS, default="deit-tiny")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--group", choices=GROUPS, default="C4")
    parser.add_argument("--first", type=int, default=None, help="so many images, evenly from all classes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    group, model = GROUPS[given.group], classifier(given.classifier, given.weights)
    files = image_files(given.images)[: given.first]
    labels = labels_of(image_files(given.images))[: given.first]
    folder = given.kept / given.classifier
    _, features = passed(model, image_files(given.training), range(4), folder / "training")
    head, choice = trained_head(features, torch.arange(features.shape[1]))
    print(choice, flush=True)
    pose_nets, net_report = pose_nets_from(given.training, given.small)
    print(net_report, flush=True)
    logits, features = passed(model, files, group.elements().tolist(), folder / "images")
    probabilities, energies = logits.softmax(-1), torch.stack([head(one) for one in features])
    small = torch.cat([thumbnails(images_of(files[at : at + 500])) for at in range(0, len(files), 500)])
    found = looked_up(probabilities, energies, pose_nets, small, labels)
    checked = whole(Shared(model), head, pose_nets, images_of(files[:CHECKED]), probabilities[:, :CHECKED])
    result = {"benchmark": "turned_images", "classifier": given.classifier, "group": given.group, "images": len(files)}
    result |= {"orientations": group.elements().tolist(), "rows": found, "whole_models": checked}
    result |= {"head": asdict(choice), "net": net_report}
    finish({**result, **provenance(torch.device("cpu"))}, given.out)


if __name__ == "__main__":
    main()
