import copy
import inspect
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from probsym import bases, groups, nets, samplers
from probsym._internal.remembers_arguments import RemembersArguments
from probsym.bases import BASES
from probsym.nets import NETS
from probsym.samplers import SAMPLERS


class Scale(RemembersArguments, nn.Module):
    def __init__(self, factor: float, net: nn.Module | None = None, *, shift: float = 0.0) -> None:
        super().__init__()
        self.factor, self.net, self.shift = factor, net, shift


class Wider(Scale):
    def __init__(self, size: int) -> None:
        super().__init__(float(size))


TINY = {"family": "vit", "width": 8, "layers": 1, "heads": 2, "feed_forward": 8}
MADE: dict[str, Any] = {
    "MLP": lambda: bases.MLP([4, 3, 2], "tanh", shape=(2, 1), dropout=0.1),
    "SequenceTransformer": lambda: bases.SequenceTransformer("n 2 -> 3", 4, width=8, layers=1, heads=2),
    "GNN": lambda: bases.GNN("n 2, n n -> n 3", 8, layers=1),
    "GCN": lambda: bases.GCN("n 2, n n -> 3", 8, layers=1, output_activation="tanh"),
    "GINID": lambda: bases.GINID("n 2, n n -> 3", 4, 8, identifiers=False),
    "PatchTransformer": lambda: bases.PatchTransformer("n n -> 3", 6, TINY, 2, patch_dropout=(0.1, 0.2)),
    "EGNN": lambda: bases.EGNN(2, 8, layers=1),
    "GIN": lambda: nets.GIN(2, 8, layers=1),
    "DeepSets": lambda: nets.DeepSets(2, inputs=2),
    "VNDGCNN": lambda: nets.VNDGCNN(2, 12, d=2),
    "Lifted": lambda: nets.Lifted(bases.MLP([4, 1]), groups.C(4), axis=(-2, -1), kind="grid", rank=2),
    "Haar": samplers.Haar,
    "Enumerate": lambda: samplers.Enumerate(7),
    "Frame": lambda: samplers.Frame("pca", (0,), limit=9, weighted=True),
    "Canonical": lambda: samplers.Canonical(nets.GIN(2, 8), [0, 1], tau=0.5),
    "Learned": lambda: samplers.Learned(nets.GIN(2, 8), 0.5, reads=[0, 1], fixed_noise=True, seed=3),
    "Energy": lambda: samplers.Energy(bases.MLP([4, 1]), 0.5, elements=3),
    "Quadrature": lambda: samplers.Quadrature(2, random=False),
    "FromHaar": lambda: samplers.FromHaar(bases.MLP([4, 2]), tau=0.3),
}
every_part = pytest.mark.parametrize("name", MADE)


def test_arguments_have_names_and_defaults() -> None:
    assert Scale(2.0).arguments == {"factor": 2.0, "net": None, "shift": 0.0}
    assert Scale(shift=1.0, factor=3.0).arguments == {"factor": 3.0, "net": None, "shift": 1.0}


def test_a_subclass_remembers_its_own_arguments_not_those_of_its_parent() -> None:
    assert Wider(3).arguments == {"size": 3}
    assert set(samplers.Canonical(nets.GIN(2)).arguments) == {"net", "reads", "tau", "input_gradient", "prior"}


def test_a_module_is_looked_up_as_it_is_now() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(3, 3)
    part = Scale(1.0, first)
    assert part.arguments["net"] is first
    part.net = second
    assert part.arguments["net"] is second


def test_a_module_does_not_register_twice() -> None:
    assert [name for name, _ in Scale(1.0, nn.Linear(2, 2)).named_parameters()] == ["net.weight", "net.bias"]


def test_what_is_returned_can_be_changed_at_will() -> None:
    part = Scale(1.0)
    part.arguments["factor"] = 9.0
    assert part.arguments["factor"] == 1.0


def test_a_list_that_the_caller_changes_later_does_not_count() -> None:
    widths = [4, 3, 2]
    mlp = bases.MLP(widths)
    widths[1] = 99
    assert list(mlp.arguments["widths"]) == [4, 3, 2]


def test_a_number_that_is_changed_later_counts() -> None:
    """Such as a temperature that falls in training: without it, another model would be saved than is there."""
    sampler = samplers.Learned(nets.GIN(2, 8), tau=0.1)
    sampler.tau = 0.5
    assert sampler.arguments["tau"] == 0.5


@pytest.mark.parametrize("given", [((), {}), ((1.0, None, 2.0), {}), ((1.0,), {"wrong": 1}), ((1.0,), {"factor": 2.0})])
def test_wrong_arguments_are_the_constructors_complaint(given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    args, kwargs = given
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        Scale(*args, **kwargs)


def test_every_part_is_registered_under_its_name() -> None:
    registered = {**BASES, **NETS, **SAMPLERS}
    assert {name: type(make()) for name, make in MADE.items()} == registered
    assert all(name == part.__name__ and issubclass(part, RemembersArguments) for name, part in registered.items())


@every_part
def test_arguments_make_the_same_part_again(name: str) -> None:
    part = MADE[name]()
    again = type(part)(**part.arguments)
    assert str(again) == str(part)
    modules = {key for key, value in part.arguments.items() if isinstance(value, nn.Module)}
    assert {key: value for key, value in again.arguments.items() if key not in modules} == {
        key: value for key, value in part.arguments.items() if key not in modules
    }
    assert {key: x.shape for key, x in again.state_dict().items()} == {
        key: x.shape for key, x in part.state_dict().items()
    }


@every_part
@pytest.mark.parametrize("way", ["deepcopy", "pickle", "torch.save"])
def test_arguments_survive_copies(name: str, way: str) -> None:
    part = MADE[name]()
    if way == "deepcopy":
        again = copy.deepcopy(part)
    elif way == "pickle":
        again = pickle.loads(pickle.dumps(part))
    else:
        file = io.BytesIO()
        torch.save(part, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)
    assert set(again.arguments) == set(part.arguments)
    for key, value in part.arguments.items():
        if isinstance(value, nn.Module):
            assert again.arguments[key] is getattr(again, key)
            assert again.arguments[key] is not value
        else:
            assert again.arguments[key] == value
    assert all(torch.equal(x, again.state_dict()[key]) for key, x in part.state_dict().items())


def test_a_part_without_a_constructor_of_its_own_has_no_arguments() -> None:
    assert samplers.Haar().arguments == {}


def test_signatures_can_be_seen() -> None:
    assert str(inspect.signature(samplers.Energy)).startswith("(energy: ")
    assert inspect.signature(nets.VNDGCNN).parameters["neighbours"].default == 4
