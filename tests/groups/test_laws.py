import pytest
import torch

from probsym import groups
from probsym.testing import assert_group_laws

DTYPES = [torch.float32, torch.float64]
BATCHES = [((), torch.float32), ((2, 3), torch.float64)]
SIZES = {
    "S": [1, 2, 3, 8, 17],
    "O": [1, 2, 3, 5, 8],
    "SO": [1, 2, 3, 5, 8],
    "E": [1, 2, 3, 5, 8],
    "SE": [1, 2, 3, 5, 8],
    "C": [1, 2, 3, 4, 5, 12],
    "D": [1, 2, 3, 4, 5, 12],
    "Signs": [1, 4, 9],
    "Shift": [1, 2, 5],
    "Tetrahedral": [None],
    "Octahedral": [None],
    "Icosahedral": [None],
}
GRIDS = {1: [1, 4, 5], 2: [1, 4, 5], 4: [1, 4, 5]}


def cases():
    for name, sizes in SIZES.items():
        for size in sizes:
            if name in ("S", "Signs", "Shift") or size is None:
                yield pytest.param(groups.GROUPS[name](), size, id=f"{name}-{size}" if size else name)
                continue
            group = groups.GROUPS[name](size)
            yield pytest.param(group, None, id=repr(group))
            if name in "CD":
                for side in GRIDS.get(size, []):
                    yield pytest.param(group, side, id=f"{group!r}-grid-{side}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("side", [32, 33])
@pytest.mark.parametrize("group", [groups.SO(2), groups.O(2), groups.C(5), groups.D(3), groups.C(8)], ids=repr)
def test_laws_of_smooth_images(group, side, dtype):
    assert_group_laws(group, size=side, dtype=dtype)


def test_every_registered_group_is_tested():
    assert set(SIZES) == set(groups.GROUPS)


@pytest.mark.parametrize(("batch", "dtype"), BATCHES, ids=str)
@pytest.mark.parametrize(("group", "size"), list(cases()))
def test_laws(group, size, batch, dtype):
    assert_group_laws(group, size=size, batch=batch, dtype=dtype)


MASKS = {
    "holes": torch.tensor([True, False, True, True, False, True]),
    "one real": torch.tensor([False, False, False, True]),
    "none padded": torch.ones(5, dtype=torch.bool),
    "sizes differ": torch.tensor(
        [
            [True, True, True, True, True],
            [False, True, False, True, False],
            [False, False, False, False, False],
            [True, False, True, False, True],
        ]
    ),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_masked_laws(name, dtype):
    mask = MASKS[name]
    for batch in [mask.shape[:-1], (4,), (3, 4)]:
        assert_group_laws(groups.S(), size=mask.shape[-1], batch=batch, dtype=dtype, mask=mask)


def normal(*shape, dtype, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def degenerate(name, dtype):
    """Features (3, 4, 4) that name many elements, or nearly so."""
    z = normal(3, 4, 4, dtype=dtype)
    nearly = 1e-12 if dtype == torch.float64 else 1e-5
    match name:
        case "zero":
            z.zero_()
        case "repeated columns":
            z[..., 2] = z[..., 0]
        case "zero first column":
            z[..., 0] = 0
        case "rank one":
            z = z[..., :1] * z[..., :1, :]
        case "nearly dependent":
            z[..., 1] = z[..., 0] + nearly * z[..., 1]
        case "nearly rank one":
            z = z[..., :1] * z[..., :1, :] + nearly * normal(3, 4, 4, dtype=dtype, seed=9)
        case "one of the batch":
            z[1] = 0
    return z


DEGENERATE = [
    "zero",
    "repeated columns",
    "zero first column",
    "rank one",
    "nearly dependent",
    "nearly rank one",
    "one of the batch",
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("group", [groups.O(4), groups.SO(4)], ids=repr)
def test_projection_of_degenerate_features_follows_the_group(group, name, dtype):
    z, noise = degenerate(name, dtype), normal(3, 4, 4, dtype=dtype, seed=1)
    g = group.haar((3,), dtype=dtype, generator=torch.Generator().manual_seed(2))
    plain = group.project(z, noise=noise)
    moved = group.project(g @ z, noise=g @ noise)
    assert group.contains(plain).all()
    torch.testing.assert_close(moved, g @ plain, rtol=0, atol=1e-12 if dtype == torch.float64 else 1e-4)
