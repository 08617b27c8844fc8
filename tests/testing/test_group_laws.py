from dataclasses import fields

import pytest
import torch

from probsym.groups import SE, SO, C, D, E, O, S
from probsym.ops import Order, gram_schmidt, take
from probsym.testing import assert_group_laws


def broken(group, **verbs):
    """The same group with some of its verbs replaced."""
    replaced = type(f"Broken{type(group).__name__}", (type(group),), verbs)
    return replaced(*(getattr(group, field.name) for field in fields(group)))


def act_as(group, change):
    """`group`, but every action goes through `change(group, g, x, axis, kind)`."""

    def act(self, g, x, axis=-1, kind="plain"):
        return change(group, g, x, axis, kind)

    return broken(group, act=act)


def drawn_by(group, **verbs):
    """`group` with broken verbs, whose Haar samples are those of the sound one."""
    return broken(group, haar=lambda self, batch=(), **options: group.haar(batch, **options), **verbs)


def tilted(features):
    return gram_schmidt(features + torch.eye(3, dtype=features.dtype))


def on_first(group, g, x, axis, kind):
    shared = x.shape[0] == 1
    return group.act(g[:1].expand(g.shape) if shared else g, x, axis, kind)


def translated_first(group, g, x, axis, kind):
    q, t = group.linear_part(g), group.translation(g)
    turn = group.with_translation(q, torch.zeros_like(t))
    shift = group.with_translation(torch.eye(group.d, dtype=g.dtype).expand(q.shape), t)
    return group.act(turn, group.act(shift, x, axis, kind), axis, kind)


MASK = torch.tensor([True, False, True, False, True, True])

