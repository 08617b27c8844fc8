"""A model for other programs to run, on batches of any size: as a program of torch.export, or as ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from probsym.errors import DependencyError, TracingError
from probsym.ops.edge_list import EdgeList, Input
from probsym.samplers.noise import Noise
from probsym.symmetrized import Mask, Symmetrized

__all__ = ["Exportable", "onnx", "program"]


class Exportable(nn.Module):
    """A symmetrized model as a function of tensors alone: `module(*inputs, mask=mask, noise=model.noise(...).named())`.

    Args:
        model: in evaluation mode.
        samples: number of draws if the module draws its own noise; the model's own if None.
        coupling: coupling of these draws; the model's own if None.
    """

    def __init__(self, model: Symmetrized, samples: int | None = None, coupling: str | None = None) -> None:
        super().__init__()
        self.model, self.samples, self.coupling = model, samples, coupling

    def forward(
        self,
        *inputs: Tensor,
        mask: Mask | None = None,
        noise: Mapping[str, Tensor] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        if noise is None:
            return self.model(*inputs, mask=mask, samples=self.samples, coupling=self.coupling, extra=extra)
        return self.model(*inputs, mask=mask, noise=Noise.from_named(noise), extra=extra)


def program(
    model: Symmetrized,
    *inputs: Input,
    mask: Mask | None = None,
    noise: Noise | None = None,
    samples: int | None = None,
    coupling: str | None = None,
    extra: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> torch.export.ExportedProgram:
    """The model as a program for batches of any size, to be saved with `torch.export.save`.

    The program takes exactly the arguments that are given here: the inputs, the mask and `extra` if there are any, and
    the noise if it is given, as `noise.named()`. Without noise it makes `samples` draws with torch's global generator.

    Args:
        model: in evaluation mode.
        inputs: an example; the program is fixed to its sizes on all axes but the batch axis.
        mask: as in a call of the model.
        noise: an example, from `model.noise(...)`; None to draw inside the program.
        samples, coupling: as in a call of the model, if the program draws its own noise.
        extra: as in a call of the model; numbers and text in it are fixed to those of the example.
        strict: as in `torch.export.export`. A base that calls `len(x)` needs it, or fixes the size of the batch.

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samples=4).eval()
    >>> exported = program(model, torch.randn(2, 5, 3), noise=model.noise(torch.randn(2, 5, 3)))
    >>> x = torch.randn(7, 5, 3)
    >>> noise = model.noise(x)
    >>> bool((exported.module()(x, noise=noise.named()) == model(x, noise=noise)).all())
    True
    """
    if not isinstance(model, Symmetrized):
        raise TracingError(f"Expected a Symmetrized model to export (got {type(model).__name__})")
    if model.training:
        raise TracingError("Expected a model in evaluation mode to export, model.eval() (got one in training)")
    if any(isinstance(x, EdgeList) for x in inputs):
        raise TracingError("Expected tensors to export (got EdgeList, of another number of edges in every call)")
    given: dict[str, Any] = {"mask": mask, "noise": None if noise is None else noise.named(), "extra": extra}
    given = {name: value for name, value in given.items() if value is not None}
    count, batch = inputs[0].shape[0], torch.export.Dim("batch")

    def grows(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == count

    shapes = tree_map(lambda x: {0: batch} if grows(x) else None, {"inputs": inputs, **given})
    if count == 1:  # a size that torch would take for the only one
        inputs, given = tree_map(lambda x: x.repeat_interleave(2, 0) if grows(x) else x, (inputs, given))
    with torch.no_grad():
        return torch.export.export(
            Exportable(model, samples, coupling).eval(), inputs, given, dynamic_shapes=shapes, strict=strict
        )


def onnx(model: Symmetrized, *inputs: Tensor, **options: Any) -> torch.onnx.ONNXProgram:
    """The model as an ONNX program, to be saved with its `save` method; the arguments are as in `program`.

    ONNX has no eigenvalue decomposition, so frames of principal axes or of a Laplacian raise an error.
    """
    try:
        from onnxscript import opset18  # noqa: PLC0415, an extra
    except ImportError as error:
        raise DependencyError("Expected onnxscript for ONNX (got none): pip install 'probsym[onnx]'") from error
    exported = program(model, *inputs, **options)
    if any("linalg_eigh" in str(node.target) for part in exported.graph_module.modules() for node in _nodes(part)):
        raise TracingError(f"Expected a model without eigenvalues, which ONNX has not (got {model.sampler!r})")
    table = _translations(opset18)
    made = torch.onnx.export(exported, dynamo=True, verbose=False, custom_translation_table=table)
    assert made is not None
    return made


def _nodes(module: nn.Module) -> list[torch.fx.Node]:
    return list(module.graph.nodes) if isinstance(module, torch.fx.GraphModule) else []


def _translations(op: Any) -> dict[Callable[..., Any], Callable[..., Any]]:
    """What torch does not translate by itself."""

    def sort(x: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
        size = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))
        return op.TopK(x, size, axis=dim, largest=int(descending), sorted=1)  # equal ones by place, as a stable sort

    def distances(x: Any, y: Any, p: float, compute_mode: int | None) -> Any:
        apart = op.Sub(op.Unsqueeze(x, op.Constant(value_ints=[-2])), op.Unsqueeze(y, op.Constant(value_ints=[-3])))
        return op.Sqrt(op.ReduceSum(op.Mul(apart, apart), op.Constant(value_ints=[-1]), keepdims=0))

    aten = torch.ops.aten
    return {aten.sort.stable: sort, aten._cdist_forward.default: distances}
