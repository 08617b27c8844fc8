"""A model for other programs to run, on batches of any size: as a program of torch.export, or as ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from probsym.errors import DependencyError, TracingError
from probsym.samplers.noise import Noise
from probsym.symmetrized import Mask, Symmetrized


class Exportable(nn.Module):
    """A symmetrized model as a function of tensors alone: `module(*inputs, mask=mask, noise=model.noise(...).named())`.

    Args:
        model: in evaluation mode.
        samples: draws where the noise is drawn inside; the model's own number if None.
        coupling: of the draws, where the noise is drawn inside; the model's own if None.
    """

    def __init__(self, model: Symmetrized, samples: int | None = None, coupling: str | None = None) -> None:
        super().__init__()
        self.model, self.samples, self.coupling = model, samples, coupling

    def forward(self, *inputs: Tensor, mask: Mask | None = None, noise: Mapping[str, Tensor] | None = None) -> Any:
        if noise is None:
            return self.model(*inputs, mask=mask, samples=self.samples, coupling=self.coupling)
        return self.model(*inputs, mask=mask, noise=Noise.from_named(noise))


def program(
    model: Symmetrized,
    *inputs: Tensor,
    mask: Mask | None = None,
    noise: Noise | None = None,
    samples: int | None = None,
    coupling: str | None = None,
    strict: bool = False,
) -> torch.export.ExportedProgram:
    """The model as a program for batches of any size, to be saved by `torch.export.save`.

    It takes what is given here, and nothing else: inputs, the mask if one is given, and the noise if it is given, as
    `noise.named()`. Without noise it draws its own, of torch's global generator, `samples` times.

    Args:
        model: in evaluation mode.
        inputs: an example; the sizes of all axes but the batch are those of the program.
        mask: as in a call of the model.
        noise: an example, from `model.noise(...)`; None to draw inside the program.
        samples: as in a call of the model, where the noise is drawn inside.
        coupling: likewise.
        strict: as in `torch.export.export`. A base that calls `len(x)` needs it, or fixes the size of the batch.

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samples=4).eval()
    >>> found = program(model, torch.randn(2, 5, 3), noise=model.noise(torch.randn(2, 5, 3)))
    >>> x = torch.randn(7, 5, 3)
    >>> noise = model.noise(x)
    >>> bool((found.module()(x, noise=noise.named()) == model(x, noise=noise)).all())
    True
    """
    if model.training:
        raise TracingError("Expected a model in evaluation mode to export, model.eval() (got one in training)")
    given: dict[str, Any] = {"mask": mask, "noise": None if noise is None else noise.named()}
    given = {name: one for name, one in given.items() if one is not None}
    if inputs[0].shape[0] == 1:  # a size that torch would take for the only one
        inputs, given = tree_map(lambda x: x.repeat_interleave(2, 0), (inputs, given))
    batch = torch.export.Dim("batch")
    shapes = tree_map(lambda x: {0: batch}, {"inputs": inputs, **given})
    with torch.no_grad():
        return torch.export.export(
            Exportable(model, samples, coupling).eval(), inputs, given, dynamic_shapes=shapes, strict=strict
        )


def onnx(model: Symmetrized, *inputs: Tensor, **options: Any) -> Any:
    """The model as a `torch.onnx.ONNXProgram`, to be saved by its `save`; arguments are those of `program`."""
    try:
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        raise DependencyError("Expected onnxscript for ONNX (got none); pip install 'probsym[onnx]'") from error
    return torch.onnx.export(program(model, *inputs, **options), dynamo=True, verbose=False)
