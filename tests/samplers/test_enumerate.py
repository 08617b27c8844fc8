"""Every element once: against sums over permutation and rotation matrices, written out with loops."""

import itertools
import math

import numpy as np
import pytest
import torch

from probsym import Symmetrized, bases, errors, groups, samplers

DTYPES = [torch.float64, torch.float32]
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
FLIP = np.diag([1.0, -1.0])
MASKS = {
    "none": None,
    "mixed": [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]],
    "holes": [[0, 1, 0, 1], [1, 0, 1, 1], [0, 0, 1, 0]],
    "all padding": [[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]],
}


def exact(dtype):
    return {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 1e-5}


def mlp(inputs, shape, dtype, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        widths = [inputs, 12, int(np.prod(shape, dtype=int))]
        return bases.MLP(widths, activation="tanh", shape=shape).to(dtype)


def orders(n, mask):
    """For one item, a matrix for each order of its real places: column j holds a one where item j comes from."""
    real = range(n) if mask is None else [i for i in range(n) if mask[i]]
    for order in itertools.permutations(real):
        matrix = np.zeros((n, n))
        for position, place in enumerate(order):
            matrix[place, position] = 1
        yield matrix


def planar(group):
    """For each element a matrix, and the same on images: what undoes it and what does it."""
    for flip in (False, True) if isinstance(group, groups.D) else (False,):
        for k in range(group.m):
            yield (
                np.linalg.matrix_power(TURN, 4 * k // group.m) @ (FLIP if flip else np.eye(2)),
                lambda x, k=k, flip=flip: np.flip(np.rot90(x, -k), 0) if flip else np.rot90(x, -k),
                lambda x, k=k, flip=flip: np.rot90(np.flip(x, 0) if flip else x, k),
            )


def call(base, *arrays):
    first = next(base.parameters())
    output = base(*(torch.tensor(np.ascontiguousarray(array), dtype=first.dtype)[None] for array in arrays))
    return output[0].detach().double().numpy()


def close(actual, wanted, dtype):
    torch.testing.assert_close(actual.double(), torch.tensor(np.array(wanted)), **exact(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masking", MASKS)
@pytest.mark.parametrize("output", ["k", "n c", "n n"])
def test_symmetric_group_is_the_sum_over_permutation_matrices(output, masking, dtype):
    generator = torch.Generator().manual_seed(0)
    x, a = (torch.randn(3, 4, c, generator=generator, dtype=dtype) for c in (2, 4))
    mask = None if MASKS[masking] is None else torch.tensor(MASKS[masking], dtype=torch.bool)
    base = mlp(24, {"k": (3,), "n c": (4, 2), "n n": (4, 4)}[output], dtype)
    wanted = []
    for b in range(3):
        real = np.ones(4) if mask is None else mask[b].double().numpy()
        xs, links = x[b].double().numpy() * real[:, None], a[b].double().numpy() * np.outer(real, real)
        values = []
        for p in orders(4, None if mask is None else mask[b].tolist()):
            y = call(base, p.T @ xs, p.T @ links @ p)
            values.append({"k": lambda: y, "n c": lambda: p @ y, "n n": lambda: p @ y @ p.T}[output]())  # noqa: B023
        wanted.append(np.mean(values, 0))
    if mask is not None:  # whatever the padding holds
        x[~mask] = torch.nan
        a[~mask], a.mT[~mask] = 1e6, torch.inf
    model = Symmetrized(base, f"n c, n n -> {output}", {"n": groups.S()}, samplers.Enumerate())
    close(model(x, a, mask=mask).detach(), wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", ["k", "d", "d:axial", "d d"])
@pytest.mark.parametrize("group", [groups.C(4), groups.D(4), groups.C(2), groups.D(1)], ids=repr)
def test_planar_groups_are_the_sum_over_rotation_matrices(group, output, dtype):
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(1), dtype=dtype)
    base = mlp(10, {"k": (3,), "d": (2,), "d:axial": (2,), "d d": (2, 2)}[output], dtype)
    back = {
        "k": lambda q, y: y,
        "d": lambda q, y: q @ y,
        "d:axial": lambda q, y: np.linalg.det(q) * q @ y,
        "d d": lambda q, y: q @ y @ q.T,
    }[output]
    wanted = [
        np.mean([back(q, call(base, points @ q)) for q, _, _ in planar(group)], 0) for points in x.double().numpy()
    ]
    model = Symmetrized(base, f"m d -> {output}", {"d": group}, samplers.Enumerate())
    estimate = model.estimate(x)
    assert estimate.samples == group.order
    close(estimate.mean.detach(), wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", [3, 4])
@pytest.mark.parametrize("output", ["k", "(h w) c"])
@pytest.mark.parametrize("group", [groups.C(4), groups.D(4)], ids=repr)
def test_planar_groups_on_images_are_the_sum_over_turned_images(group, output, side, dtype):
    x = torch.randn(2, side, side, 2, generator=torch.Generator().manual_seed(2), dtype=dtype)
    base = mlp(2 * side**2, (3,) if output == "k" else (side, side, 2), dtype)
    wanted = []
    for image in x.double().numpy():
        values = [(do, call(base, undo(image))) for _, undo, do in planar(group)]
        wanted.append(np.mean([y if output == "k" else do(y) for do, y in values], 0))
    model = Symmetrized(base, f"(h w) c -> {output}", {"h w": group}, samplers.Enumerate())
    close(model(x).detach(), wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masking", ["none", "holes"])
@pytest.mark.parametrize("keys", [("n", "d"), ("d", "n")])
def test_product_is_the_sum_over_both(keys, masking, dtype):
    bound = {"n": groups.S(), "d": groups.C(4)}
    x = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(3), dtype=dtype)
    mask = None if MASKS[masking] is None else torch.tensor(MASKS[masking], dtype=torch.bool)
    base = mlp(8, (4, 2), dtype)
    wanted = []
    for b in range(3):
        xs = x[b].double().numpy() * (1 if mask is None else mask[b].double().numpy()[:, None])
        pairs = itertools.product(orders(4, None if mask is None else mask[b].tolist()), planar(bound["d"]))
        wanted.append(np.mean([p @ call(base, p.T @ xs @ q) @ q.T for p, (q, _, _) in pairs], 0))
    model = Symmetrized(base, "n d -> n d", {key: bound[key] for key in keys}, samplers.Enumerate())
    estimate = model.estimate(x, mask=mask)
    close(estimate.mean.detach(), wanted, dtype)
    assert not estimate.stderr.any()
    seen = {(*n.tolist(), int(d)) for n, d in zip(*(estimate.elements[key][0] for key in "nd"), strict=True)}
    assert len(seen) == {"none": 96, "holes": 8}[masking]


def test_smaller_items_have_each_of_their_orders_equally_often():
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]], dtype=torch.bool)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.Enumerate())
    listed = model.estimate(torch.randn(3, 4, 1), mask=mask).elements["n"]
    for permutations, real in zip(listed, mask, strict=True):
        assert groups.S().contains(permutations, mask=real).all()
        distinct, counts = permutations.unique(dim=0, return_counts=True)
        assert len(distinct) == math.factorial(int(real.sum()))
        assert counts.unique().numel() == 1


def test_chunks_give_the_same():
    x = torch.randn(2, 4, 2, dtype=torch.float64)
    base, seen = mlp(8, (4, 2), torch.float64), []
    base.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    model = Symmetrized(base, "n d -> n d", {"n": groups.S(), "d": groups.C(4)}, samplers.Enumerate()).eval()
    whole, parts = model.estimate(x), model.estimate(x, chunk=7)
    assert max(seen[1:]) == 14
    torch.testing.assert_close(whole.mean, parts.mean, **exact(torch.float64))


@pytest.mark.parametrize("group", [groups.O(3), groups.SO(2), groups.E(3), groups.SE(2)], ids=repr)
def test_refuses_groups_that_are_not_finite(group):
    with pytest.raises(errors.GroupError, match=r"Expected a finite group \(got .*\(\d\), whose"):
        Symmetrized(lambda x: x, "m d -> m d", {"d": group}, samplers.Enumerate())


@pytest.mark.parametrize(
    ("bound", "limit", "real", "fine"),
    [
        ({"n": groups.S()}, 23, 4, False),
        ({"n": groups.S()}, 24, 4, True),
        ({"n": groups.S()}, 6, 3, True),
        ({"n": groups.S(), "d": groups.C(4)}, 96, 4, True),
        ({"n": groups.S(), "d": groups.C(4)}, 95, 4, False),
        ({"n": groups.S(), "d": groups.C(4)}, 24, 4, False),
        ({"d": groups.D(4)}, 7, 4, False),
    ],
)
def test_limit_counts_every_element(bound, limit, real, fine):
    def run():
        model = Symmetrized(lambda x: x[:, 0, 0], "n d -> ", bound, samplers.Enumerate(limit=limit))
        mask = torch.arange(4).expand(2, 4) < real
        return model(torch.ones(2, 4, 2), mask=mask if "n" in bound else None)

    if fine:
        run()
        return
    with pytest.raises(errors.GroupError, match=rf"Expected at most {limit} elements to list \(got \d+"):
        run()


def test_refuses_eleven_items_whatever_the_limit():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.Enumerate(limit=10**9))
    with pytest.raises(errors.GroupError, match=r"Expected at most 10 items to list all permutations \(got 11"):
        model(torch.ones(1, 11, 1))


def test_refuses_samples():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.Enumerate())
    with pytest.raises(errors.RangeError, match=r"Expected no samples for Enumerate, which lists .* \(got 3\)"):
        model(torch.ones(1, 3, 1), samples=3)


@pytest.mark.parametrize("masked", [False, True])
def test_empty_batch(masked):
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.Enumerate())
    assert model(torch.ones(0, 3, 2), mask=torch.ones(0, 3, dtype=torch.bool) if masked else None).shape == (0, 2)
