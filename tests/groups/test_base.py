import warnings
from dataclasses import dataclass, field

import pytest
import torch

from probsym import groups
from probsym.errors import DtypeError, GroupError, ProbsymError, RankError, ShapeError
from probsym.groups import SE, SO, C, D, E, O, S

EVERY = {
    "S()": (S(), 5),
    "O(3)": (O(3), None),
    "SO(3)": (SO(3), None),
    "E(2)": (E(2), None),
    "SE(2)": (SE(2), None),
    "C(5)": (C(5), None),
    "D(4)": (D(4), None),
    "Signs()": (groups.Signs(), 5),
    "Shift()": (groups.Shift(), 5),
    "Tetrahedral()": (groups.Tetrahedral(), None),
    "Octahedral()": (groups.Octahedral(), None),
    "Icosahedral()": (groups.Icosahedral(), None),
}
every = pytest.mark.parametrize(("group", "size"), EVERY.values(), ids=EVERY.keys())


def test_every_group_is_registered_under_its_name():
    assert {text.split("(")[0]: type(group) for text, (group, _) in EVERY.items()} == groups.GROUPS


@pytest.mark.parametrize("text", EVERY)
def test_prints_as_it_is_written(text):
    group, _ = EVERY[text]
    assert repr(group) == text
    assert eval(text, dict(groups.GROUPS)) == group


def test_prints_every_field():
    @dataclass(frozen=True, repr=False)
    class Kinds(C):
        kind: int = field(default=7, kw_only=True)

    class Named(C):
        def __init__(self, m, name):
            super().__init__(m)
            object.__setattr__(self, "name", name)

    assert repr(Kinds(4, kind=9)) == "Kinds(4, 9)"
    assert repr(Named(4, "x")) == "Named(4, x)"


def test_groups_are_values():
    assert len({S(), S(), O(3), O(3), O(2), SO(3), E(3), SE(3), C(3), D(3)}) == 8
    assert O(3) != SO(3)
    assert E(3) != SE(3)
    assert C(4) != D(4)
    with pytest.raises(AttributeError):
        O(3).d = 4


@every
def test_a_generator_fixes_the_draw_and_spares_the_global_state(group, size):
    before = torch.get_rng_state()
    draws, same, different = (
        group.haar((50,), size=size, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)
    )
    assert torch.equal(draws, same)
    assert not torch.equal(draws, different)
    assert torch.equal(torch.get_rng_state(), before)


@every
def test_without_a_generator_the_global_state_decides(group, size):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first, second = (group.haar((50,), size=size) for _ in range(2))
        torch.manual_seed(3)
        again = group.haar((50,), size=size)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@every
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 4)])
def test_shapes(group, size, batch):
    shape = (*batch, *group.element_shape(size))
    linear = group.linear
    noise, features = (linear.features(batch, size=size) for _ in range(2))
    assert features.shape == (*batch, *linear.feature_shape(size))
    assert linear.project(features, noise=noise).shape == (*batch, *linear.element_shape(size))
    for g in (group.haar(batch, size=size), group.identity(batch, size=size), group.random(batch, size=size)):
        assert g.shape == shape
        assert group.contains(g).shape == batch
        assert group.check_element(g) == batch
        assert group.inverse(g).shape == shape
        assert group.matrix(g).shape[:-2] == batch


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_elements_are_drawn_in_low_precision_too(group, size, dtype):
    assert group.haar((3,), size=size, dtype=dtype).shape == (3, *group.element_shape(size))


