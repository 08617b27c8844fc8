import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from probsym import Signature
from probsym._internal.checks import check_read
from probsym.errors import DeviceError, DtypeError, MaskError, NonFiniteError, ProbsymError, ShapeError
from probsym.groups import C, D, E, Group, O, S

META = torch.device("meta")
INF, NAN = float("inf"), float("nan")

GRAPH = Signature.parse("n c, n n -> k", {"n": S()})
PARTICLES = Signature.parse("n d:point, n d, n n e -> n d:point, n n e, d d, ", {"n": S(), "d": E(3)})
IMAGE = Signature.parse("(h w) c -> (h w)", {"h w": C(4)})


def zeros(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.zeros(shape) for shape in shapes]


def refuse(
    error: type[ProbsymError], message: str, signature: Signature, tensors: Any, mask: Any = None, finite: bool = False
) -> None:
    """The inputs must be refused with exactly this message, or one that begins with it if it ends in '...'."""
    with pytest.raises(error) as caught:
        signature.check_inputs(tensors, mask, finite=finite)
    assert type(caught.value) is error
    text = str(caught.value)
    assert text.startswith(message[:-3]) if message.endswith("...") else text == message


# --- tensors that fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "shapes", "sizes"),
    [
        (GRAPH, [(8, 64, 2), (8, 64, 64)], {"n": 64, "c": 2}),
        (GRAPH, [(1, 1, 1), (1, 1, 1)], {"n": 1, "c": 1}),
        (PARTICLES, [(4, 5, 3), (4, 5, 3), (4, 5, 5, 2)], {"n": 5, "d": 3, "e": 2}),
        (IMAGE, [(2, 6, 6, 1)], {"h": 6, "w": 6, "c": 1}),
        (Signature.parse("(h w) -> k", {"h w": C(2)}), [(2, 3, 4)], {"h": 3, "w": 4}),
        (Signature.parse("d d -> k", {"d": D(3)}), [(2, 2, 2)], {"d": 2}),
        (Signature.parse("a b, c -> k", {}), [(2, 3, 0), (2, 5)], {"a": 3, "b": 0, "c": 5}),
        (Signature.parse("n, m n -> k", {"n": S(), "m": S()}), [(2, 3), (2, 4, 3)], {"n": 3, "m": 4}),
    ],
)
def test_the_sizes_come_back(signature: Signature, shapes: Sequence[tuple[int, ...]], sizes: Mapping[str, int]) -> None:
    assert signature.check_inputs(zeros(*shapes)) == sizes
    assert signature.check_inputs(tuple(zeros(*shapes)), finite=True) == sizes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_fits(dtype: torch.dtype) -> None:
    sizes = PARTICLES.check_inputs([x.to(dtype) for x in zeros((4, 5, 3), (4, 5, 3), (4, 5, 5, 2))])
    assert sizes == {"n": 5, "d": 3, "e": 2}


def test_integers_fit_where_nothing_rotates() -> None:
    x, pairs = zeros((2, 5, 3), (2, 5, 5))
    assert GRAPH.check_inputs([x, pairs.long()]) == {"n": 5, "c": 3}
    assert GRAPH.check_inputs([x.long(), pairs.bool()]) == {"n": 5, "c": 3}
    assert IMAGE.check_inputs([torch.zeros(2, 4, 4, 3, dtype=torch.uint8)]) == {"h": 4, "w": 4, "c": 3}


def test_all_tensors_may_be_on_another_device() -> None:
    mask = torch.ones(2, 5, dtype=torch.bool, device=META)
    assert GRAPH.check_inputs([x.to(META) for x in zeros((2, 5, 3), (2, 5, 5))], mask) == {"n": 5, "c": 3}


# --- tensors that do not ----------------------------------------------------------------------------------------

