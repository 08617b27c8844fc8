import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from probsym import Signature
from probsym.errors import MaskError, ProbsymError, ShapeError, SignatureError
from probsym.groups import SE, SO, C, D, E, Group, O, S

Groups = Mapping[str, Group]
SET: Groups = {"n": S()}
SPACE: Groups = {"d": E(3)}
PARTICLES: Groups = {"n": S(), "d": E(3)}
IMAGE: Groups = {"h w": C(4)}

# --- parsing and printing ---------------------------------------------------------------------------------------

# text, groups, the canonical print, and for every term its axes as (key, kind)
NOTATION: list[tuple[str, Groups, str, list[list[tuple[str, str]]], list[list[tuple[str, str]]]]] = [
    (
        "n c, n n -> k",
        SET,
        "n c, n n -> k",
        [[("n", "plain"), ("c", "plain")], [("n", "plain"), ("n", "plain")]],
        [[("k", "plain")]],
    ),
    (
        "n d:point, n d, n n e -> n d",
        PARTICLES,
        "n d:point, n d, n n e -> n d",
        [
            [("n", "plain"), ("d", "point")],
            [("n", "plain"), ("d", "plain")],
            [("n", "plain"), ("n", "plain"), ("e", "plain")],
        ],
        [[("n", "plain"), ("d", "plain")]],
    ),
    ("n->n", SET, "n -> n", [[("n", "plain")]], [[("n", "plain")]]),
    ("n c ->", SET, "n c ->", [[("n", "plain"), ("c", "plain")]], [[]]),
    ("n ->  ", SET, "n ->", [[("n", "plain")]], [[]]),
    ("n -> n, k, ", SET, "n -> n, k,", [[("n", "plain")]], [[("n", "plain")], [("k", "plain")], []]),
    ("n -> , k", SET, "n -> , k", [[("n", "plain")]], [[], [("k", "plain")]]),
    ("n -> ,", SET, "n -> ,", [[("n", "plain")]], [[], []]),
    ("n n n c -> n n", SET, "n n n c -> n n", [[("n", "plain")] * 3 + [("c", "plain")]], [[("n", "plain")] * 2]),
    (
        "d d, d:axial -> d d d",
        {"d": O(3)},
        "d d, d:axial -> d d d",
        [[("d", "plain")] * 2, [("d", "axial")]],
        [[("d", "plain")] * 3],
    ),
    (
        "d:point c -> d:point, d:axial",
        {"d": SE(2)},
        "d:point c -> d:point, d:axial",
        [[("d", "point"), ("c", "plain")]],
        [[("d", "point")], [("d", "axial")]],
    ),
    (
        "(h w) c -> (h w)",
        IMAGE,
        "(h w) c -> (h w)",
        [[("h w", "grid"), ("c", "plain")]],
        [[("h w", "grid")]],
    ),
    (
        "t ( h   w ) c->(h w) k",
        {"h w": D(4)},
        "t (h w) c -> (h w) k",
        [[("t", "plain"), ("h w", "grid"), ("c", "plain")]],
        [[("h w", "grid"), ("k", "plain")]],
    ),
    (
        "\n  n   c ,\tn n\n->\n  k ",
        SET,
        "n c, n n -> k",
        [[("n", "plain"), ("c", "plain")], [("n", "plain"), ("n", "plain")]],
        [[("k", "plain")]],
    ),
    (
        "node_1 _x2 Chan -> Chan",
        {"node_1": S(), "_x2": O(2)},
        "node_1 _x2 Chan -> Chan",
        [[("node_1", "plain"), ("_x2", "plain"), ("Chan", "plain")]],
        [[("Chan", "plain")]],
    ),
    (
        "a b, b c -> a c",
        {},
        "a b, b c -> a c",
        [[("a", "plain"), ("b", "plain")], [("b", "plain"), ("c", "plain")]],
        [[("a", "plain"), ("c", "plain")]],
    ),
    ("d d:axial -> k", {"d": C(3)}, "d d:axial -> k", [[("d", "plain"), ("d", "axial")]], [[("k", "plain")]]),
]
TEXTS = [(text, groups) for text, groups, *_ in NOTATION]


