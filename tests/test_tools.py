"""What users' tools do to a model, for every sampler; `docs/tools.md` has the same table as `ROWS`."""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils._pytree import tree_leaves, tree_map

from probsym import Symmetrized, export, groups
from probsym.errors import DerivativeError, TracingError
from tests import test_compiled_epochs, test_input_gradients, test_symmetrized
from tests.symmetrized_cases import IN_CI, SETTINGS, applies, make_inputs, make_model

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tools.md"
COLUMNS = ("input gradient", "second derivative", "compile", "export", "ONNX", "torch.func", "DDP", "bf16")
REFUSED, PIECES = "refused", "in pieces"


@dataclass(frozen=True)
class Row:
    """A sampler as a user writes it, its name and setting in the tests, and the cells that are not "yes"."""

    text: str
    sampler: str
    setting: str = "S"
    other: dict[str, str] = field(default_factory=dict)

    def cell(self, column: str) -> str:
        return self.other.get(column, "yes")


ROWS = (
    Row("`Haar()`", "Haar"),
    Row("`Enumerate()`", "Enumerate"),
    Row("`Frame()` of axes", "Frame", "E(3)", {"ONNX": REFUSED}),
    Row(
        "`Frame()` of orders",
        "Frame",
        "S",
        {"compile": PIECES, "export": REFUSED, "ONNX": REFUSED, "torch.func": "grad only"},
    ),
    Row("`Frame(exact=False)` of orders", "Frame draws", "S", {"ONNX": REFUSED}),
    Row("`Frame(weighted=True)`", "Frame weighted"),
    Row("`Canonical(net)`", "Canonical"),
    Row("`Learned(net)`", "Learned"),
    Row("`FromHaar(net)`", "FromHaar"),
    Row("`Energy(energy)`", "Energy", "S", {"compile": PIECES}),
    Row("`Energy(energy, tau)`", "Energy soft"),
    Row("`Quadrature(degree)`", "Quadrature", "E(3)"),
)
ELSEWHERE = {  # columns that other files test
    "input gradient": [test_input_gradients.test_gradients_are_central_differences],
    "second derivative": [test_input_gradients.test_second_derivatives_are_central_differences],
    "compile": [test_compiled_epochs.test_epochs],
    "bf16": [test_symmetrized.test_dtypes],
}


def cases(column: str, *cells: str, at_once: tuple[str, ...] = ()) -> list[Any]:
    """The rows with such cells in a column, as parameters; those of samplers not named `at_once` in CI alone."""
    rows = [row for row in ROWS if row.cell(column) in cells]
    return [
        pytest.param(row, id=row.text, marks=[] if not at_once or row.sampler in at_once else [IN_CI]) for row in rows
    ]


def made(row: Row, dtype: torch.dtype = torch.float32, seed: int = 1, batch: int = 3) -> tuple[Symmetrized, Any, Any]:
    """A model with its inputs and mask."""
    case = SETTINGS[row.setting]
    inputs, mask = make_inputs(case, dtype, "mixed", torch.Generator().manual_seed(seed), batch=batch)
    return make_model(case, case.outputs[-1], row.sampler, dtype), tuple(inputs), mask


def test_the_page_has_this_table() -> None:
    lines = [f"| sampler | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {row.text} | {' | '.join(row.cell(column) for column in COLUMNS)} |" for row in ROWS]
    assert "\n".join(lines) in PAGE.read_text()


@pytest.mark.parametrize("column", ELSEWHERE)
def test_columns_of_other_files_have_every_row(column: str) -> None:
    covered = set()
    for test in ELSEWHERE[column]:
        names = {mark.args[0]: mark.args[1] for mark in test.pytestmark if mark.name == "parametrize"}
        covered |= set(names.get(("setting", "sampler"), ()))
        covered |= {(setting, sampler) for setting in names.get("setting", ()) for sampler in names.get("sampler", ())}
    assert {(row.setting, row.sampler) for row in ROWS} <= covered


def test_what_compiles_in_pieces() -> None:
    pieces = {(row.setting, row.sampler) for row in ROWS if row.cell("compile") == PIECES}
    assert pieces == {(row.setting, row.sampler) for row in ROWS} & set(test_compiled_epochs.PIECES)


# -------------------------------------------------------------------------------------------------------- export


def given(row: Row, model: Symmetrized, batch: int, seed: int = 2) -> tuple[Any, dict[str, Any], Any]:
    """What a program takes, and what it is to return."""
    _, inputs, mask = made(row, batch=batch, seed=seed)
    noise = model.noise(*inputs, mask=mask)
    with torch.no_grad():
        return inputs, {"mask": mask, "noise": noise.named()}, model(*inputs, mask=mask, noise=noise)