TRIPLE = [(4, 5, 3), (4, 5, 3), (4, 5, 5, 2)]
ODD_SHAPES: list[tuple[str, Signature, list[tuple[int, ...]], str]] = [
    ("none", GRAPH, [], "Expected 2 inputs: 'n c', 'n n' (got 0)"),
    ("too few", GRAPH, [(2, 5, 3)], "Expected 2 inputs: 'n c', 'n n' (got 1)"),
    ("too many", GRAPH, [(2, 5, 3), (2, 5, 5), (2, 5, 5)], "Expected 2 inputs: 'n c', 'n n' (got 3)"),
    (
        "rank below",
        GRAPH,
        [(2, 5), (2, 5, 5)],
        "Expected input 0 ('n c') to have 3 axes, batch first (got shape (2, 5))",
    ),
    (
        "rank above",
        GRAPH,
        [(2, 5, 3), (2, 5, 5, 1)],
        "Expected input 1 ('n n') to have 3 axes, batch first (got shape (2, 5, 5, 1))",
    ),
    ("scalar", GRAPH, [(), (2, 5, 5)], "Expected input 0 ('n c') to have 3 axes, batch first (got shape ())"),
    (
        "grid rank",
        IMAGE,
        [(2, 4, 4)],
        "Expected input 0 ('(h w) c') to have 4 axes, batch first (got shape (2, 4, 4))",
    ),
    (
        "design.md",
        GRAPH,
        [(8, 64, 2), (8, 64, 63)],
        "Expected input 1 ('n n') to have equal sizes on axis 'n' (got 64 and 63)",
    ),
    (
        "repeat within the first input",
        Signature.parse("n n -> k", {"n": S()}),
        [(2, 64, 63)],
        "Expected input 0 ('n n') to have equal sizes on axis 'n' (got 64 and 63)",
    ),
    (
        "bound name with two sizes",
        GRAPH,
        [(2, 5, 3), (2, 4, 4)],
        "Expected input 1 ('n n') to have equal sizes on axis 'n' (got 5 and 4)",
    ),
    (
        "channel with two sizes",
        Signature.parse("n c, m c -> k", {"n": S(), "m": S()}),
        [(2, 5, 3), (2, 4, 2)],
        "Expected input 1 ('m c') to have equal sizes on axis 'c' (got 3 and 2)",
    ),
    (
        "grid side with two sizes",
        Signature.parse("(h w), c (h w) -> k", {"h w": C(4)}),
        [(2, 4, 4), (2, 1, 5, 5)],
        "Expected input 1 ('c (h w)') to have equal sizes on axis 'h' (got 4 and 5)",
    ),
    (
        "size fixed by E",
        PARTICLES,
        [(4, 5, 2), (4, 5, 2), (4, 5, 5, 2)],
        "Expected input 0 ('n d:point') to have size 3 on axis 'd' for E(3) (got 2)",
    ),
    (
        "size fixed by O, twice",
        Signature.parse("c d d -> k", {"d": O(2)}),
        [(2, 5, 3, 3)],
        "Expected input 0 ('c d d') to have size 2 on axis 'd' for O(2) (got 3)",
    ),
    (
        "size fixed by C",
        Signature.parse("n, d:axial -> k", {"d": C(4)}),
        [(2, 5), (2, 4)],
        "Expected input 1 ('d:axial') to have size 2 on axis 'd' for C(4) (got 4)",
    ),
    (
        "batch",
        GRAPH,
        [(2, 5, 3), (3, 5, 5)],
        "Expected input 1 ('n n') to have batch size 2 like input 0 (got 3)",
    ),
    (
        "batch of one is not shared",
        PARTICLES,
        [(4, 5, 3), (4, 5, 3), (1, 5, 5, 2)],
        "Expected input 2 ('n n e') to have batch size 4 like input 0 (got 1)",
    ),
    (
        "no items",
        GRAPH,
        [(2, 0, 3), (2, 0, 0)],
        "Expected input 0 ('n c') to have at least one entry on axis 'n' (got 0)",
    ),
    (
        "empty image",
        IMAGE,
        [(2, 0, 0, 3)],
        "Expected input 0 ('(h w) c') to have at least one entry on axis 'h w' (got 0)",
    ),
    (
        "image without columns",
        Signature.parse("c, (h w) -> k", {"h w": D(2)}),
        [(2, 1), (2, 3, 0)],
        "Expected input 1 ('(h w)') to have at least one entry on axis ...",
    ),
    ("C(4) on 3 x 5", IMAGE, [(2, 3, 5, 1)], "Expected input 0 ('(h w) c') ..."),
    ("D(4) on 3 x 5", Signature.parse("(h w) -> k", {"h w": D(4)}), [(2, 3, 5)], "Expected input 0 ('(h w)') ..."),
]


@pytest.mark.parametrize(
    ("signature", "shapes", "message"), [row[1:] for row in ODD_SHAPES], ids=[r[0] for r in ODD_SHAPES]
)
def test_odd_shapes_are_refused(signature: Signature, shapes: list[tuple[int, ...]], message: str) -> None:
    refuse(ShapeError, message, signature, zeros(*shapes))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("other", "name"), [([[[0.0]]], "list"), (None, "NoneType"), (1.0, "float")])
