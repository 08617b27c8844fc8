"""Images from folders, turned and mirrored, through a classifier once each; what it says is kept in files."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.image_classifiers import MEAN, Classifier
from probsym import groups

SIDE, BATCH, BLOCK = 224, 50, 250
"""Pixels a side; images in one call of the classifier, and in one file of what is kept."""
EIGHT = groups.C(8)
ENDINGS = (".jpeg", ".jpg", ".png")


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and below: the first of every folder, by name, then the second of every folder, ..."""
    images = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not images:
        raise SystemExit(f"Expected images ({', '.join(ENDINGS)}) in {folder} (got none)")
    seen: Counter[Path] = Counter()
    places = []
    for path in images:
        places.append(seen[path.parent])
        seen[path.parent] += 1
    return [path for _, path in sorted(zip(places, images, strict=True))]


def labels_of(files: Sequence[Path]) -> Tensor:
    """The class of each image: the place of its folder among all of them, by name."""
    names = sorted({path.parent.name for path in files})
    return torch.tensor([names.index(path.parent.name) for path in files])


def decoded(file: Path, view: int = 0) -> np.ndarray:
    """One image as uint8 (3, 224, 224): the shorter side made 256, then the middle; another view is a random crop.

    A random crop covers 30 % of the image or more and depends on the view's number and the file's name alone.
    """
    from PIL import Image  # noqa: PLC0415

    with Image.open(file) as opened:
        image = opened.convert("RGB")
    width, height = image.size
    side = min(width, height) * SIDE / 256
    left, top = (width - side) / 2, (height - side) / 2
    if view:
        random = np.random.default_rng([view, *file.name.encode()])
        side = min(width, height, (width * height * random.uniform(0.3, 1.0)) ** 0.5)
        left, top = random.uniform(0, width - side), random.uniform(0, height - side)
    small = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    return np.asarray(small).transpose(2, 0, 1)


def images_of(files: Sequence[Path], view: int = 0) -> Tensor:
    """Images (count, 3, 224, 224) in [0, 1]."""
    return torch.from_numpy(np.stack([decoded(file, view) for file in files])).float() / 255


def turned(images: Tensor, element: int, start: int = 0) -> Tensor:
    """Images moved by an element of D(4), which has the quarter turns first."""
    return groups.D(4).act(torch.full((len(images),), element), images, (-2, -1), "grid")


def turned_by_any_angle(images: Tensor, element: int, start: int) -> Tensor:
    """Images turned by angles drawn for their numbers from `start` on, then by the inverse of an element of C(8).

    Where the element is 8 they stay upright, but lose what is outside the disc as the others do. It gets the mean
    colour.
    """
    angles = torch.rand(start + len(images), generator=torch.Generator().manual_seed(0))[start:] * (2 * torch.pi)
    cosine, sine = (angles.cos(), angles.sin()) if element < EIGHT.order else (angles * 0 + 1, angles * 0)
    turns = torch.stack([cosine, -sine, sine, cosine], -1).view(-1, 2, 2)
    mean = torch.tensor(MEAN).view(3, 1, 1)
    parts = []
    for turn, part in zip(turns.split(10), images.split(10), strict=True):  # a few at a time, which is much faster
        moved = groups.SO(2).act(turn, part - mean, (-2, -1), "grid")
        if 0 < element < EIGHT.order:
            moved = EIGHT.act(EIGHT.inverse(torch.full((len(part),), element)), moved, (-2, -1), "grid")
        parts.append(moved + mean)
    return torch.cat(parts)


def passed(
    model: Classifier | None,
    files: Sequence[Path],
    elements: Sequence[int],
    kept: Path,
    move: Callable[[Tensor, int, int], Tensor] = turned,
) -> tuple[Tensor, Tensor]:
    """Logits (elements, count, classes) and features (elements, count, width) of the images, moved by each element.

    What an earlier call has kept in the folder is read; the rest is computed, which needs a model, and kept.
    """
    kept.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(files), BLOCK)
    logits, features = [], []
    for start in starts:
        images = None
        for element in elements:
            path = kept / f"element-{element}-from-{start}-to-{min(start + BLOCK, len(files))}.npz"
            if not path.exists():
                assert model is not None
                images = images_of(files[start : start + BLOCK]) if images is None else images
                _write(path, *_through(model, move(images, element, start)))
            with np.load(path) as file:
                logits.append(torch.from_numpy(file["logits"]))
                features.append(torch.from_numpy(file["features"]).float())
    return _by_element(logits, len(starts)), _by_element(features, len(starts))


def _by_element(blocks: list[Tensor], starts: int) -> Tensor:
    each = len(blocks) // starts
    return torch.stack([torch.cat(blocks[element::each]) for element in range(each)])


def _through(model: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    with torch.inference_mode():
        outputs = [model(part) for part in images.split(BATCH)]
    return torch.cat([logits for logits, _ in outputs]), torch.cat([features for _, features in outputs])


def _write(path: Path, logits: Tensor, features: Tensor) -> None:
    whole = path.with_suffix(".part.npz")
    np.savez(whole, logits=logits.numpy(), features=features.half().numpy())
    whole.replace(path)