DEAR = (Row("", "Learned", "E(3)"), Row("", "Learned", "S x SE(3)"), Row("", "Enumerate", "C(4)"))
EXPORTED = [*cases("export", "yes"), *(pytest.param(row, marks=IN_CI, id=f"{row.setting}-Learned") for row in DEAR)]


@pytest.mark.parametrize("row", EXPORTED)
def test_programs_are_saved_and_take_any_batch(row: Row) -> None:
    model, inputs, mask = made(row)
    program = export.program(model, *inputs, mask=mask, noise=model.noise(*inputs, mask=mask))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for batch in (5, 1):
        positional, named, wanted = given(row, model, batch)
        torch.testing.assert_close(loaded(*positional, **named), wanted)


def test_listed_orders_are_not_exported() -> None:
    (row,) = (row for row in ROWS if row.cell("export") == REFUSED)
    model, inputs, mask = made(row)
    with pytest.raises(TracingError, match="exact=False"):
        export.program(model, *inputs, mask=mask)
    drawing = export.program(model, *inputs, mask=mask, samples=2).module()
    assert drawing(*inputs, mask=mask).isfinite().all()


# ---------------------------------------------------------------------------------------------------------- ONNX


@pytest.mark.filterwarnings("ignore")  # of torch.onnx itself
@pytest.mark.parametrize(
    "row",
    [
        *cases("ONNX", "yes", at_once=("Learned",)),
        *(pytest.param(row, marks=IN_CI, id=f"{row.setting}-{row.sampler}") for row in DEAR[:1]),
    ],
)
def test_onnx_gives_the_same_numbers(row: Row) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, inputs, mask = made(row)
    program = export.onnx(model, *inputs, mask=mask, noise=model.noise(*inputs, mask=mask))
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in program.model.graph.inputs]
    for batch in (5, 1):
        positional, named, wanted = given(row, model, batch)
        values = [tensor.numpy() for tensor in tree_leaves((positional, named))]
        (y,) = session.run(None, dict(zip(names, values, strict=True)))
        torch.testing.assert_close(torch.from_numpy(y), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.text) for row in ROWS if row.cell("ONNX") == REFUSED])
def test_frames_are_not_for_onnx(row: Row) -> None:
    pytest.importorskip("onnxscript")
    model, inputs, mask = made(row)
    with pytest.raises(TracingError, match="eigenvalues" if row.cell("export") == "yes" else "exact=False"):
        export.onnx(model, *inputs, mask=mask)


# ---------------------------------------------------------------------------------------------------- torch.func

MAPPED = [
    pytest.param(Row("", row.sampler, setting), id=f"{row.sampler}-{setting}")
    for row in ROWS
    for setting in dict.fromkeys((row.setting, *(("E(3)", "S x SE(3)", "C(4)") if row.sampler != "Frame" else ())))
    if row.cell("torch.func") == "yes" and applies(setting, row.sampler)
]
TRANSFORMED = [*MAPPED, *cases("torch.func", "grad only")]


def fixed(row: Row) -> tuple[Symmetrized, Any, Any, Any]:
    """A model in float64 with inputs, mask and noise."""
    model, inputs, mask = made(row, torch.float64)
    return model, inputs, mask, model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(0))


def one_item(model: Symmetrized, parameters: Any, inputs: Any, mask: Any, noise: Any) -> Tensor:
    """The output for one item of a batch, with these parameters."""
    alone = tree_map(lambda x: x.unsqueeze(0), (inputs, mask, noise))
    return functional_call(model, parameters, alone[0], {"mask": alone[1], "noise": alone[2]}).squeeze(0)


def trained(model: Symmetrized) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("row", TRANSFORMED)
def test_grad_and_jacrev(row: Row) -> None:
    model, inputs, mask, noise = fixed(row)

    def output(*some: Tensor) -> Tensor:
        return model(*some, mask=mask, noise=noise)

    live = [x.clone().requires_grad_() for x in inputs]
    wanted = torch.autograd.grad(output(*live).square().sum(), live, materialize_grads=True)
    gradients = grad(lambda *some: output(*some).square().sum(), argnums=tuple(range(len(inputs))))(*inputs)
    torch.testing.assert_close(gradients, wanted)
    torch.testing.assert_close(jacrev(output)(*inputs), torch.autograd.functional.jacobian(output, inputs)[0])


@pytest.mark.parametrize("row", TRANSFORMED)
def test_functional_call(row: Row) -> None:
    model, inputs, mask, noise = fixed(row)
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}

    def loss(some: dict[str, Tensor]) -> Tensor:
        return functional_call(model, some, inputs, {"mask": mask, "noise": noise}).square().sum()

    wanted = torch.autograd.grad(loss(parameters), list(parameters.values()), materialize_grads=True)
    torch.testing.assert_close(tuple(grad(loss)(trained(model)).values()), wanted)