def axes(terms: Sequence[Any]) -> list[list[tuple[str, str]]]:
    return [[(axis.key, axis.kind) for axis in term.axes] for term in terms]


@pytest.mark.parametrize(("text", "groups", "canonical", "inputs", "outputs"), NOTATION)
def test_every_construct_parses_and_prints(
    text: str, groups: Groups, canonical: str, inputs: list[Any], outputs: list[Any]
) -> None:
    signature = Signature.parse(text, groups)
    assert axes(signature.inputs) == inputs
    assert axes(signature.outputs) == outputs
    assert dict(signature.groups) == dict(groups)
    assert str(signature) == canonical


@pytest.mark.parametrize(("text", "groups"), TEXTS)
def test_a_print_parses_to_the_same_signature(text: str, groups: Groups) -> None:
    signature = Signature.parse(text, groups)
    again = Signature.parse(str(signature), groups)
    assert again == signature
    assert hash(again) == hash(signature)
    assert str(again) == str(signature)


@pytest.mark.parametrize(("text", "groups"), TEXTS)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda signature: pickle.loads(pickle.dumps(signature))])
def test_copies_are_equal(text: str, groups: Groups, clone: Callable[[Signature], Signature]) -> None:
    signature = Signature.parse(text, groups)
    twin = clone(signature)
    assert twin == signature
    assert hash(twin) == hash(signature)
    assert str(twin) == str(signature)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("d n, c -> d", {"n": S(), "d": O(3)}),
        ("c, n d -> d", {"n": S(), "d": O(3)}),
        ("n d c -> d", {"n": S(), "d": O(3)}),
        ("n d:axial, c -> d", {"n": S(), "d": O(3)}),
        ("n d, c -> n", {"n": S(), "d": O(3)}),
        ("n d, c -> d, d", {"n": S(), "d": O(3)}),
        ("n d, c -> d", {"n": S(), "d": SO(3)}),
        ("n d, c -> d", {"n": S(), "d": O(2)}),
        ("n d, c -> d", {"n": S()}),
    ],
)
def test_different_signatures_differ(text: str, groups: Groups) -> None:
    assert Signature.parse(text, groups) != Signature.parse("n d, c -> d", {"n": S(), "d": O(3)})


def test_equality_ignores_the_order_and_spacing_of_bindings() -> None:
    text = "n (h w) -> k"
    signature, twin = (
        Signature.parse(text, groups) for groups in ({"n": S(), "h w": C(4)}, {" h   w ": C(4), "n\t": S()})
    )
    assert signature == twin
    assert len({signature, twin}) == 1
    assert set(twin.groups) == {"n", "h w"}


def test_a_signature_keeps_its_own_bindings() -> None:
    groups: dict[str, Group] = {"n": S()}
    signature = Signature.parse("n c -> k", groups)
    groups["c"] = O(3)
    assert dict(signature.groups) == {"n": S()}


def test_places_are_counted_from_the_end() -> None:
    term = Signature.parse("n (h w) d:point -> k", {"n": S(), "h w": C(4), "d": E(2)}).inputs[0]
    assert term.names == ("n", "h", "w", "d")
    assert [(str(axis), place) for axis, place in term.places()] == [("n", -4), ("(h w)", (-3, -2)), ("d:point", -1)]


# --- malformed notation and bindings ----------------------------------------------------------------------------