def test_what_is_no_tensor_is_refused(place: int, other: Any, name: str) -> None:
    tensors: list[Any] = zeros(*TRIPLE)
    tensors[place] = other
    term = PARTICLES.inputs[place]
    refuse(DtypeError, f"Expected input {place} ('{term}') to be a tensor (got {name})", PARTICLES, tensors)


@pytest.mark.parametrize("place", [1, 2])
def test_mixed_floating_dtypes_are_refused(place: int) -> None:
    tensors = zeros(*TRIPLE)
    tensors[place] = tensors[place].double()
    term = PARTICLES.inputs[place]
    message = f"Expected input {place} ('{term}') to be torch.float32 like input 0 (got torch.float64)"
    refuse(DtypeError, message, PARTICLES, tensors)


def test_mixed_floating_dtypes_are_refused_after_an_integer_input() -> None:
    signature = Signature.parse("n, n c, n c -> k", {"n": S()})
    x = torch.zeros(2, 5, 3)
    refuse(
        DtypeError,
        "Expected input 2 ('n c') to be torch.float32 like ...",
        signature,
        [x[..., 0].long(), x, x.double()],
    )


@pytest.mark.parametrize("dtype", [torch.long, torch.bool])
@pytest.mark.parametrize("place", [0, 1])
def test_only_floating_tensors_rotate(place: int, dtype: torch.dtype) -> None:
    tensors = zeros(*TRIPLE)
    tensors[place] = tensors[place].to(dtype)
    term = PARTICLES.inputs[place]
    message = f"Expected input {place} ('{term}') to be floating, since E(3) rotates 'd' (got {dtype})"
    refuse(DtypeError, message, PARTICLES, tensors)


@pytest.mark.parametrize("place", [1, 2])
def test_tensors_on_two_devices_are_refused(place: int) -> None:
    tensors = zeros(*TRIPLE)
    tensors[place] = tensors[place].to(META)
    term = PARTICLES.inputs[place]
    refuse(DeviceError, f"Expected input {place} ('{term}') to be on cpu like input 0 (got meta)", PARTICLES, tensors)


# --- outputs ----------------------------------------------------------------------------------------------------

KNOWN = {"n": 5, "d": 3, "e": 2}
OUTPUTS = [(4, 5, 3), (4, 5, 5, 2), (4, 3, 3), (4,)]


def test_outputs_that_fit() -> None:
    assert PARTICLES.check_outputs(zeros(*OUTPUTS), KNOWN) is None
    for size in (0, 1, 7):
        GRAPH.check_outputs(zeros((4, size)), {"n": 5, "c": 2})


def test_the_known_sizes_are_not_changed() -> None:
    known = {"n": 5, "c": 2}
    GRAPH.check_outputs(zeros((4, 7)), known)
    assert known == {"n": 5, "c": 2}


@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (0, (4, 6, 3), "Expected output 0 ('n d:point') to have size 5 on axis 'n' (got 6)"),
        (0, (4, 5, 2), "Expected output 0 ('n d:point') to have size 3 on axis 'd' (got 2)"),
        (1, (4, 5, 5, 3), "Expected output 1 ('n n e') to have size 2 on axis 'e' (got 3)"),
        (1, (4, 5, 4, 2), "Expected output 1 ('n n e') to have size 5 on axis 'n' (got 4)"),
        (1, (4, 5, 2), "Expected output 1 ('n n e') to have 4 axes, batch first (got shape (4, 5, 2))"),
        (2, (3, 3, 3), "Expected output 2 ('d d') to have batch size 4 like output 0 (got 3)"),
        (3, (4, 1), "Expected output 3 ('') to have 1 axes, batch first (got shape (4, 1))"),
    ],
)
def test_outputs_that_do_not(place: int, shape: tuple[int, ...], message: str) -> None:
    outputs = zeros(*OUTPUTS)
    outputs[place] = torch.zeros(shape)
    with pytest.raises(ShapeError, match=f"^{re.escape(message)}$"):
        PARTICLES.check_outputs(outputs, KNOWN)


def test_the_number_of_outputs() -> None:
    with pytest.raises(ShapeError, match=r"^Expected 4 outputs: 'n d:point', 'n n e', 'd d', '' \(got 3\)$"):
        PARTICLES.check_outputs(zeros(*OUTPUTS[:3]), KNOWN)