@pytest.mark.parametrize("row", TRANSFORMED)
def test_forces_in_a_loss(row: Row) -> None:
    """A gradient in the parameters of one in the inputs, which the sorts relax for the outer one alone."""
    model, inputs, mask, noise = fixed(row)
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}

    def energy(some: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, some, (x, *inputs[1:]), {"mask": mask, "noise": noise}).square().sum()

    def loss(some: dict[str, Tensor]) -> Tensor:
        return grad(energy, argnums=1)(some, inputs[0]).square().sum()

    live = inputs[0].clone().requires_grad_()
    (force,) = torch.autograd.grad(energy(parameters, live), live, create_graph=True)
    wanted = torch.autograd.grad(force.square().sum(), list(parameters.values()), materialize_grads=True)
    torch.testing.assert_close(tuple(grad(loss)(trained(model)).values()), wanted)


@pytest.mark.parametrize("row", MAPPED)
def test_vmap(row: Row) -> None:
    """One item at a time, and gradients of the items: both ways round, as `needs_gradient` must see through."""
    model, inputs, mask, noise = fixed(row)
    parameters = trained(model)
    both = (None, 0, None if mask is None else 0, 0)

    def output(some: Any, *item: Any) -> Tensor:
        return one_item(model, some, *item)

    def loss(some: Any, *item: Any) -> Tensor:
        return output(some, *item).square().sum()

    mapped = vmap(output, both)(parameters, inputs, mask, noise)
    torch.testing.assert_close(mapped, model(*inputs, mask=mask, noise=noise))
    wanted = grad(lambda some: functional_call(model, some, inputs, {"mask": mask, "noise": noise}).square().sum())(
        parameters
    )
    each = vmap(grad(loss), both)(parameters, inputs, mask, noise)
    torch.testing.assert_close({name: gradient.sum(0) for name, gradient in each.items()}, wanted)
    outside = grad(lambda some: vmap(loss, both)(some, inputs, mask, noise).sum())(parameters)
    torch.testing.assert_close(outside, wanted)
    to_inputs = grad(lambda x: vmap(loss, both)(parameters, x, mask, noise).sum())(inputs)
    torch.testing.assert_close(to_inputs, grad(lambda x: model(*x, mask=mask, noise=noise).square().sum())(inputs))


def test_listed_orders_are_not_mapped() -> None:
    (row,) = (row for row in ROWS if row.cell("torch.func") == "grad only")
    model, inputs, mask, noise = fixed(row)
    with pytest.raises(TracingError, match="exact=False"):
        vmap(lambda *item: one_item(model, {}, *item))(inputs, mask, noise)


def test_draws_inside_a_vmap_differ_if_they_are_to() -> None:
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samples=3)
    x = torch.randn(5, 2).expand(20, 1, 5, 2)
    output = vmap(model, randomness="different")(x)
    assert len(output.unique(dim=0)) > 5
    assert len(vmap(model, randomness="same")(x).unique(dim=0)) == 1


def test_second_derivatives_in_scores_are_refused_by_name() -> None:
    model, inputs, mask, noise = fixed(Row("", "Learned"))
    parameters = trained(model)

    def slope(some: Any) -> Tensor:
        def loss(these: Any) -> Tensor:
            return functional_call(model, these, inputs, {"mask": mask, "noise": noise}).square().sum()

        return sum((gradient.square().sum() for gradient in grad(loss)(some).values()), start=torch.zeros(()))

    with pytest.raises(DerivativeError, match="scores of a sort"):
        grad(slope)(parameters)


# ----------------------------------------------------------------------------------------------------------- DDP


def _parallel_worker(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = []
    for row in ROWS:
        model, inputs, mask = made(row, seed=rank)
        estimator = nn.parallel.DistributedDataParallel(model.estimator(), find_unused_parameters=True)
        estimate = estimator.train()(*inputs, mask=mask, generator=torch.Generator().manual_seed(rank))
        (estimate.mean.square().mean() + estimate.losses["entropy"]).backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        results.append({name: gradients[name].clone() for name in sorted(gradients)})
    torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.barrier()
    os._exit(0)  # torch can wait for itself forever while it takes apart a group that has just been used


@pytest.mark.slow
def test_parallel_training_agrees_on_its_gradient(tmp_path: Path) -> None:
    """Processes see different batches and draws, and end with the same gradient, the losses' part in it."""
    torch.multiprocessing.spawn(_parallel_worker, (str(tmp_path),), nprocs=2)
    both = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for row, first, second in zip(ROWS, *both, strict=True):
        torch.testing.assert_close(first, second)
        assert any(float(gradient.abs().sum()) > 0 for name, gradient in first.items() if name.startswith("base")), (
            row.text
        )
        learns = row.sampler in ("Canonical", "Learned", "FromHaar", "Energy soft")
        assert (
            any(name.startswith("sampler") and float(gradient.abs().sum()) > 0 for name, gradient in first.items())
            == learns
        )
