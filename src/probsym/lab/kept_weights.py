"""The weights that a model had earlier: at its initialisation, and those that were kept over training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from probsym.errors import RunError
from probsym.lab.checkpoint import load_checkpoint, save_checkpoint

Weights = dict[str, Tensor]


def weights_path(folder: Path, epoch: int) -> Path:
    """Where a run keeps the weights that it had after so many epochs.

    >>> str(weights_path(Path("runs/exp-classify/mlp-ps/seed-0"), 20))
    'runs/exp-classify/mlp-ps/seed-0/weights/epoch-0020.pt'
    """
    return folder / "weights" / f"epoch-{epoch:04d}.pt"


def epochs_in(folder: Path) -> list[int]:
    """The epochs whose weights a run has kept."""
    matches = (re.fullmatch(r"epoch-(\d+)\.pt", path.name) for path in weights_path(folder, 0).parent.glob("*"))
    return sorted(int(match[1]) for match in matches if match)


def keep_weights(model: nn.Module, folder: Path, epoch: int) -> None:
    """Write the weights as they are now: the file is whole or not there, and takes the place of one of that epoch."""
    save_checkpoint(dict(model.state_dict()), weights_path(folder, epoch))


@dataclass(frozen=True)
class KeptWeights:
    """What a run can still tell of its earlier weights.

    Args:
        folder: of the run.
        initial: makes the weights that it began with.
    """

    folder: Path
    initial: Callable[[], Weights]

    @property
    def epochs(self) -> list[int]:
        """The epochs whose weights were kept, 0 for those before training."""
        return epochs_in(self.folder)

    def revisited(self, model: nn.Module, part: str = "") -> Iterator[int]:
        """The kept epochs one after the other, while the model, or a part of it by name, has the weights of each.

        After the last one it has those again that it had. Of the files, only what the part needs is read.
        """
        module, start = model.get_submodule(part), f"{part}." if part else ""
        now = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        try:
            for epoch in self.epochs:
                path = weights_path(self.folder, epoch)
                weights = load_checkpoint(path, mapped=True)
                own = {name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)}
                try:
                    module.load_state_dict(own)
                except RuntimeError as error:
                    raise RunError(f"Expected {path} to be weights of this model (got: {error})") from error
                yield epoch
        finally:
            module.load_state_dict(now)
