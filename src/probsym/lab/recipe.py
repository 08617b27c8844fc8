"""A recipe: one row of a table, as one small declarative object."""

from __future__ import annotations

import math
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from probsym.bases.patches import PADDINGS
from probsym.errors import RangeError, RecipeError
from probsym.lab.examples import Examples, Splits
from probsym.lab.known_names import near_names
from probsym.signature import Signature

RATES = ("base_dropout", "averaging", "eval_patch_dropout")
"""Settings that are shares, and less than all."""


@dataclass(frozen=True)
class Settings:
    """The numbers of a training, each of which `--set` can change."""

    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decoupled: bool = False
    """Whether the weights decay beside the gradient (AdamW), rather than through it (Adam)."""
    warmup_epochs: float = 0.0
    """Over which the learning rate rises linearly to its full size."""
    decay: bool = False
    """Whether it falls linearly to zero after that."""
    clip: float | None = None
    """The largest norm of the gradient."""
    samples: int = 1
    eval_samples: int = 1
    test_samples: int | None = None
    """Draws in testing; as in validation if None."""
    entropy: float = 0.1
    """Weight of the entropy of the relaxed permutations in the loss."""
    noise: float = 1.0
    tau: float = 0.01
    dropout: float = 0.0
    """Inside the net of the sampler."""
    base_dropout: float = 0.0
    """Inside the base, where the recipe's has any."""
    input_noise: float = 0.0
    """Deviation of noise on the inputs in training, for tasks whose inputs can have any."""
    huber: float = 0.0
    """Errors larger than this count linearly in the training loss, for tasks that square them; 0 to square all."""
    averaging: float = 0.0
    """Decay of an exponential moving average of the weights, for each step; 0 for none.

    The average is validated, selected and tested beside the weights themselves.
    """
    test_repeats: int = 1
    """Evaluations of the test set, each with draws of its own, whose mean counts; 0 to choose settings by validation
    without a look at the test set."""
    also_test_samples: tuple[int, ...] = ()
    """Other numbers of draws to test with too, reported with the number behind an @."""
    validate_every: int = 1
    """Epochs from one validation to the next; the last epoch is always validated."""
    float32_evaluation: bool = True
    """Whether a run in low precision, TF32 included, is validated and tested in float32."""
    eval_patch_dropout: float = 0.0
    """Share of patches that a patch transformer leaves out in validation and testing too."""
    token_std: float | None = None
    """Deviation of the first maps of a patch transformer at the start; as convolutions start if None."""
    padding: str = "zeros"
    """What fills the patches of a patch transformer: "zeros", "reflect" or "circular"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "also_test_samples", tuple(self.also_test_samples))  # files have lists
        whole = {"epochs": 0, "batch_size": 1, "samples": 1, "eval_samples": 1, "test_repeats": 0, "validate_every": 1}
        if self.test_samples is not None:
            whole["test_samples"] = 1
        for name, least in whole.items():
            if getattr(self, name) < least:
                raise RangeError(f"Expected {name} to be {least} or more (got {getattr(self, name)})")
        if any(samples < 1 for samples in self.also_test_samples):
            raise RangeError(f"Expected also_test_samples to be 1 or more each (got {self.also_test_samples})")
        for name in [setting.name for setting in fields(self) if str(setting.type).startswith("float")]:
            value = getattr(self, name)
            if name in RATES and not 0 <= value < 1:
                raise RangeError(f"Expected {name} to be in [0, 1) (got {value})")
            if value is not None and not 0 <= value < math.inf:
                raise RangeError(f"Expected {name} to be a finite number, 0 or more (got {value})")
        if self.padding not in PADDINGS:
            raise RangeError(f"Expected padding to be one of {', '.join(PADDINGS)} (got {self.padding!r})")

    def rate(self, epoch: float, step: float) -> float:
        """The learning rate of a step of length `step` that begins at `epoch`, both in epochs."""
        if epoch < self.warmup_epochs:
            return self.learning_rate * min(1.0, (epoch + step) / self.warmup_epochs)
        if not self.decay:
            return self.learning_rate
        return self.learning_rate * (self.epochs - epoch) / (self.epochs - self.warmup_epochs)

    def changed(self, pairs: Sequence[str]) -> Settings:
        """The settings with some exchanged, each given as "key=value"."""
        return replace(self, **changes(pairs))

    def differences(self, other: Settings) -> dict[str, Any]:
        """The fields in which this one differs from another."""
        return {name: value for name, value in vars(self).items() if value != getattr(other, name)}


def changes(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings by name, each given as "key=value"."""
    kinds = typing.get_type_hints(Settings)
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in kinds:
            near = "" if name in kinds else near_names(name, kinds)
            raise RecipeError(f"Expected key=value with one of the keys {', '.join(kinds)} (got {pair!r}){near}")
        settings[name] = _value(text, kinds[name], name)
    return settings