def test_two_outputs_agree_on_a_name_that_no_input_has() -> None:
    signature = Signature.parse("n -> k, n k", {"n": S()})
    signature.check_outputs(zeros((2, 4), (2, 5, 4)), {"n": 5})
    with pytest.raises(ShapeError, match=r"output 1 \('n k'\) to have equal sizes on axis 'k' \(got 4 and 3\)"):
        signature.check_outputs(zeros((2, 4), (2, 5, 3)), {"n": 5})


def test_dtypes_devices_and_types_of_outputs() -> None:
    cases: list[tuple[int, Any, type[ProbsymError], str]] = [
        (0, torch.zeros(4, 5, 3, dtype=torch.long), DtypeError, "output 0 .* to be floating, since E.* rotates 'd'"),
        (3, torch.zeros(4, device=META), DeviceError, "output 3 .* to be on cpu like output 0 .*got meta"),
        (1, None, DtypeError, "output 1 .* to be a tensor .*got NoneType"),
    ]
    for place, other, error, message in cases:
        outputs: list[Any] = zeros(*OUTPUTS)
        outputs[place] = other
        with pytest.raises(error, match=message):
            PARTICLES.check_outputs(outputs, KNOWN)


def test_outputs_may_differ_in_precision_as_under_autocast() -> None:
    outputs = zeros(*OUTPUTS)
    outputs[2] = outputs[2].bfloat16()
    PARTICLES.check_outputs(outputs, KNOWN)


# --- masks ------------------------------------------------------------------------------------------------------

MASK = torch.tensor([[True, False, True, True, False], [True, True, True, True, True]])
GRAPHS = [(2, 5, 3), (2, 5, 5)]


def mask_of(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


@pytest.mark.parametrize(
    ("text", "groups", "axis"),
    [
        ("n c, n n -> k", {"n": S()}, "n"),
        ("c n -> k", {"n": S()}, "n"),
        ("t n d:point -> k", {"n": S(), "d": E(3)}, "n"),
        ("t d -> k", {"d": O(3)}, "t"),
        ("t d -> k c", {"d": O(3)}, "t"),
        ("t (h w) -> k", {"h w": C(4)}, "t"),
        ("t -> t k", {}, "t"),
    ],
)
def test_one_mask_goes_to_the_one_axis_that_qualifies(text: str, groups: Mapping[str, Group], axis: str) -> None:
    masks = Signature.parse(text, groups).masks(MASK)
    assert list(masks) == [axis]
    assert masks[axis] is MASK


@pytest.mark.parametrize(
    ("text", "groups", "axes"),
    [
        ("n c, m c -> k", {"n": S(), "m": S()}, "'n', 'm'"),
        ("t c -> k", {}, "'t', 'c'"),
        ("t c d -> k", {"d": O(3)}, "'t', 'c'"),
        ("t (h w) c -> k", {"h w": C(4)}, "'t', 'c'"),
        ("d d -> k", {"d": O(3)}, "none"),
        ("(h w) -> (h w) k", {"h w": C(4)}, "none"),
    ],
)
def test_an_ambiguous_mask_is_refused(text: str, groups: Mapping[str, Group], axes: str) -> None:
    message = f"Expected masks as {{axis: mask}} unless exactly one axis qualifies (got {axes})"
    with pytest.raises(MaskError, match=f"^{re.escape(message)}$"):
        Signature.parse(text, groups).masks(MASK)


def test_no_mask_is_no_masks() -> None:
    assert GRAPH.masks(None) == {}
    assert GRAPH.masks({}) == {}


def test_masks_by_name_are_kept_and_copied() -> None:
    given = {"n": MASK, "c": mask_of(2, 3)}
    masks = GRAPH.masks(given)
    assert list(masks) == ["n", "c"]
    assert all(masks[name] is given[name] for name in given)
    assert masks is not given


@pytest.mark.parametrize("mask", [MASK, {"n": MASK}, {"c": mask_of(2, 3)}, {"n": MASK, "c": mask_of(2, 3)}, {}, None])
def test_masks_that_fit(mask: Any) -> None:
    assert GRAPH.check_inputs(zeros(*GRAPHS), mask) == {"n": 5, "c": 3}


@pytest.mark.parametrize(
    ("text", "groups", "shape", "mask"),
    [
        ("n m -> k", {"n": S(), "m": S()}, (2, 5, 4), {"n": mask_of(2, 5), "m": mask_of(2, 4)}),
        ("t d -> k", {"d": O(3)}, (2, 5, 3), {"t": mask_of(2, 5)}),
        ("(h w) c -> k", {"h w": C(4)}, (2, 4, 4, 3), {"c": mask_of(2, 3)}),
    ],
)
def test_several_masks_and_masks_on_unbound_axes(
    text: str, groups: Mapping[str, Group], shape: tuple[int, ...], mask: Mapping[str, Tensor]
) -> None:
    signature = Signature.parse(text, groups)
    assert signature.check_inputs(zeros(shape), mask, finite=True) == dict(
        zip(signature.inputs[0].names, shape[1:], strict=True)
    )


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"m": MASK}, "Expected a mask for one of the axes ['n', 'c'] (got 'm')"),
        ({"k": MASK}, "Expected a mask for one of the axes ['n', 'c'] (got 'k')"),
        ({"n": MASK, "n n": MASK}, "Expected a mask for one of the axes ['n', 'c'] (got 'n n')"),
        ({"n": MASK.float()}, "Expected mask 'n' to be boolean (got torch.float32)"),
        (MASK.long(), "Expected mask 'n' to be boolean (got torch.int64)"),
        ({"n": MASK.tolist()}, "Expected mask 'n' to be boolean (got list)"),
        ({"n": None}, "Expected mask 'n' to be boolean (got NoneType)"),
        (MASK[:, :4], "Expected mask 'n' to have shape (2, 5) (got (2, 4))"),
        (MASK[:1], "Expected mask 'n' to have shape (2, 5) (got (1, 5))"),
        (MASK[0], "Expected mask 'n' to have shape (2, 5) (got (5,))"),
        (MASK[..., None], "Expected mask 'n' to have shape (2, 5) (got (2, 5, 1))"),
        ({"n": MASK, "c": MASK}, "Expected mask 'c' to have shape (2, 3) (got (2, 5))"),
        (MASK.to(META), "Expected mask 'n' to be on cpu like input 0 (got meta)"),
    ],
)
@pytest.mark.parametrize("finite", [False, True])
def test_masks_that_do_not_fit(mask: Any, message: str, finite: bool) -> None:
    refuse(MaskError, message, GRAPH, zeros(*GRAPHS), mask, finite)