# (a group with one broken verb, arguments, the law that it breaks first)
MUTANTS = {
    "compose O in the wrong order": (
        broken(O(3), compose=lambda self, g, h: h @ g),
        {},
        "matrix(gh) = matrix(g) matrix(h)",
    ),
    "compose S in the wrong order": (
        broken(S(), compose=lambda self, g, h: h.gather(-1, g)),
        {"size": 6},
        "matrix(gh) = matrix(g) matrix(h)",
    ),
    "compose D without turning back": (
        broken(D(5), compose=lambda self, g, h: (g + h) % 5 + 5 * ((g // 5 + h // 5) % 2)),
        {},
        "g inverse(g) = 1",
    ),
    "compose E without turning the translation": (
        broken(E(3), compose=lambda self, g, h: self.with_translation(g[..., :3] @ h[..., :3], g[..., 3] + h[..., 3])),
        {},
        "g inverse(g) = 1",
    ),
    "compose C without the remainder": (broken(C(5), compose=lambda self, g, h: g + h), {}, "gh is an element"),
    "compose C by subtraction": (
        broken(C(5), compose=lambda self, g, h: (g - h) % 5),
        {},
        "(gh)k = g(hk)",
    ),
    "compose forgets the second": (broken(SO(3), compose=lambda self, g, h: g.clone()), {}, "1g = g"),
    "compose forgets the first": (broken(SO(3), compose=lambda self, g, h: h.clone()), {}, "g1 = g"),
    "the inverse is the identity": (
        broken(O(3), inverse=lambda self, g: self.identity(g.shape[:-2], dtype=g.dtype)),
        {},
        "g inverse(g) = 1",
    ),
    "the inverse of S is p itself": (broken(S(), inverse=lambda self, g: g), {"size": 6}, "g inverse(g) = 1"),
    "the inverse keeps the translation unturned": (
        broken(SE(3), inverse=lambda self, g: self.with_translation(g[..., :3].mT, -g[..., 3])),
        {},
        "g inverse(g) = 1",
    ),
    "the inverse stretches": (broken(O(3), inverse=lambda self, g: 2 * g.mT), {}, "the inverse is an element"),
    "the inverse of a reflection turns": (
        broken(D(5), inverse=lambda self, g: (-g) % 5 + 5 * (g // 5)),
        {},
        "g inverse(g) = 1",
    ),
    "the identity is zero": (
        broken(O(3), identity=lambda self, batch=(), dtype=None, **_: torch.zeros(*batch, 3, 3, dtype=dtype)),
        {},
        "the identity is an element",
    ),
    "the identity turns": (
        broken(C(5), identity=lambda self, batch=(), **_: torch.ones(batch, dtype=torch.long)),
        {},
        "1g = g",
    ),
    "haar leaves the group": (
        broken(O(3), haar=lambda self, batch=(), **options: 1.001 * O(3).haar(batch, **options)),
        {},
        "haar samples are elements",
    ),
    "haar of SO reflects": (
        broken(SO(3), haar=lambda self, batch=(), **options: -SO(3).haar(batch, **options)),
        {},
        "haar samples are elements",
    ),
    "contains says no": (
        broken(S(), contains=lambda self, g, mask=None: torch.zeros(g.shape[:-1], dtype=torch.bool)),
        {"size": 6},
        "haar samples are elements",
    ),
    "contains knows no reflections": (
        broken(O(3), contains=lambda self, g: torch.linalg.det(g) > 0),
        {"batch": (50,)},
        "haar samples are elements",
    ),
    "the matrix of O is transposed": (
        broken(O(3), matrix=lambda self, g, dtype=None: g.mT),
        {},
        "matrix(gh) = matrix(g) matrix(h)",
    ),
    "the matrix of S is transposed": (
        broken(S(), matrix=lambda self, g, dtype=None: S().matrix(g, dtype=dtype).mT),
        {"size": 6},
        "matrix(gh) = matrix(g) matrix(h)",
    ),
    "the matrix of C turns back": (
        broken(
            C(5),
            matrix=lambda self, g, dtype=None: C(5).matrix(g, dtype=dtype).mT,
            act=lambda self, *arguments: C(5).act(*arguments),
        ),
        {},
        "gx = matrix(g) x on axial",
    ),
    "act S without the inverse": (
        act_as(S(), lambda group, g, x, axis, kind: take(x, g, axis)),
        {"size": 6},
        "(gh)x = g(hx) on plain",
    ),
    "act O by the transpose": (
        act_as(O(3), lambda group, g, x, axis, kind: group.act(g.mT, x, axis, kind)),
        {},
        "(gh)x = g(hx) on axial",
    ),
    "act D on grids by the inverse": (
        act_as(
            D(4), lambda group, g, x, axis, kind: group.act(group.inverse(g) if kind == "grid" else g, x, axis, kind)
        ),
        {"size": 4, "batch": (30,)},
        "(gh)x = g(hx) on grid",
    ),
    "act E without the translation": (
        act_as(E(3), lambda group, g, x, axis, kind: group.act(g, x, axis, "plain" if kind == "point" else kind)),
        {},
        "gx = matrix(g) x on point",
    ),
    "act E with the translation on vectors": (
        act_as(E(3), lambda group, g, x, axis, kind: group.act(g, x, axis, "point" if kind == "plain" else kind)),
        {},
        "gx = matrix(g) x on plain",
    ),
    "act E with the translation first": (act_as(E(3), translated_first), {}, "(gh)x = g(hx) on point"),
    "axial without the sign": (
        act_as(O(3), lambda group, g, x, axis, kind: group.act(g, x, axis)),
        {},
        "gx = matrix(g) x on axial",
    ),
    "plain with the sign": (
        act_as(D(5), lambda group, g, x, axis, kind: group.act(g, x, axis, "axial")),
        {},
        "gx = matrix(g) x on plain",
    ),
    "act turns once more": (
        act_as(C(5), lambda group, g, x, axis, kind: group.act(group.compose(g, torch.tensor(1)), x, axis, kind)),
        {},
        "1x = x on axial",
    ),
    "act is not linear": (
        act_as(O(3), lambda group, g, x, axis, kind: group.act(g, x.sinh(), axis, kind).asinh()),
        {},
        "g(x/2 + y/2) = gx/2 + gy/2 on axial",
    ),
    "act on a shared x by one element": (act_as(O(3), on_first), {}, "a shared x is moved like copies on axial"),
    "project gives features": (
        drawn_by(O(3), project=lambda self, z, noise=None: z),
        {},
        "project gives elements",
    ),
    "project ignores the features": (
        drawn_by(O(3), project=lambda self, z, noise=None: self.identity(z.shape[:-2], dtype=z.dtype)),
        {},
        "project(gz) = g project(z)",
    ),
    "project orthonormalises rows": (
        drawn_by(O(3), project=lambda self, z, noise=None: gram_schmidt(z.mT, noise).mT),
        {},
        "project(gz) = g project(z)",
    ),
    "project S gives ranks": (
        drawn_by(S(), project=lambda self, z, noise=None, mask=None: S().inverse(S().project(z, noise=noise))),
        {"size": 6},
        "choose names what project does",
    ),
    "project S breaks ties by place": (
        drawn_by(S(), project=lambda self, z, noise=None, mask=None: S().project(z, mask=mask)),
        {"size": 6},
        "project(gz) = g project(z) on degenerate features",
    ),
    "project D breaks ties by number": (
        drawn_by(D(5), project=lambda self, z, noise=None: D(5).project(z)),
        {},
        "project(gz) = g project(z) on degenerate features",
    ),
    "project O completes with axes": (
        drawn_by(O(3), project=lambda self, z, noise=None: gram_schmidt(z, torch.eye(3, dtype=z.dtype))),
        {},
        "project(gz) = g project(z) on degenerate features",
    ),
    "features do not move": (broken(O(3), move=lambda self, g, z: z), {}, "project(gz) = g project(z)"),
    "logits move backwards": (
        broken(C(5), move=lambda self, g, z: C(5).move(C(5).inverse(g), z)),
        {},
        "project(gz) = g project(z)",
    ),
    "haar forgets the mask": (
        broken(S(), haar=lambda self, batch=(), size=6, mask=None, **o: S().haar(batch, size=6, **o)),
        {"size": 6, "mask": MASK},
        "masked haar puts real items first",
    ),
    "project forgets the mask": (
        drawn_by(S(), project=lambda self, z, noise=None, mask=None: S().project(z, noise=noise)),
        {"size": 6, "mask": MASK},
        "masked project puts real items first",
    ),
    "choose gives the inverse to act": (
        broken(O(3), choose=lambda self, z, noise=None, **_: (O(3).project(z, noise=noise), O(3).project(z).mT)),
        {},
        "what choose gives acts as its element on axial",
    ),
    "the weights of choose are those of the inverse": (
        broken(
            C(5),
            straight_through=lambda self, z, **options: C(5).straight_through(z, **options)[
                ..., C(5).inverse(torch.arange(5))
            ],
        ),
        {},
        "what choose gives acts as its element on axial",
    ),
    "an order in place of S is inverted": (
        broken(S(), carrier=lambda self, g, mask=None: Order(self.inverse(g), mask)),
        {"size": 6},
        "what carrier gives acts as its element on plain",
    ),
    "haar of O prefers a side": (
        broken(O(3), haar=lambda self, batch=(), **options: tilted(O(3).features(batch, **options))),
        {},
        "haar samples are uniform",
    ),
    "haar of O does not reflect": (
        broken(O(3), haar=lambda self, batch=(), **options: SO(3).haar(batch, **options)),
        {},
        "haar samples are uniform",
    ),
    "haar of D does not reflect": (
        broken(D(5), haar=lambda self, batch=(), **options: C(5).haar(batch, **options)),
        {},
        "haar samples are uniform",
    ),
    "features of O prefer a side": (
        drawn_by(O(3), features=lambda self, batch=(), **options: tilted(O(3).features(batch, **options))),
        {},
        "projected features are uniform",
    ),
    "features of O are positive": (drawn_by(O(3), compares_features=True), {}, "projected features are uniform"),
    "from_uniform spreads angles unevenly": (
        broken(O(3), from_uniform=lambda self, u, dtype, noise=None, mask=None: gram_schmidt(u.to(dtype), noise)),
        {},
        "from_uniform gives uniform elements",
    ),
    "from_uniform leaves the group": (
        broken(C(5), from_uniform=lambda self, u, dtype, noise=None, mask=None: (u * 6).long()),
        {},
        "from_uniform gives elements",
    ),
    "renaming by the inverse": (
        broken(S(), renaming=lambda self, g: self.inverse(g)),
        {"size": 6},
        "act(g, x)[renaming(g)] = x",
    ),
    "project keeps places where masked": (
        drawn_by(
            S(),
            project=lambda self, z, noise=None, mask=None: S().project(
                z if mask is None else 0 * z, mask=mask, noise=noise if mask is None else None
            ),
        ),
        {"size": 6, "mask": MASK},
        "masked project(gz) = g project(z)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_names_the_law_that_is_broken(name):
    group, arguments, law = MUTANTS[name]
    with pytest.raises(AssertionError) as caught:
        assert_group_laws(group, **arguments)
    assert str(caught.value).startswith(f"{group!r} breaks '{law}': ")


def test_says_how_large_the_error_is():
    group = broken(O(3), inverse=lambda self, g: O(3).haar(g.shape[:-2], dtype=g.dtype))
    with pytest.raises(
        AssertionError, match=r"^BrokenO\(3\) breaks 'g inverse\(g\) = 1': error \d.\de[+-]\d\d above 1e-09$"
    ):
        assert_group_laws(group)
    with pytest.raises(AssertionError, match=r"'haar samples are elements': in 4 of 4 cases"):
        assert_group_laws(broken(O(3), contains=lambda self, g: torch.zeros(g.shape[:-2], dtype=torch.bool)))


def test_says_that_shapes_differ():
    flat = act_as(O(3), lambda group, g, x, axis, kind: group.act(g, x, axis, kind).flatten(-2))
    with pytest.raises(AssertionError, match=r"'1x = x on axial': shapes \(4, 3, 6\) and \(4, 3, 3, 2\)"):
        assert_group_laws(flat)


def test_names_a_law_broken_in_one_case_only():
    def one_wrong(self, g):
        inverse = g.mT.clone()
        inverse[0] = -inverse[0]
        return inverse

    with pytest.raises(AssertionError, match=r"g inverse\(g\) = 1"):
        assert_group_laws(broken(O(3), inverse=one_wrong), batch=(20,))


def blurred(scale):
    return act_as(O(3), lambda group, g, x, axis, kind: group.act(g, x, axis, kind) * (1 + scale))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_default_tolerance_depends_on_the_dtype(dtype):
    least = 1e-4 if dtype == torch.float32 else 1e-9
    assert_group_laws(blurred(0.1 * least), dtype=dtype)
    with pytest.raises(AssertionError, match="1x = x on axial"):
        assert_group_laws(blurred(100 * least), dtype=dtype)


def test_a_tolerance_can_be_given():
    assert_group_laws(blurred(1e-6), tolerance=1e-4)
    with pytest.raises(AssertionError, match="above 1e-12"):
        assert_group_laws(blurred(1e-10), tolerance=1e-12)


def test_a_tolerance_of_zero_is_a_tolerance():
    with pytest.raises(AssertionError, match="above 0e"):
        assert_group_laws(O(3), tolerance=0.0)


def test_not_a_number_is_no_agreement():
    with pytest.raises(AssertionError, match="1x = x"):
        assert_group_laws(act_as(O(3), lambda group, g, x, axis, kind: torch.full_like(x, torch.nan)))


def test_the_generator_is_used_and_the_global_state_spared():
    generator = torch.Generator().manual_seed(0)
    before, own = torch.get_rng_state(), generator.get_state()
    assert_group_laws(S(), size=5, generator=generator, mask=torch.tensor([True, False, True, True, False]))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(generator.get_state(), own)


def test_the_same_verdict_every_time():
    messages = set()
    for _ in range(3):
        with pytest.raises(AssertionError) as caught:
            assert_group_laws(act_as(O(3), lambda group, g, x, axis, kind: group.act(g.mT, x, axis, kind)))
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_images_must_turn_the_way_that_the_matrix_says():
    clockwise = act_as(
        C(4), lambda group, g, x, axis, kind: group.act(group.inverse(g) if kind == "grid" else g, x, axis, kind)
    )
    with pytest.raises(AssertionError, match="matrix"):
        assert_group_laws(clockwise, size=4)


def test_a_mask_without_real_items():
    assert_group_laws(S(), size=3, mask=torch.zeros(3, dtype=torch.bool))


def test_elements_of_different_batches_need_not_compose():
    def compose(self, g, h):
        assert g.shape == h.shape
        return S().compose(g, h)

    for batch in [(), (4,), (2, 3)]:
        assert_group_laws(broken(S(), compose=compose), size=4, batch=batch)