MALFORMED: list[tuple[str, Any, str]] = [
    # the arrow
    ("n c", SET, r"Expected one '->' .* in 'n c' \(got 0\)"),
    ("", {}, r"Expected one '->' .* in '' \(got 0\)"),
    ("n - > k", SET, r"Expected one '->' .* \(got 0\)"),
    ("n -> n -> k", SET, r"Expected one '->' .* \(got 2\)"),
    ("n --> k", SET, r"an axis name in input 0 \('n -'\) \(got '-'\)"),
    ("n ->> k", SET, r"an axis name in output 0 \('> k'\) \(got '>'\)"),
    ("-> k", {}, r"at least one input before '->' in '-> k' \(got none\)"),
    ("   -> k", {}, r"at least one input before '->'"),
    # names
    ("1n -> k", {}, r"an axis name in input 0 \('1n'\) \(got '1n'\)"),
    ("n-m -> k", {}, r"an axis name in input 0 \('n-m'\) \(got 'n-m'\)"),
    ("n 3 -> k", SET, r"an axis name in input 0 \('n 3'\) \(got '3'\)"),
    ("n, n ... -> k", SET, r"an axis name in input 1 \('n \.\.\.'\) \(got '\.\.\.'\)"),
    ("n; c -> k", {}, r"an axis name in input 0 .* \(got 'n;'\)"),
    ("n -> n, k*", SET, r"an axis name in output 1 \('k\*'\) \(got 'k\*'\)"),
    ("n :point -> k", SET, r"an axis name .* \(got ':point'\)"),
    # repeats
    ("c c -> k", {}, r"Expected 'c' once in input 0 \('c c'\).* \(got 2\)"),
    ("n c, n c c c -> k", SET, r"Expected 'c' once in input 1 \('n c c c'\).* \(got 3\)"),
    ("n -> k k", SET, r"Expected 'k' once in output 0 \('k k'\).* \(got 2\)"),
    # kinds
    ("d:foo -> k", SPACE, r"':point' or ':axial' after 'd' in input 0 \('d:foo'\) \(got 'd:foo'\)"),
    ("d:plain -> k", SPACE, r"':point' or ':axial' after 'd' .* \(got 'd:plain'\)"),
    ("d:grid -> k", {"d": C(4)}, r"':point' or ':axial' after 'd' .* \(got 'd:grid'\)"),
    ("d:Point -> k", SPACE, r"':point' or ':axial' after 'd' .* \(got 'd:Point'\)"),
    ("d: -> k", SPACE, r"':point' or ':axial' after 'd' .* \(got 'd:'\)"),
    ("d: point -> k", SPACE, r"':point' or ':axial' after 'd' .* \(got 'd:'\)"),
    ("d:point:axial -> k", SPACE, r"':point' or ':axial' after 'd' .* \(got 'd:point:axial'\)"),
    ("n d:point -> k", SET, r"Expected 'd' to be bound to a group in input 0 .* \(got 'd:point' unbound\)"),
    ("n -> c:axial", SET, r"Expected 'c' to be bound to a group in output 0 .* \(got 'c:axial' unbound\)"),
    ("d:point -> k", {"d": O(3)}, r"a group that acts on 'd:point' in input 0 \('d:point'\) \(got O\(3\)\)"),
    ("d:point -> k", {"d": SO(3)}, r"a group that acts on 'd:point' .* \(got SO\(3\)\)"),
    ("d:point -> k", {"d": C(4)}, r"a group that acts on 'd:point' .* \(got C\(4\)\)"),
    ("n:axial -> k", SET, r"a group that acts on 'n:axial' .* \(got S\(\)\)"),
    ("n:point -> k", SET, r"a group that acts on 'n:point' .* \(got S\(\)\)"),
    ("n d -> n:point", PARTICLES, r"a group that acts on 'n:point' in output 0 .* \(got S\(\)\)"),
    # points need a centroid
    ("n d -> n d:point", PARTICLES, r"an input with 'd:point' whose centroid output 'n d:point' can take \(got none\)"),
    (
        "n d:point, n b -> n b:point",
        {"d": E(3), "b": E(2)},
        r"an input with 'b:point' whose centroid output 'n b:point' can take \(got none\)",
    ),
    # pairs
    ("(h w) -> k", {}, r"Expected 'h w' to be bound to a group in input 0 .* \(got '\(h w\)' unbound\)"),
    ("(h w) -> (a b)", IMAGE, r"Expected 'a b' to be bound to a group in output 0 .* \(got '\(a b\)' unbound\)"),
    ("(h) -> k", IMAGE, r"two axis names in parentheses in input 0 .* \(got '\(h\)'\)"),
    ("() -> k", IMAGE, r"two axis names in parentheses .* \(got '\(\)'\)"),
    ("(h w c) -> k", IMAGE, r"two axis names in parentheses .* \(got '\(h w c\)'\)"),
    ("(h h) -> k", {"h h": C(4)}, r"two axis names in parentheses .* \(got '\(h h\)'\)"),
    ("(h 2) -> k", {"h 2": C(4)}, r"two axis names in parentheses .* \(got '\(h 2\)'\)"),
    ("(h w:axial) -> k", IMAGE, r"two axis names in parentheses .* \(got '\(h w:axial\)'\)"),
    ("(h w):axial -> k", IMAGE, r"an axis name .* \(got '\(h'\)"),
    ("(h w -> k", IMAGE, r"an axis name .* \(got '\(h'\)"),
    ("h w) -> k", IMAGE, r"an axis name .* \(got 'w\)'\)"),
    ("((h w)) -> k", IMAGE, r"an axis name .* \(got '\(\(h'\)"),
    ("(h, w) -> k", IMAGE, r"an axis name in input 0 \('\(h'\) \(got '\(h'\)"),
    ("(h w) -> k", {"h w": S()}, r"a group that acts on '\(h w\)' .* \(got S\(\)\)"),
    ("(h w) -> k", {"h w": O(3)}, r"a group that acts on '\(h w\)' .* \(got O\(3\)\)"),
    ("(w h) -> k", IMAGE, r"Expected 'w h' to be bound to a group .* \(got '\(w h\)' unbound\)"),
    ("h w -> k", IMAGE, r"Expected 'h w', bound to C\(4\), to occur in an input of 'h w -> k'"),
    ("(h w), h c -> k", IMAGE, r"Expected 'h' to occur as '\(h w\)' throughout \(got 'h' too\)"),
    ("(h w) c -> w", IMAGE, r"Expected 'w' to occur as '\(h w\)' throughout \(got 'w' too\)"),
    ("(h w), h -> k", {"h w": C(4), "h": S()}, r"Expected 'h' to occur as '\(h w\)' throughout \(got 'h' too\)"),
    ("(h w), (w h) -> k", {"h w": C(4), "w h": C(4)}, r"Expected '[hw]' to occur as '\(. .\)' throughout"),
    ("(h w), (w v) -> k", {"h w": C(4), "w v": C(4)}, r"Expected 'w' to occur as '\(. .\)' throughout"),
    # bindings
    ("n c -> k", {"n": S(), "m": S()}, r"Expected 'm', bound to S\(\), to occur in an input of 'n c -> k'"),
    ("n c -> k m", {"n": S(), "m": S()}, r"Expected 'm', bound to S\(\), to occur in an input of"),
    ("(h w) -> h w", {"(h w)": C(4), "h w": C(4)}, r"Expected '\(h w\)', bound to C\(4\), to occur in an input"),
    ("d -> k", {"d": O(3), "d:axial": O(3)}, r"Expected 'd:axial', bound to O\(3\), to occur in an input"),
    ("n -> k", {"n": S(), "": S()}, r"Expected groups to be bound to axis names \(got ''\)"),
    ("n -> k", {"n": S}, r"Expected 'n' to be bound to a group \(got <class .*S'>\)"),
    ("n -> k", {"n": None}, r"Expected 'n' to be bound to a group \(got None\)"),
    ("n -> k", {"n": 3}, r"Expected 'n' to be bound to a group \(got 3\)"),
    ("n -> k", {"n": "S"}, r"Expected 'n' to be bound to a group \(got 'S'\)"),
    ("n c, , n -> k", SET, r"input 1 \(''\)"),
    ("n c, -> k", SET, r"input 1 \(''\)"),
    (", n c -> k", SET, r"input 0 \(''\)"),
    ("d:point d -> k", SPACE, r"d:point d"),
    ("d:point d:point -> k", SPACE, r"d:point d:point"),
    ("d:point b -> k", {"d": E(3), "b": O(2)}, r"d:point b"),
    ("(h w) -> k", {"h w": C(4), "h  w": D(4)}, r"'h w'"),
    ("(h w) -> k", {"h w": O(4)}, r"\(h w\).*O\(4\)"),
    ("(h w) -> k", {"h w": E(2)}, r"\(h w\).*E\(2\)"),
    ("b(h w)c -> k", IMAGE, r"b\(h w\)c"),
    ("(h w)(a b) -> k", {"h w": C(4), "a b": C(4)}, r"\(h w\)\(a b\)"),
]