@pytest.mark.parametrize("mask", [MASK.tolist(), MASK.numpy(), "n", [], 0], ids=["list", "array", "text", "[]", "0"])
def test_a_mask_that_is_neither_tensor_nor_mapping_is_refused(mask: Any) -> None:
    refuse(MaskError, "Expected ...", GRAPH, zeros(*GRAPHS), mask)


@pytest.mark.parametrize(
    ("text", "groups", "shape", "name", "group"),
    [
        ("n d -> k", {"n": S(), "d": O(3)}, (2, 5, 3), "d", "O(3)"),
        ("n d:point -> k", {"n": S(), "d": E(3)}, (2, 5, 3), "d", "E(3)"),
        ("n d -> k", {"n": S(), "d": C(4)}, (2, 5, 2), "d", "C(4)"),
        ("(h w) c -> k", {"h w": C(4)}, (2, 4, 4, 3), "h", "C(4)"),
        ("(h w) c -> k", {"h w": D(4)}, (2, 4, 4, 3), "w", "D(4)"),
    ],
)
def test_axes_that_a_group_mixes_cannot_be_masked(
    text: str, groups: Mapping[str, Group], shape: tuple[int, ...], name: str, group: str
) -> None:
    signature = Signature.parse(text, groups)
    size = dict(zip(signature.inputs[0].names, shape[1:], strict=True))[name]
    message = f"Expected no mask on axis {name!r}, which {group} transforms (got one)"
    refuse(MaskError, message, signature, zeros(shape), {name: mask_of(2, size)})


def test_a_pair_cannot_be_masked_by_its_key() -> None:
    message = "Expected a mask for one of the axes ['h', 'w', 'c'] (got 'h w')"
    refuse(MaskError, message, IMAGE, zeros((2, 4, 4, 3)), {"h w": mask_of(2, 4)})


