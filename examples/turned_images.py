"""
A frozen classifier on turned images
====================================

An energy on the classifier's own logits learns from upright images which way is up, and the average is weighted by it.
The accuracy is then the same in every orientation, with as many passes as the exact average over all rotations.

Run: python examples/turned_images.py MODEL FOLDER, with a classifier from `transformers` and a folder that has a folder
of images for each class number. Without them, small images are made up, with a classifier that needs them upright.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from probsym import Symmetrized, groups, samplers

# %%
# All you need for a classifier and a folder of images, in 40 lines.


class Once(nn.Module):
    """A classifier that remembers its last answer, so that base and energy cost one pass together."""

    def __init__(self, classifier: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.classifier, self.last = classifier, (torch.empty(0), torch.empty(0))

    def forward(self, images: Tensor) -> Tensor:
        if not torch.equal(images, self.last[0]):
            self.last = images, torch.cat([self.classifier(part).detach() for part in images.split(50)])
        return self.last[1]


def main(classifier: Callable[[Tensor], Tensor], folder: Path, side: int = 224) -> list[tuple[float, float]]:
    """Learn from every second image; the accuracy on the others in each orientation, bare and symmetrized."""
    files, once = sorted(folder.glob("*/*")), Once(classifier)
    pixels = np.stack([np.asarray(Image.open(file).convert("RGB").resize((side, side))) for file in files])
    images, labels = torch.tensor(pixels).movedim(-1, 1) / 255, torch.tensor([int(file.parent.name) for file in files])
    logits = torch.stack([once(images[::2].rot90(turn, (-2, -1))) for turn in range(4)])
    head = nn.Linear(logits.shape[-1], 1)
    optimiser = torch.optim.AdamW(head.parameters(), lr=3e-3, weight_decay=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        (-torch.log_softmax(-head(logits), 0)[0].mean()).backward()  # -log p(upright)
        optimiser.step()
    energy = samplers.Energy(nn.Sequential(once, head), tau=1.0)
    model = Symmetrized(nn.Sequential(once, nn.Softmax(-1)), "c (h w) -> k", {"h w": groups.C(4)}, energy).eval()
    shares = []
    for turn in range(4):
        x, y = images[1::2].rot90(turn, (-2, -1)), labels[1::2]
        bare, symmetrized = (float((f(x).argmax(-1) == y).float().mean()) for f in (once, model))
        print(f"{90 * turn} degrees: {bare:.1%} {symmetrized:.1%}")
        shares.append((bare, symmetrized))
    return shares


# %%
# Without them: made-up images, whose class is shown in one corner and whose light comes from above.


def stand_in(images: Tensor) -> Tensor:
    """A classifier: looks at the lower left corner; how much of the light comes from above is among its logits."""
    colour = 20 * (images[:, 0, -3:, :3].mean((1, 2)) - 0.5)
    light = 20 * (images[:, 2, :4].mean((1, 2)) - images[:, 2, 4:].mean((1, 2))) - 100
    return torch.stack([-colour, colour, light], 1)


def make_images(folder: Path, count: int = 40) -> None:
    """As many images of each of two classes."""
    random = np.random.default_rng(0)
    for label in range(2):
        (folder / str(label)).mkdir()
        for number in range(count):
            pixels = random.integers(0, 256, (8, 8, 3))
            pixels[-3:, :3, 0] = 255 * label
            pixels[:4, :, 2] = pixels[:4, :, 2] // 2 + 128
            Image.fromarray(pixels.astype(np.uint8)).save(folder / str(label) / f"{number}.png")


def draw(shares: list[tuple[float, float]]) -> None:
    """Accuracy by orientation, bare and symmetrized."""
    figure, place = plt.subplots(figsize=(5, 3.2))
    for shift, name, colour, values in zip(
        (-0.2, 0.2), ("bare", "symmetrized"), ("#bbbbbb", "#1f5fa8"), zip(*shares, strict=True), strict=True
    ):
        place.bar(
            [at + shift for at in range(4)], [100 * share for share in values], width=0.4, color=colour, label=name
        )
    place.set_xticks(range(4), [f"{90 * turn}°" for turn in range(4)])
    place.set(ylabel="accuracy, %", ylim=(0, 105))
    place.legend(loc="lower right")
    figure.tight_layout()


if __name__ == "__main__":
    torch.manual_seed(0)
    if len(sys.argv) == 3:
        from transformers import AutoModelForImageClassification

        vit = AutoModelForImageClassification.from_pretrained(sys.argv[1], use_safetensors=True).eval()
        draw(main(lambda images: vit(2 * images - 1).logits, Path(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as made:
            make_images(Path(made))
            draw(main(stand_in, Path(made), side=8))
    plt.show()