@pytest.mark.parametrize(("text", "groups", "message"), MALFORMED, ids=[f"{row[0]!r}-{row[1]}" for row in MALFORMED])
def test_malformed_signatures_are_refused(text: str, groups: Any, message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        Signature.parse(text, groups)


@pytest.mark.parametrize(("text", "groups"), [(None, {}), (3, SET), ("n -> k", {1: S()}), ("n -> k", [S()])])
def test_arguments_of_the_wrong_type_are_refused(text: Any, groups: Any) -> None:
    with pytest.raises(ProbsymError, match="Expected"):
        Signature.parse(text, groups)


def test_a_bound_pair_may_be_repeated() -> None:
    signature = Signature.parse("(h w) (h w) -> k", IMAGE)
    assert str(signature) == "(h w) (h w) -> k"
    image = torch.randn(1, 3, 3, dtype=torch.float64)
    moved = torch.rot90(image, 1, (1, 2))
    (product,) = signature.act({"h w": torch.tensor([1])}, [torch.einsum("bij,bkl->bijkl", image, image)])
    torch.testing.assert_close(product, torch.einsum("bij,bkl->bijkl", moved, moved))


# --- the action, against index and matmul oracles ---------------------------------------------------------------


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def element(
    group: Group, batch: Sequence[int], size: int | None, seed: int, dtype: torch.dtype = torch.float64
) -> Tensor:
    """A random element, which may be anywhere in the group."""
    g = group.haar(batch, size=size, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return (
        group.with_translation(g[..., :-1], random(*batch, group.d, dtype=dtype, seed=seed))
        if isinstance(group, E)
        else g
    )


def put(p: Tensor, x: Tensor, order: int) -> Tensor:
    """Move the first `order` axes of x by p: the item at place j goes to place p[j], one by one."""
    y = torch.full_like(x, -99)
    for source in torch.cartesian_prod(*[torch.arange(len(p))] * order).view(-1, order).tolist():
        y[tuple(int(p[j]) for j in source)] = x[tuple(source)]
    return y


def reflection(size: int, batch: Sequence[int]) -> Tensor:
    """Orthogonal matrices, every second one with determinant -1."""
    q = torch.linalg.qr(random(*batch, size, size)).Q.reshape(-1, size, size)
    signs = (-1.0) ** torch.arange(len(q)) * torch.linalg.det(q).sign()
    return (torch.cat([q[..., :1] * signs[:, None, None], q[..., 1:]], -1)).reshape(*batch, size, size)


B, K, N = 2, 4, 5


def particles(batch: Sequence[int]) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor]:
    """Elements of S x E(3), with p, Q and t for the oracles."""
    p = S().haar(batch, size=N, generator=torch.Generator().manual_seed(3))
    q, t = reflection(3, batch), random(*batch, 3, seed=4)
    return {"n": p, "d": torch.cat([q, t.unsqueeze(-1)], -1)}, p, q, t


# one tensor without batch axes, moved by one permutation p and one motion (Q, t)
ORACLES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "n d:point": lambda p, q, t, x: put(p, x @ q.T + t, 1),
    "n d": lambda p, q, t, x: put(p, x @ q.T, 1),
    "n d:axial": lambda p, q, t, x: put(p, x @ q.T * torch.linalg.det(q), 1),
    "n n e": lambda p, q, t, x: put(p, x, 2),
    "n n n": lambda p, q, t, x: put(p, x, 3),
    "d d": lambda p, q, t, x: q @ x @ q.T,
    "d d:axial d": lambda p, q, t, x: torch.linalg.det(q) * torch.einsum("ai,bj,ck,ijk->abc", q, q, q, x),
    "e d:point": lambda p, q, t, x: x @ q.T + t,
    "c d n": lambda p, q, t, x: torch.stack([put(p, (q @ channel).T, 1).T for channel in x]),
    "e": lambda p, q, t, x: x,
    "": lambda p, q, t, x: x,
}
SIZES = {"n": N, "d": 3, "e": 2, "c": 4}
SHAPES = {term: tuple(SIZES[name.partition(":")[0]] for name in term.split()) for term in ORACLES}
LEFT = ["n d:point", "n d:axial", "n n e", "n n n", "c d n", "e d:point", "e"]
RIGHT = ["n d:point", "d d", "", "n d", "d d:axial d", "n n e"]
SIGNATURE = Signature.parse(", ".join(LEFT) + " -> " + ", ".join(RIGHT), PARTICLES)
SIDES = pytest.mark.parametrize(("terms", "act"), [(LEFT, SIGNATURE.act), (RIGHT, SIGNATURE.act_on_outputs)])