@pytest.mark.parametrize("group", [O(3), SO(3), E(2), SE(2)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_elements_have_the_dtype_asked_for(group, dtype):
    assert group.linear.features((2,), dtype=dtype).dtype == dtype
    for g in (group.haar((2,), dtype=dtype), group.identity((2,), dtype=dtype), group.random((2,), dtype=dtype)):
        assert g.dtype == dtype
        assert group.matrix(g).dtype == dtype
        assert group.matrix(g, dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize(
    ("group", "size"),
    [(S(), 5), (C(5), None), (groups.Signs(), 3), (groups.Shift(), 3), (groups.Icosahedral(), None)],
    ids=repr,
)
def test_elements_of_finite_groups_are_whole_numbers(group, size):
    for g in (group.haar((2,), size=size), group.identity((2,), size=size), group.elements(size=size)):
        assert g.dtype == torch.long
        assert group.matrix(g, dtype=torch.float64).dtype == torch.float64
        assert group.matrix(g).dtype == torch.get_default_dtype()


KINDS = {"S": "plain", "O": "plain axial grid", "E": "plain axial point", "C": "plain axial grid"}


@pytest.mark.parametrize("kind", ["plain", "axial", "point", "grid", "vector"])
@pytest.mark.parametrize("group", [S(), O(2), E(2), C(2)], ids=repr)
def test_kinds_of_axes(group, kind):
    name = type(group).__name__
    if kind in KINDS[name].split():
        size = group.axis_size(kind)
        assert size == (None if name == "S" or kind == "grid" else 2)
    else:
        with pytest.raises(GroupError, match=rf"Expected {name}\(2?\) to act on an axis of kind .*\(got '{kind}'\)"):
            group.axis_size(kind)


eye, x, p = torch.eye(3), torch.ones(4, 3), torch.tensor([2, 0, 1])
moved = torch.eye(3, 4)
image = torch.ones(2, 4, 4)
REFUSED = {
    "O(0)": (lambda: O(0), GroupError, r"dimension to be 1 or more \(got 0\)"),
    "SO(-1)": (lambda: SO(-1), GroupError, r"dimension to be 1 or more \(got -1\)"),
    "E(0)": (lambda: E(0), GroupError, r"dimension to be 1 or more \(got 0\)"),
    "SE(0)": (lambda: SE(0), GroupError, r"dimension to be 1 or more \(got 0\)"),
    "C(0)": (lambda: C(0), GroupError, r"number of rotations to be 1 or more \(got 0\)"),
    "D(-4)": (lambda: D(-4), GroupError, r"number of rotations to be 1 or more \(got -4\)"),
    "S haar without size": (lambda: S().haar((2,)), GroupError, r"number of items of S\(\).*\(got size=None\)"),
    "S features without size": (lambda: S().features(), GroupError, r"number of items.*\(got size=None\)"),
    "S identity of nothing": (lambda: S().identity(size=0), GroupError, r"1 or more \(got size=0\)"),
    "listing S_20": (lambda: S().elements(size=20), GroupError, r"at most 10 items.*\(got 20, which has 2.4e\+18\)"),
    "listing S": (lambda: S().elements(), GroupError, r"number of items.*\(got size=None\)"),
    "listing O(3)": (lambda: O(3).elements(), GroupError, r"a finite group \(got O\(3\), whose"),
    "listing SE(2)": (lambda: SE(2).elements(), GroupError, r"a finite group \(got SE\(2\), whose"),
    "points under S": (lambda: S().act(p, x[0], kind="point"), GroupError, r"S\(\) to act .* 'plain' \(got 'point'\)"),
    "points under O": (lambda: O(3).act(eye, x, kind="point"), GroupError, r"'axial', 'plain' \(got 'point'\)"),
    "points under C": (lambda: C(4).act(p, x, kind="point"), GroupError, r"'grid', 'plain' \(got 'point'\)"),
    "element of O(2)": (
        lambda: O(3).act(torch.eye(2), x),
        ShapeError,
        r"of O\(3\) to be \(\*batch, 3, 3\) \(got \(2, 2\)",
    ),
    "Q without t": (lambda: E(3).compose(moved, eye), ShapeError, r"of E\(3\) to be \(\*batch, 3, 4\) \(got \(3, 3\)"),
    "t without Q": (lambda: E(3).inverse(torch.ones(3)), ShapeError, r"of E\(3\) .* \(got \(3,\)\)"),
    "t": (lambda: E(3).with_translation(eye, torch.ones(2)), ShapeError, r"translation \(\*batch, 3\) \(got \(2,\)\)"),
    "Q": (lambda: E(3).with_translation(torch.eye(2), x[0]), ShapeError, r"of O\(3\) to be .* \(got \(2, 2\)\)"),
    "Q of SE": (lambda: SE(3).with_translation(torch.eye(2), x[0]), ShapeError, r"of SO\(3\) .* \(got \(2, 2\)\)"),
    "a verb": (lambda: E(3).project(eye), GroupError, r"has the verb `project` \(got E\(3\), which has not\)"),
    "no opposite": (lambda: E(3).opposite(moved), GroupError, r"has the verb `opposite` \(got E\(3\)"),
    "size under O": (lambda: O(3).act(eye, torch.ones(3, 4)), ShapeError, r"size 3 on axis 1 for O\(3\) \(got 4\)"),
    "size under S": (lambda: S().act(p, torch.ones(5, 2), 0), ShapeError, r"size 3 on axis 0 for S\(\) \(got 5\)"),
    "batch under C": (lambda: C(4).act(p, x[:, :2]), ShapeError, r"batch axes that broadcast to \(3,\) \(got \(4,\)\)"),
    "vectors under C": (lambda: C(4).act(p[0], x), ShapeError, r"size 2 on axis 1 for C\(4\) \(got 3\)"),
    "integers under O": (lambda: O(3).act(eye, x.long()), DtypeError, r"floating tensor to rotate \(got torch.int64\)"),
    "integers under D": (lambda: D(3).act(p[0], x[:, :2].long()), DtypeError, r"floating tensor to rotate"),
    "floating p": (lambda: S().act(p.float(), x), DtypeError, r"S\(\) to be an int64 index \(got torch.float32\)"),
    "boolean p": (lambda: S().inverse(p > 0), DtypeError, r"int64 index \(got torch.bool\)"),
    "composing a float": (lambda: S().compose(p, p.double()), DtypeError, r"int64 index \(got torch.float64\)"),
    "boolean turn": (lambda: C(4).compose(p > 0, p), DtypeError, r"C\(4\) to be an int64 index \(got torch.bool\)"),
    "composing weights": (
        lambda: D(2).compose(x[0], p),
        DtypeError,
        r"D\(2\) to be an int64 index \(got torch.float32\)",
    ),
    "axis in the batch": (lambda: O(3).act(eye.expand(4, 3, 3), x, 0), ShapeError, r"1 batch axes in 2 axes \(got 0\)"),
    "axis out of range": (lambda: O(3).act(eye, x, 2), ShapeError, r"0 batch axes in 2 axes \(got 2\)"),
    "axis of a number": (lambda: O(3).act(eye, torch.tensor(1.0)), ShapeError, r"in 0 axes \(got -1\)"),
    "two axes for O": (lambda: O(3).act(eye, x, (0, 1)), GroupError, r"one axis for O\(3\) \(got \(0, 1\)\)"),
    "two axes for S": (lambda: S().act(p, eye, (0, 1)), GroupError, r"one axis for S\(\) \(got \(0, 1\)\)"),
    "batch of another size": (
        lambda: E(3).act(moved.expand(2, 3, 4), x),
        ShapeError,
        r"batch axes that broadcast to \(2,\) \(got \(4,\)\)",
    ),
    "batch under a single p": (lambda: S().act(p[None], x), ShapeError, r"broadcast to \(1,\) \(got \(4,\)\)"),
    "O(3) on a grid": (
        lambda: O(3).act(torch.eye(3), image, (-2, -1), "grid"),
        GroupError,
        r"O\(3\) to act on an axis of kind 'axial', 'plain' \(got 'grid'\)",
    ),
    "D(8) on a grid": (lambda: D(8).grid_index(4, 4), GroupError, r"maps pixels to pixels \(got D\(8\)\)"),
    "rectangle under C(4)": (
        lambda: C(4).act(p[0], image[:, :3], (-2, -1), "grid"),
        ShapeError,
        r"square grid for C\(4\) \(got 3 x 4\)",
    ),
    "rectangle under D(4)": (lambda: D(4).grid_index(2, 5), ShapeError, r"square grid for D\(4\) \(got 2 x 5\)"),
    "one axis of a grid": (
        lambda: C(4).act(p[0], image, -1, "grid"),
        GroupError,
        r"pair of axes for C\(4\).*\(got -1\)",
    ),
    "columns first": (lambda: C(4).act(p[0], image, (-1, -2), "grid"), ShapeError, r"rows first \(got \(-1, -2\)\)"),
    "axes apart": (lambda: C(2).act(p[1], image, (0, 2), "grid"), ShapeError, r"next to each other.*\(got \(0, 2\)\)"),
    "too few logits": (lambda: D(4).project(torch.ones(3, 4)), ShapeError, r"\(\*batch, 8\) for D\(4\) \(got \(3, 4\)"),
    "too many weights": (lambda: C(2).act(x[0], x[:, :2]), ShapeError, r"\(\*batch, 2\) for C\(2\) \(got \(3,\)"),
    "weights to invert": (lambda: C(4).inverse(x), ShapeError, r"\(\*batch, 4\) for C\(4\) \(got \(4, 3\)"),
    "integer features": (lambda: O(3).project(eye.long()), DtypeError, r"features to be floating \(got torch.int64\)"),
    "no rank": (lambda: O(3).project(torch.zeros(2, 3, 3)), RankError, r"column 0 .* \(got 2 of 2 matrices"),
    "no rank in SE": (lambda: SE(3).linear.project(torch.ones(3, 3)), RankError, r"column 1 .*give noise to complete"),
    "noise of another size": (
        lambda: SO(3).project(eye, noise=torch.eye(2)),
        ShapeError,
        r"noise to broadcast to \(3, 3\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    call, error, message = REFUSED[name]
    assert issubclass(error, ProbsymError)
    with pytest.raises(error, match="Expected .*" + message):
        call()


UNTYPED = {
    "fractional d": lambda: O(2.5),
    "fractional m": lambda: C(2.5),
    "composing S_3 with S_2": lambda: S().compose(p, p[1:].argsort()),
    "composing S_3 with S_1": lambda: S().compose(p, torch.tensor([0])),
    "a number as an element of S": lambda: S().contains(torch.tensor(1)),
    "composing float32 with float64": lambda: O(3).compose(eye, eye.double()),
    "integer matrix": lambda: O(3).contains(eye.long()),
    "integer mask": lambda: S().haar((4,), mask=x.long()),
    "mask of another batch": lambda: S().haar((2,), mask=x > 0),
    "three axes of a grid": lambda: C(4).act(p[0], image, (0, 1, 2), "grid"),
    "centroids of another batch": lambda: E(3).haar((2,), centroid=x),
}


@pytest.mark.parametrize("name", UNTYPED)
def test_refuses_with_a_typed_error(name):
    with pytest.raises(ProbsymError, match="Expected"):
        UNTYPED[name]()


@pytest.mark.parametrize("group", [O(3), SO(3), E(3), SE(3)], ids=repr)
def test_elements_keep_their_precision_under_autocast(group):
    g, h = (group.haar((5,), generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = group.compose(g, h)
        inside = group.contains(g)
    assert product.dtype == torch.float32
    torch.testing.assert_close(product, group.compose(g, h))
    assert inside.all()


def test_elements_that_pass_no_gradient_to_a_net_warn() -> None:
    class Unrelaxed(S):
        choose = groups.Group.choose

    features = torch.rand(2, 3, requires_grad=True)
    with pytest.warns(UserWarning, match=r"Unrelaxed\(\) to have the verb `choose`.*net's scores .*torch.int64"):
        g, carrier = Unrelaxed().choose(features)
    assert g is carrier
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Unrelaxed().choose(features.detach())
        with torch.no_grad():
            Unrelaxed().choose(features)
        torch.compile(lambda z: Unrelaxed().choose(z)[0], backend="eager", fullgraph=True)(features)
