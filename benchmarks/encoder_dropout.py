"""What dropout inside a pretrained encoder does on graphs: on hidden tokens, on attention, on both or on nothing.

A recipe with an encoder is trained a few epochs each way from the same seed. The validation loss is measured without
dropout, as always, and once more at the end with the dropout of training left on in the encoder: where that is the
lower one, the encoder has learned something that holds under dropout alone.

Run: python benchmarks/encoder_dropout.py [--device cuda] [--precision bf16-mixed] [--epochs 8] [--rate 0.1]
[--learning-rate 1e-4] [--recipe pattern/minilm-pretrained-ps] [--out FILE]. The last line is JSON. On a GPU steps are
captured.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.recipe_runs import trainable
from benchmarks.record import finish
from probsym.bases import PatchTransformer
from probsym.bases.encoders import Encoder
from probsym.lab.provenance import provenance
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import Training, make_engine

SEED = 0
PLACES = {"none": (), "tokens": ("tokens",), "attention": ("attention",), "both": ("tokens", "attention")}


def with_dropout(recipe: Recipe, tokens: float = 0.0, attention: float = 0.0) -> Recipe:
    """The recipe with these rates in its encoder."""

    def build(settings: Settings) -> nn.Module:
        model = recipe.build(settings)
        patches = patch_transformer_in(model)
        old, rates = patches.encoder, {"dropout": tokens, "attention_dropout": attention}
        patches.encoder = Encoder(old.settings.resized(**rates), old.checkpointing)
        patches.encoder.load_state_dict(old.state_dict())
        return model

    return replace(recipe, build=build)


def patch_transformer_in(model: nn.Module) -> PatchTransformer:
    """The one that is symmetrized."""
    transformers = [module for module in model.modules() if isinstance(module, PatchTransformer)]
    if len(transformers) != 1:
        raise SystemExit(f"expected a recipe with one PatchTransformer (got {len(transformers)})")
    return transformers[0]


def keep_dropping(encoder: nn.Module, _: object) -> None:
    """Before every call: dropout on, whatever mode the model is in."""
    encoder.train()


def trained(recipe: Recipe, options: Options) -> dict[str, Any]:
    """The losses of every epoch, and at the end that of validation with dropout in the encoder."""
    fabric = make_fabric(options)
    engine = make_engine(recipe, recipe.settings, fabric, capture=fabric.device.type == "cuda")
    with TemporaryDirectory() as folder:
        training = Training(engine, recipe, SEED, Path(folder), every=math.inf)
        training.run()
    engine.capture = False  # what is captured has no dropout
    patch_transformer_in(engine.model).encoder.register_forward_pre_hook(keep_dropping)
    dropping = engine.evaluate(engine.data.valid, SEED, "validation", recipe.settings.epochs - 1)["loss"]
    curve = training.progress.curve
    losses = {name: [row[name] for row in curve] for name in ("train_loss", "valid_loss")}
    return {**losses, "valid_loss_dropping": dropping}


def main() -> None:
    """Train each way, print the losses, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--recipe", default="pattern/minilm-pretrained-ps")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    recipe, epochs = trainable(arguments.recipe), arguments.epochs
    changed = {"epochs": epochs, "warmup_epochs": epochs / 5, "learning_rate": arguments.learning_rate}
    settings = replace(recipe.settings, **changed, validate_every=1, test_samples=1, also_test_samples=())
    recipe = replace(recipe, settings=settings)
    options = Options(arguments.device, precision=arguments.precision)
    by_place = {}
    for place, where in PLACES.items():
        curves = by_place[place] = trained(with_dropout(recipe, **dict.fromkeys(where, arguments.rate)), options)
        loss = f"in training {curves['train_loss'][-1]:.4f}, in validation {curves['valid_loss'][-1]:.4f}"
        print(f"{place:9}: {loss}, with dropout there too {curves['valid_loss_dropping']:.4f}", flush=True)
    result = {"benchmark": "encoder_dropout", "recipe": recipe.name, "seed": SEED, "rate": arguments.rate, **changed}
    finish({**result, "dropout": by_place, **provenance(torch.device(arguments.device))}, arguments.out)


if __name__ == "__main__":
    main()