@SIDES
def test_sets_and_motions_act_as_written_by_hand(terms: list[str], act: Callable[..., tuple[Tensor, ...]]) -> None:
    elements, p, q, t = particles((B,))
    tensors = [random(B, *SHAPES[term], seed=i) for i, term in enumerate(terms)]
    before = [x.clone() for x in tensors]
    moved = act(elements, tensors)
    assert isinstance(moved, tuple)
    for term, y, x, old in zip(terms, moved, tensors, before, strict=True):
        wanted = torch.stack([ORACLES[term](p[b], q[b], t[b], x[b]) for b in range(B)])
        torch.testing.assert_close(y, wanted, msg=lambda text, term=term: f"{term!r}: {text}")
        assert torch.equal(x, old), f"{term!r} was changed in place"


@pytest.mark.parametrize("shared", [True, False], ids=["one tensor for all draws", "one tensor a draw"])
@SIDES
def test_draw_axes(terms: list[str], act: Callable[..., tuple[Tensor, ...]], shared: bool) -> None:
    elements, p, q, t = particles((B, K))
    tensors = [random(B, 1 if shared else K, *SHAPES[term], seed=i) for i, term in enumerate(terms)]
    for term, y, x in zip(terms, act(elements, tensors), tensors, strict=True):
        if term in ("e", ""):  # what no group moves is not repeated for the draws
            assert torch.equal(y, x)
            continue
        wanted = [
            ORACLES[term](p[b, k], q[b, k], t[b, k], x[b, 0 if shared else k]) for b in range(B) for k in range(K)
        ]
        torch.testing.assert_close(
            y.flatten(0, 1), torch.stack(wanted), msg=lambda text, term=term: f"{term!r}: {text}"
        )
        assert y.shape[:2] == (B, K)