class Task(ABC):
    """Data, a loss, and what is measured."""

    name: str
    selects: Mapping[str, bool]
    """By which validation metrics weights are chosen, and whether larger is better. The first one counts."""
    symmetry: Signature | None = None
    """What the task itself is symmetric under, whatever the model is."""
    source: str | None = None
    """Which of several sets was loaded, where there is a choice; runs record it."""
    differentiates: int | None = None
    """The number of an input in which the output, an energy for each example, is differentiated. Loss and metrics then
    see both, (batch, 1 + numbers of that input): the energy, and the forces, which are minus the gradient."""

    @abstractmethod
    def load(self) -> Splits:
        """The data, on the CPU."""

    @abstractmethod
    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        """What is minimised, a mean over the batch."""

    @abstractmethod
    def losses(self, output: Tensor, targets: Tensor) -> Tensor:
        """The same for every example, (batch,)."""

    def disturbed(self, batch: Examples, deviation: float, generator: torch.Generator) -> Examples:
        """The batch with noise on its inputs; refused unless the task says on which."""
        raise RecipeError(f"Expected input_noise to be 0 for {self.name}, whose inputs can have none (got {deviation})")

    def huber_loss(self, output: Tensor, targets: Tensor, bound: float) -> Tensor:
        """The loss with errors larger than the bound counted linearly; refused unless the task squares errors."""
        raise RecipeError(f"Expected huber to be 0 for {self.name}, whose loss squares no errors (got {bound})")

    def test_parts(self) -> dict[str, Tensor]:
        """Parts of the test set that are worth a look of their own, by name, each as booleans over it."""
        return {}

    @abstractmethod
    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """What is reported of a whole set, "loss" among it."""


@dataclass(frozen=True)
class Recipe:
    """One row: a task, a model, and how it is trained.

    Args:
        name: `task/base-method`.
        task: makes the task.
        build: makes the model from the settings.
        settings: how it is trained.
    """

    name: str
    task: Callable[[], Task]
    build: Callable[[Settings], nn.Module]
    settings: Settings = field(default_factory=Settings)


_BOOLEANS, _NONE = {"true": True, "false": False}, {"none": None}
_READERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    types.NoneType: ("none", lambda text: _NONE[text.lower()]),
    bool: ("bool", lambda text: _BOOLEANS[text.lower()]),
    int: ("int", int),
    float: ("float", float),
    str: ("str", str),
    tuple[int, ...]: (
        "whole numbers between commas",
        lambda text: tuple(int(number) for number in text.split(",") if number),
    ),
}
"""What the types of settings are called, and how they are read, in the order in which they are tried."""


def _value(text: str, kind: Any, name: str) -> Any:
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    readers = [reader for readable, reader in _READERS.items() if readable in kinds]
    for _, read in readers:
        with suppress(ValueError, KeyError):
            return read(text)
    raise RecipeError(f"Expected {name} to be {' or '.join(called for called, _ in readers)} (got {text!r})")
