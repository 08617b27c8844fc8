"""Images from folders, turned and mirrored, through a classifier once each; what it says is kept in files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.image_classifiers import Classifier
from probsym import groups

SIDE, BATCH, BLOCK = 224, 50, 500
"""Pixels a side; images in one call of the classifier, and in one file of what is kept."""
ENDINGS = (".jpeg", ".jpg", ".png")


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and below: the first of every folder, by name, then the second of every folder, ..."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not found:
        raise SystemExit(f"Expected images ({', '.join(ENDINGS)}) in {folder} (got none)")
    seen: Counter[Path] = Counter()
    places = []
    for path in found:
        places.append(seen[path.parent])
        seen[path.parent] += 1
    return [path for _, path in sorted(zip(places, found, strict=True))]


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


def turned(images: Tensor, element: int) -> Tensor:
    """Images moved by an element of D(4), which has the quarter turns first."""
    return groups.D(4).act(torch.full((len(images),), element), images, (-2, -1), "grid")


def passed(
    model: Classifier, files: Sequence[Path], elements: Sequence[int], kept: Path, view: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits (elements, count, classes) and features (elements, count, width) of the images, moved by each element.

    What an earlier call has kept in the folder is read; the rest is computed, and kept.
    """
    kept.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    for start in range(0, len(files), BLOCK):
        images = None
        for element in elements:
            path = kept / f"view-{view}-element-{element}-from-{start}.npz"
            if not path.exists():
                images = images_of(files[start : start + BLOCK], view) if images is None else images
                _write(path, *_through(model, turned(images, element)))
            with np.load(path) as file:
                found[element, start] = torch.from_numpy(file["logits"]), torch.from_numpy(file["features"]).float()
    starts = range(0, len(files), BLOCK)
    logits, features = (
        torch.stack([torch.cat([found[element, start][which] for start in starts]) for element in elements])
        for which in (0, 1)
    )
    return logits, features


def _through(model: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    with torch.inference_mode():
        outputs = [model(part) for part in images.split(BATCH)]
    return torch.cat([logits for logits, _ in outputs]), torch.cat([features for _, features in outputs])


def _write(path: Path, logits: Tensor, features: Tensor) -> None:
    whole = path.with_suffix(".part.npz")
    np.savez(whole, logits=logits.numpy(), features=features.half().numpy())
    whole.replace(path)