# --- finite -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_finite_is_refused_by_place_and_value(place: int, value: float) -> None:
    tensors = zeros(*GRAPHS)
    tensors[place][1, 2, 2] = value
    term = GRAPH.inputs[place]
    message = f"Expected input {place} ('{term}') to be finite (got {value} at (1, 2, 2))"
    refuse(NonFiniteError, message, GRAPH, tensors, finite=True)
    refuse(NonFiniteError, message, GRAPH, tensors, MASK, finite=True)
    assert GRAPH.check_inputs(tensors, MASK) == {"n": 5, "c": 3}  # only on request


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("mask", [MASK, {"n": MASK}], ids=["tensor", "mapping"])
def test_padding_may_hold_anything(value: float, mask: Any) -> None:
    x, pairs = zeros(*GRAPHS)
    padding = ~MASK[0]
    x[0, padding] = value
    pairs[0, padding] = value
    pairs[0, :, padding] = value
    assert GRAPH.check_inputs([x, pairs], mask, finite=True) == {"n": 5, "c": 3}
    message = f"Expected input 0 ('n c') to be finite (got {value} at (0, 1, 0))"
    refuse(NonFiniteError, message, GRAPH, [x, pairs], finite=True)


def test_the_first_real_entry_is_named_behind_padding() -> None:
    x, pairs = zeros(*GRAPHS)
    x[0, 1] = NAN  # padding of item 0
    x[0, 3, 2] = -INF
    x[1, 1, 1] = NAN  # real in item 1
    refuse(
        NonFiniteError, "Expected input 0 ('n c') to be finite (got -inf at (0, 3, 2))", GRAPH, [x, pairs], MASK, True
    )


def test_padding_on_two_axes() -> None:
    signature = Signature.parse("n c d -> k", {"n": S(), "d": O(3)})
    x = torch.zeros(2, 5, 2, 3)
    masks = {"n": MASK, "c": torch.tensor([[True, False], [True, True]])}
    x[0, 1], x[0, :, 1] = NAN, INF
    assert signature.check_inputs([x], masks, finite=True) == {"n": 5, "c": 2, "d": 3}
    x[1, 4, 1, 2] = INF
    refuse(
        NonFiniteError, "Expected input 0 ('n c d') to be finite (got inf at (1, 4, 1, 2))", signature, [x], masks, True
    )


def test_a_mask_does_not_excuse_a_tensor_without_its_axis() -> None:
    signature = Signature.parse("n, c -> k", {"n": S()})
    x, y = zeros((2, 5), (2, 5))
    y[0, 1] = NAN
    refuse(NonFiniteError, "Expected input 1 ('c') to be finite (got nan at (0, 1))", signature, [x, y], MASK, True)


def test_integers_are_finite() -> None:
    x, pairs = zeros(*GRAPHS)
    assert GRAPH.check_inputs([x, pairs.long()], MASK, finite=True) == {"n": 5, "c": 3}


@pytest.mark.parametrize("name", ["n", "c"])
def test_an_empty_batch_item_is_refused_on_request(name: str) -> None:
    mask = mask_of(2, {"n": 5, "c": 3}[name])
    mask[1] = False
    assert GRAPH.check_inputs(zeros(*GRAPHS), {name: mask}) == {"n": 5, "c": 3}
    message = f"Expected a real entry in every batch item of mask {name!r} (got none in item 1)"
    refuse(MaskError, message, GRAPH, zeros(*GRAPHS), {name: mask}, finite=True)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 3, 2).to_sparse(), "to be dense (got torch.sparse_coo)"),
        (torch.zeros(2, 3, 2).to(torch.float8_e4m3fn), "to be of 16 bits or more (got torch.float8_e4m3fn)"),
        (torch.zeros(2, 3, 2).to(torch.complex64), "to be real (got torch.complex64)..."),
    ],
    ids=["sparse", "float8", "complex"],
)
def test_tensors_of_a_kind_that_nothing_is_made_for(x: Tensor, message: str) -> None:
    refuse(DtypeError, f"Expected input 0 ('n c') {message}", GRAPH, [x, torch.zeros(2, 3, 3)])


def test_complex_numbers_are_refused_as_such_where_a_group_rotates_them() -> None:
    signature = Signature.parse("n d -> d", {"d": O(2)})
    message = "Expected input 0 ('n d') to be real (got torch.complex64)..."
    refuse(DtypeError, message, signature, [torch.zeros(2, 3, 2).to(torch.complex64)])


def test_one_sum_finds_what_is_not_finite_and_overflow_is_none() -> None:
    x, terms = torch.full((2, 3, 2), 3e38), GRAPH.inputs[:1]
    check_read([0], [x], [x], terms, {})
    x[1, 2, 0] = NAN
    with pytest.raises(NonFiniteError, match=r"input 0 \('n c'\) to be finite \(got nan at \(1, 2, 0\)\)"):
        check_read([0], [x], [x], terms, {})
    check_read([], [x], [x], terms, {})
    check_read([0], [x], [x.to(META)], terms, {})
