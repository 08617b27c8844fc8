import pytest
import torch

from probsym.groups import D
from tests.groups.uniformity import NEVER, seeded, uniform


def power(group, g, times):
    product = group.identity()
    for _ in range(times):
        product = group.compose(product, g)
    return product


@pytest.mark.parametrize("m", [1, 2, 3, 4, 12])
def test_the_presentation(m):
    """r^m = f^2 = 1, f r f = inverse(r), and every element is r^k f^e, numbered k + m e."""
    group = D(m)
    r, f = torch.tensor(1 % m), torch.tensor(m)
    assert power(group, r, m) == 0
    assert power(group, f, 2) == 0
    assert group.compose(f, group.compose(r, f)) == group.inverse(r)
    for k in range(m):
        assert power(group, r, k) == k
        assert group.compose(power(group, r, k), f) == k + m


@pytest.mark.parametrize("m", [1, 2, 3, 4, 12])
def test_reflections_undo_themselves(m):
    g = D(m).elements()[m:]
    assert torch.equal(D(m).inverse(g), g)
    assert not D(m).compose(g, g).any()


@pytest.mark.parametrize("side", [1, 2, 4, 5])
def test_quarter_turns_and_flips_of_an_image(side):
    x = torch.arange(2 * side * side).view(2, side, side)
    for k in range(4):
        turned, flipped = (D(4).act(torch.tensor([g, g]), x, (1, 2), "grid") for g in (k, k + 4))
        assert torch.equal(turned, torch.rot90(x, k, (1, 2)))
        assert torch.equal(flipped, torch.rot90(x.flip(1), k, (1, 2)))


@pytest.mark.parametrize(("height", "width"), [(1, 4), (2, 5), (5, 3), (4, 4)])
def test_flips_of_a_rectangle(height, width):
    x = torch.arange(height * width).view(height, width)
    moved = D(2).act(D(2).elements(), x.expand(4, -1, -1), (1, 2), "grid")
    for flipped, wanted in zip(moved, [x, x.flip(0, 1), x.flip(0), x.flip(1)], strict=True):
        assert torch.equal(flipped, wanted)
    assert torch.equal(D(1).act(torch.tensor(1), x, (0, 1), "grid"), x.flip(0))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_haar_is_uniform(m):
    group = D(m)
    elements, g = group.elements().unsqueeze(-1), group.haar((12000,), generator=seeded())
    assert uniform(g.unsqueeze(-1), elements) > NEVER
    for fixed in (torch.tensor(2 * m - 1), torch.tensor(m)):
        assert uniform(group.compose(fixed, g).unsqueeze(-1), elements) > NEVER
        assert uniform(group.compose(g, fixed).unsqueeze(-1), elements) > NEVER


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_chi_square_has_teeth(m):
    group = D(m)
    leaning = group.features((12000,), generator=seeded())
    leaning[:, m:] += 0.05
    assert uniform(group.project(leaning).unsqueeze(-1), group.elements().unsqueeze(-1)) < NEVER