def test_the_permutation_convention() -> None:
    signature = Signature.parse("n, n n -> n", SET)
    p = torch.tensor([[2, 0, 1]])
    x, pairs = torch.tensor([[10, 20, 30]]), torch.arange(9).view(1, 3, 3)
    undone, undone_pairs = signature.act({"n": S().inverse(p)}, [x, pairs])
    assert undone.tolist() == [[30, 10, 20]]
    assert undone_pairs.tolist() == [[[8, 6, 7], [2, 0, 1], [5, 3, 4]]]
    (y,) = signature.act_on_outputs({"n": p}, [undone])
    assert torch.equal(y, x)


def turned(group: C | D, k: int, image: Tensor) -> Tensor:
    """Element k + m f flips the y axis if f is 1, then turns counter-clockwise by k / m."""
    flipped = image.flip(0) if k >= group.m else image
    return torch.rot90(flipped, k % group.m * 4 // group.m, (0, 1))


@pytest.mark.parametrize("group", [C(4), D(4), C(2), D(2), D(1)], ids=repr)
def test_images_turn_and_flip(group: C | D) -> None:
    height, width = (4, 4) if group.m == 4 else (3, 4)
    signature = Signature.parse("(h w) c -> (h w)", {"h w": group})
    g = group.elements()
    x, y = random(group.order, height, width, 3), random(group.order, height, width)
    (moved_x,), (moved_y,) = signature.act({"h w": g}, [x]), signature.act_on_outputs({"h w": g}, [y])
    assert torch.equal(moved_x, torch.stack([turned(group, k, x[k]) for k in range(group.order)]))
    assert torch.equal(moved_y, torch.stack([turned(group, k, y[k]) for k in range(group.order)]))


def test_images_with_draws() -> None:
    signature = Signature.parse("t (h w) c -> (h w)", {"h w": D(4)})
    g = torch.tensor([[0, 5, 2], [7, 1, 4]])
    x = random(2, 1, 5, 3, 3, 2)
    (moved,) = signature.act({"h w": g}, [x])
    assert moved.shape == (2, 3, 5, 3, 3, 2)
    for b, k, frame in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(5)).tolist():
        assert torch.equal(moved[b, k, frame], turned(D(4), int(g[b, k]), x[b, 0, frame]))


