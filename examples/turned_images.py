"""A frozen classifier on turned images: an energy on its logits learns from upright ones which way is up.

Run: python examples/turned_images.py MODEL FOLDER, a classifier of `transformers` and a folder per class number."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from probsym import Symmetrized, groups, samplers


class Once(nn.Module):
    """A classifier that remembers its last answer, so that base and energy cost one pass together."""

    def __init__(self, classifier: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.classifier, self.last = classifier, (torch.empty(0), torch.empty(0))

    def forward(self, images: Tensor) -> Tensor:
        if not torch.equal(images, self.last[0]):
            self.last = images, torch.cat([self.classifier(part).detach() for part in images.split(50)])
        return self.last[1]


def main(classifier: Callable[[Tensor], Tensor], folder: Path, side: int = 224) -> None:
    """Learn from every second image; print the accuracy on the others in each orientation, bare and symmetrized."""
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
    for turn in range(4):
        x, y = images[1::2].rot90(turn, (-2, -1)), labels[1::2]
        print(f"{90 * turn} degrees:", *(f"{(f(x).argmax(-1) == y).float().mean():.1%}" for f in (once, model)))


if __name__ == "__main__":
    from transformers import AutoModelForImageClassification

    vit = AutoModelForImageClassification.from_pretrained(sys.argv[1], use_safetensors=True).eval()
    main(lambda images: vit(2 * images - 1).logits, Path(sys.argv[2]))
