import pytest
import torch

from probsym.groups import C
from tests.groups.uniformity import NEVER, seeded, uniform


@pytest.mark.parametrize("m", [1, 2, 3, 4, 12])
def test_elements_add_as_turns(m):
    for g in range(m):
        assert C(m).inverse(torch.tensor(g)).item() == (m - g) % m
        for h in range(m):
            assert C(m).compose(torch.tensor(g), torch.tensor(h)).item() == (g + h) % m


@pytest.mark.parametrize("side", [1, 2, 4, 5])
def test_quarter_turns_of_an_image(side):
    x = torch.arange(2 * side * side).view(2, side, side)
    for k in range(4):
        assert torch.equal(C(4).act(torch.tensor(k).expand(2), x, (1, 2), "grid"), torch.rot90(x, k, (1, 2)))


@pytest.mark.parametrize(("height", "width"), [(1, 4), (2, 5), (5, 3), (4, 4)])
def test_half_turns_of_a_rectangle(height, width):
    x = torch.arange(height * width).view(height, width)
    assert torch.equal(C(2).act(torch.tensor(1), x, (0, 1), "grid"), x.flip(0, 1))
    assert torch.equal(C(1).act(torch.tensor(0), x, (0, 1), "grid"), x)


def test_images_and_vectors_turn_the_same_way():
    east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    image = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    assert torch.equal(C(4).act(torch.tensor(1), east), north)
    assert C(4).act(torch.tensor(1), image, (0, 1), "grid").tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("m", [2, 3, 4, 12])
def test_haar_is_uniform(m):
    group = C(m)
    elements, g = group.elements().unsqueeze(-1), group.haar((12000,), generator=seeded())
    assert uniform(g.unsqueeze(-1), elements) > NEVER
    assert uniform(group.compose(torch.tensor(1), g).unsqueeze(-1), elements) > NEVER


@pytest.mark.parametrize("m", [2, 3, 4, 12])
def test_the_chi_square_has_teeth(m):
    group = C(m)
    leaning = group.features((12000,), generator=seeded())
    leaning[:, 0] += 0.05
    assert uniform(group.project(leaning).unsqueeze(-1), group.elements().unsqueeze(-1)) < NEVER


def test_tied_logits_are_drawn_uniformly():
    noise = C(5).features((12000,), generator=seeded())
    g = C(5).project(torch.zeros(12000, 5), noise=noise)
    assert uniform(g.unsqueeze(-1), C(5).elements().unsqueeze(-1)) > NEVER