def test_planar_vectors_turn_with_the_image() -> None:
    signature = Signature.parse("(h w) d -> d:axial", {"h w": D(4), "d": D(4)})
    k = torch.arange(8)
    x, axial = random(8, 3, 3, 2), random(8, 2)
    (moved,) = signature.act({"h w": k, "d": k}, [x])
    (moved_axial,) = signature.act_on_outputs({"h w": k, "d": k}, [axial])
    quarter, flip = torch.tensor([[[0.0, -1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, -1.0]]], dtype=torch.float64)
    for b in range(8):
        q = torch.linalg.matrix_power(quarter, b % 4) @ torch.linalg.matrix_power(flip, b // 4)
        torch.testing.assert_close(moved[b], turned(D(4), b, x[b]) @ q.T)
        torch.testing.assert_close(moved_axial[b], axial[b] @ q.T * (-1) ** (b // 4))


def test_integer_tensors_are_permuted_exactly() -> None:
    signature = Signature.parse("n n, (h w) -> k", {"n": S(), "h w": D(4)})
    pairs, image = torch.arange(9).view(1, 3, 3), torch.arange(4).view(1, 2, 2)
    p = torch.tensor([[1, 2, 0]])
    moved = signature.act({"n": p, "h w": torch.tensor([1])}, [pairs, image])
    assert moved[0].dtype == moved[1].dtype == torch.long
    assert torch.equal(moved[0][0], put(p[0], pairs[0], 2))
    assert moved[1].tolist() == [[[1, 3], [0, 2]]]


# --- laws -------------------------------------------------------------------------------------------------------

LAWFUL: list[tuple[str, Groups]] = [
    ("n c, n n -> k", SET),
    ("n n n, n -> n n", SET),
    ("n d:point, n d:axial, n n e -> n d:point, d d, ", PARTICLES),
    ("n d:point e, c -> d:axial", {"n": S(), "d": SE(3)}),
    ("d d d, d:axial d -> d d", {"d": O(3)}),
    ("n m d, m n -> m d", {"n": S(), "m": S(), "d": SO(2)}),
    ("d:point c, b:point -> b:point, d b", {"d": E(2), "b": SE(3)}),
    ("(h w) c -> (h w)", {"h w": C(4)}),
    ("n (h w) d -> (h w) d:axial n", {"n": S(), "h w": D(4), "d": D(3)}),
    ("(h w) d:point -> k", {"h w": D(2), "d": E(2)}),
    ("a b -> c", {}),
]
NUMBERS = {"n": 5, "m": 4, "h": 4, "w": 4, "c": 2, "e": 2, "k": 3, "a": 3, "b": 2}


def size_of(signature: Signature, name: str) -> int:
    group = signature.groups.get(name)
    return (group and group.axis_size()) or NUMBERS[name]


@pytest.mark.parametrize(("batch", "dtype"), [((3,), torch.float32), ((2, 3), torch.float64)], ids=["batch", "draws"])
@pytest.mark.parametrize(("text", "groups"), LAWFUL)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_action_laws(text: str, groups: Groups, batch: tuple[int, ...], side: str, dtype: torch.dtype) -> None:
    signature = Signature.parse(text, groups)
    act = signature.act if side == "inputs" else signature.act_on_outputs
    terms = getattr(signature, side)
    x = [random(*batch, *(size_of(signature, name) for name in term.names), dtype=dtype) for term in terms]
    g, h = (
        {key: element(group, batch, NUMBERS.get(key), seed, dtype) for key, group in signature.groups.items()}
        for seed in (1, 2)
    )
    product = {key: group.compose(g[key], h[key]) for key, group in signature.groups.items()}
    inverse = {key: group.inverse(g[key]) for key, group in signature.groups.items()}
    identity = {
        key: group.identity(batch, size=NUMBERS.get(key), dtype=dtype) for key, group in signature.groups.items()
    }

    def same(actual: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
        tolerance = 1e-10 if dtype == torch.float64 else 1e-4
        for term, y, z in zip(terms, actual, wanted, strict=True):
            assert y.dtype == dtype
            torch.testing.assert_close(y, z, atol=tolerance, rtol=tolerance, msg=lambda m, term=term: f"{term}: {m}")

    same(act(product, x), act(g, act(h, x)))
    same(act(inverse, act(g, x)), x)
    same(act(identity, x), x)


def test_inputs_and_outputs_of_the_same_term_move_alike() -> None:
    signature = Signature.parse("n d:point, n n -> n n, n d:point", PARTICLES)
    elements, *_ = particles((B,))
    x, pairs = random(B, N, 3), random(B, N, N)
    moved_x, moved_pairs = signature.act(elements, [x, pairs])
    out_pairs, out_x = signature.act_on_outputs(elements, [pairs, x])
    assert torch.equal(moved_x, out_x)
    assert torch.equal(moved_pairs, out_pairs)


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [[], ["n"], ["d"], ["n", "d", "c"], ["n", "c"], ["n", "d", "h w"]])
def test_an_element_for_each_binding_and_no_other(names: list[str]) -> None:
    signature = Signature.parse("n d:point c -> d", PARTICLES)
    known = {"n": torch.arange(N).expand(B, N), "d": E(3).identity((B,))}
    elements = {name: known.get(name, torch.zeros(B, dtype=torch.long)) for name in names}
    for act, x in [(signature.act, torch.zeros(B, N, 3, 2)), (signature.act_on_outputs, torch.zeros(B, 3))]:
        with pytest.raises(SignatureError, match=r"Expected an element for each of \['n', 'd'\] \(got ") as caught:
            act(elements, [x])
        assert str(names) in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("text", ["n c, n n -> n c, n n", "n c, c -> n c, c"])
def test_the_number_of_tensors_must_fit(text: str, count: int) -> None:
    signature = Signature.parse(text, SET)
    tensors = [torch.zeros(B, N, N)] * count
    for act in (signature.act, signature.act_on_outputs):
        with pytest.raises(ShapeError, match=rf"Expected 2 (in|out)puts.*got {count}"):
            act({"n": torch.arange(N).expand(B, N)}, tensors)


@pytest.mark.parametrize(
    "shape", [(B, N + 1, 3), (B + 1, N, 3), (B, N, 2), (B, N)], ids=["items", "batch", "space", "rank"]
)
def test_elements_must_fit_the_tensors(shape: tuple[int, ...]) -> None:
    elements, *_ = particles((B,))
    with pytest.raises(ShapeError, match="Expected"):
        Signature.parse("n d -> k", PARTICLES).act(elements, [torch.zeros(shape, dtype=torch.float64)])


def test_a_bare_mask_is_never_one_of_channels() -> None:
    signature = Signature.parse("n c -> k", {"n": C(2)})
    mask = torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(MaskError, match=r"unless exactly one axis qualifies \(got 'c'\)"):
        signature.masks(mask)
    assert Signature.parse("n d:point -> ", {"d": E(3)}).masks(mask).keys() == {"n"}
