"""How bases are called, and how wrong calls are refused."""

import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from probsym import Symmetrized, bases, groups, nets, samplers
from probsym._internal.callables import hidden_modules, takes_mask
from probsym.errors import (
    DtypeError,
    GroupError,
    MaskError,
    ProbsymError,
    RangeError,
    ShapeError,
    SignatureError,
)

S = {"n": groups.S()}
X = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=torch.bool)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return torch.full((len(x),), -1.0) if mask is None else mask.sum(1).float()

    def method(self, x: torch.Tensor, *, mask: torch.Tensor | None) -> torch.Tensor:
        return self.forward(x, mask)


class Called:
    def __call__(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return mask.sum(1).float()


WITH_MASK: dict[str, Callable[[], Callable]] = {
    "module": Masked,
    "function": lambda: lambda x, mask: mask.sum(1).float(),
    "method": lambda: Masked().requires_grad_(False).method,
    "object": Called,
    "partial": lambda: functools.partial(lambda k, x, mask: mask.sum(1).float(), 1),
    "compiled module": lambda: torch.compile(Masked(), backend="eager"),
    "compiled function": lambda: torch.compile(lambda x, mask: mask.sum(1).float(), backend="eager"),
    "wrapped in parallel": lambda: nn.DataParallel(Masked()),
    "keywords": lambda: lambda x, **options: options["mask"].sum(1).float(),
}


@pytest.mark.parametrize("name", WITH_MASK)
def test_mask_reaches_whoever_takes_it(name: str) -> None:
    model = Symmetrized(WITH_MASK[name](), "n c ->", S, samples=2)
    assert model(X, mask=MASK).tolist() == [3.0, 4.0, 2.0]


@pytest.mark.parametrize("base", [lambda x: x.sum((1, 2)), bases.MLP([8, 1], shape=()), nn.Flatten(0)])
def test_mask_is_kept_from_whoever_does_not(base: Callable) -> None:
    assert not takes_mask(base)
    if not isinstance(base, nn.Flatten):
        Symmetrized(base, "n c ->", S)(X, mask=MASK)


def test_takes_mask_of_builtins() -> None:
    assert not takes_mask(torch.sum)
    assert not takes_mask(print)


# --------------------------------------------------------------------------------------------------- construction

HEAD = "n c -> c"


def first(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0]


CONSTRUCTION = {
    "base": (lambda: Symmetrized(3, HEAD, S), SignatureError, r"Expected base .*\(got int\)"),
    "base class": (
        lambda: Symmetrized(torch.nn.ReLU, HEAD, S),
        SignatureError,
        r"Expected base .*\(got the class ReLU: write ReLU\(...\)\)",
    ),
    "no arrow": (lambda: Symmetrized(first, "n c", S), SignatureError, r"Expected one '->'.*\(got 0\)"),
    "not text": (lambda: Symmetrized(first, 3, S), SignatureError, r"Expected a signature as text.*\(got int"),
    "groups": (lambda: Symmetrized(first, HEAD, groups.S()), SignatureError, r"groups as \{axis: group\}"),
    "not a group": (lambda: Symmetrized(first, HEAD, {"n": "S"}), SignatureError, r"'n' to be bound to a group"),
    "group class": (lambda: Symmetrized(first, HEAD, {"n": groups.S}), SignatureError, r"'n' to be bound to a group"),
    "unread": (lambda: Symmetrized(first, HEAD, {"m": groups.S()}), SignatureError, r"'m', bound to S\(\), to occur"),
    "sampler": (lambda: Symmetrized(first, HEAD, S, "haar"), SignatureError, r"Expected sampler .*\(got str\)"),
    "sampler class": (
        lambda: Symmetrized(first, HEAD, S, samplers.Haar),
        SignatureError,
        r"\(got the class Haar: write Haar\(...\)\)",
    ),
    "net class of FromHaar": (
        lambda: samplers.FromHaar(torch.nn.Linear),
        SignatureError,
        r"net .*\(got the class Linear: ",
    ),
    "energy class": (lambda: samplers.Energy(torch.nn.Linear), SignatureError, r"energy .*\(got the class Linear: "),
    "samples": (lambda: Symmetrized(first, HEAD, S, samples=0), RangeError, r"samples to be 1 or more \(got 0\)"),
    "samples float": (lambda: Symmetrized(first, HEAD, S, samples=2.0), ProbsymError, r"Expected samples .*\(got 2.0"),
    "samples true": (lambda: Symmetrized(first, HEAD, S, samples=True), ProbsymError, r"Expected samples .*\(got True"),
    "eval_samples": (lambda: Symmetrized(first, HEAD, S, eval_samples=-1), RangeError, r"eval_samples.*\(got -1\)"),
    "chunk": (lambda: Symmetrized(first, HEAD, S, chunk=0), RangeError, r"chunk to be 1 or more \(got 0\)"),
    "enumerate O": (
        lambda: Symmetrized(first, "m d -> d", {"d": groups.O(3)}, samplers.Enumerate()),
        GroupError,
        r"Expected a finite group \(got O\(3\)",
    ),
    "frame C": (
        lambda: Symmetrized(first, "m d -> d", {"d": groups.C(4)}, samplers.Frame()),
        GroupError,
        r"Expected S, or one of O.*\(got C\(4\)\)",
    ),
    "frame of nothing": (lambda: Symmetrized(first, HEAD, {}, samplers.Frame()), GroupError, r"\(got none\)"),
    "reads": (
        lambda: Symmetrized(first, HEAD, S, samplers.Learned(nets.DeepSets(2), reads=(1,))),
        SignatureError,
        r"reads to be different numbers below 1 \(got \(1,\)\)",
    ),
    "perturbs": (
        lambda: Symmetrized(first, HEAD, S, samplers.Learned(nets.DeepSets(2, inputs=2))),
        SignatureError,
        r"DeepSets to read 2 inputs .* \(got 'n c'; reads= ",
    ),
    "noise": (
        lambda: samplers.Learned(nets.DeepSets(2), noise=-1.0),
        RangeError,
        r"noise to be .*0 or more .*\(got -1",
    ),
    "tau": (lambda: samplers.Canonical(nets.DeepSets(2), tau=0.0), RangeError, r"tau to be positive \(got 0"),
    "kind": (lambda: samplers.Frame("best"), RangeError, r"Expected kind to be one of .*\(got 'best'\)"),
    "point of S": (lambda: Symmetrized(first, "n:point -> n", S), SignatureError, r"acts on 'n:point'"),
    "point without input": (
        lambda: Symmetrized(first, "n d -> d:point", {"d": groups.E(3)}),
        SignatureError,
        r"Expected an input with 'd:point'",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_construction_is_refused(name: str) -> None:
    call, error, message = CONSTRUCTION[name]
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, ProbsymError)


# ---------------------------------------------------------------------------------------------------------- calls

haar = Symmetrized(first, HEAD, S, samples=2)
listed = Symmetrized(first, HEAD, S, samplers.Enumerate())
learned = Symmetrized(first, HEAD, S, samplers.Learned(nets.DeepSets(2)))
fixed = Symmetrized(first, HEAD, S, samplers.Learned(nets.DeepSets(2), fixed_noise=True))
noise = haar.noise(X, samples=2)
NOTHING = samplers.Noise((), {}, {}, {})

CALLS = {
    "no inputs": (haar, ShapeError, r"Expected 1 inputs: 'n c' \(got 0\)"),
    "two inputs": (lambda: haar(X, X), ShapeError, r"\(got 2\)"),
    "axes": (lambda: haar(X[0]), ShapeError, r"input 0 \('n c'\) to have 3 axes, batch first"),
    "no items": (lambda: haar(X[:, :0]), ShapeError, r"at least one entry on axis 'n'"),
    "list": (lambda: haar(X.tolist()), DtypeError, r"input 0 \('n c'\) to be a tensor \(got list\)"),
    "samples": (lambda: haar(X, samples=0), RangeError, r"samples to be 1 or more \(got 0\)"),
    "samples of estimate": (lambda: haar.estimate(X, samples=-3), RangeError, r"samples to be 1 or more \(got -3\)"),
    "samples of noise": (lambda: haar.noise(X, samples=0), RangeError, r"samples to be 1 or more \(got 0\)"),
    "samples to a list": (lambda: listed(X, samples=3), RangeError, r"Expected no samples .*\(got 3\)"),
    "chunk": (lambda: haar.estimate(X, chunk=0), RangeError, r"chunk to be 1 or more \(got 0\)"),
    "tol": (lambda: haar.estimate(X, tol=0.0), RangeError, r"Expected tol to be positive"),
    "tol below": (lambda: haar.estimate(X, tol=-1.0), RangeError, r"Expected tol to be positive.*\(got -1"),
    "tol nan": (lambda: haar.estimate(X, tol=float("nan")), RangeError, r"Expected tol to be positive"),
    "tol text": (lambda: haar.estimate(X, tol="a"), ProbsymError, r"Expected tol to be positive"),
    "tol with noise": (lambda: haar.estimate(X, tol=0.1, noise=noise), RangeError, r"no noise with it"),
    "max_samples": (lambda: haar.estimate(X, tol=0.1, max_samples=0), RangeError, r"Expected max_samples.*\(got 0\)"),
    "samples with noise": (lambda: haar(X, samples=2, noise=noise), RangeError, r"beside explicit noise"),
    "generator with noise": (
        lambda: haar(X, generator=torch.Generator(), noise=noise),
        RangeError,
        r"beside explicit noise",
    ),
    "noise of another batch": (lambda: haar(X[:2], noise=noise), ShapeError, r"noise for a batch of 2 \(got 3\)"),
    "noise of another size": (lambda: haar(X[:, :3], noise=noise), ShapeError, r"\(got 3\)"),
    "noise of another kind": (lambda: haar(X, noise=X), ProbsymError, r"Expected noise .*\(got Tensor\)"),
    "noise of another sampler": (lambda: learned(X, noise=noise), ProbsymError, r"Expected noise"),
    "noise without elements": (lambda: haar(X, noise=NOTHING), ProbsymError, r"Expected noise"),
    "mask dtype": (lambda: haar(X, mask=MASK.long()), MaskError, r"mask 'n' to be boolean \(got torch.int64\)"),
    "mask shape": (lambda: haar(X, mask=MASK[:, :3]), MaskError, r"mask 'n' to have shape \(3, 4\) \(got \(3, 3\)\)"),
    "mask batch": (lambda: haar(X, mask=MASK[:2]), MaskError, r"mask 'n' to have shape \(3, 4\) \(got \(2, 4\)\)"),
    "mask device": (lambda: haar(X, mask=MASK.to("meta")), MaskError, r"mask 'n' to be on cpu.*\(got meta\)"),
    "mask axis": (lambda: haar(X, mask={"m": MASK}), MaskError, r"one of the axes \['n', 'c'\] \(got 'm'\)"),
    "mask list": (lambda: haar(X, mask=MASK.tolist()), MaskError, r"mask to be a tensor .*\(got list\)"),
    "mask ambiguous": (
        lambda: Symmetrized(first, "m c -> c", {})(X, mask=MASK),
        MaskError,
        r"exactly one axis qualifies \(got 'm', 'c'\)",
    ),
    "mask rotated": (
        lambda: Symmetrized(first, "m d -> d", {"d": groups.O(2)})(X, mask={"d": MASK[:, :2]}),
        MaskError,
        r"no mask on axis 'd'",
    ),
    "rotated integers": (
        lambda: Symmetrized(first, "m d -> d", {"d": groups.O(2)})(X.long()),
        DtypeError,
        r"to be floating, since O\(2\) rotates 'd'",
    ),
    "index needed": (lambda: fixed(X), SignatureError, r"Expected index=ids"),
    "index shape": (lambda: fixed(X, index=torch.arange(4)), ShapeError, r"index .* \(3,\) \(got \(4,\)"),
    "index floats": (lambda: fixed(X, index=torch.rand(3)), ShapeError, r"index to be integers"),
    "index list": (lambda: fixed(X, index=[0, 1, 2]), ProbsymError, r"Expected index"),
    "too many to list": (lambda: listed(torch.randn(1, 9, 2)), GroupError, r"Expected at most 50000.*\(got 362880"),
    "net without features": (
        lambda: Symmetrized(first, HEAD, S, samplers.FromHaar(lambda x: None))(X),
        SignatureError,
        r"Expected the net to return a tensor or Features \(got NoneType\)",
    ),
    "net of another shape": (
        lambda: Symmetrized(first, HEAD, S, samplers.FromHaar(lambda x: x[:, :3, 0]))(X),
        ShapeError,
        r"Expected scores of shape \(3, 1, 4\) from the net for axis 'n'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_is_refused(name: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, ProbsymError)


OUTPUTS = {
    "nothing": (lambda x: None, "c", DtypeError, r"output 0 \('c'\) to be a tensor \(got NoneType\)"),
    "number": (lambda x: 1.0, "c", DtypeError, r"output 0 \('c'\)"),
    "one of two": (lambda x: x[:, 0], "c, n c", SignatureError, r"return 2 outputs \(got 1: 0\)"),
    "two of one": (lambda x: [x[:, 0], x], "c", SignatureError, r"return 1 outputs, .*\(got 2: 0, 1\)"),
    "rank": (lambda x: (x[:, 0], x[:, 0]), "c, n c", ShapeError, r"output 1 \('n c'\) to have 3 axes"),
    "size": (lambda x: x[:, :2], "n c", ShapeError, r"output 0 \('n c'\) to have size 4 on axis 'n' \(got 2\)"),
    "batch": (lambda x: x[:2, 0], "c", ShapeError, r"output 0 \('c'\).* batch size 6 .*\(got 2\)"),
    "batch of the second": (lambda x: (x, x[:2, 0]), "n c, c", ShapeError, r"output 1 \('c'\) to have batch size 6"),
    "mapping of words": (lambda x: {"y": "z"}, "c", DtypeError, r"output 0 \('c'\) to be a tensor \(got str\)"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_is_refused(name: str) -> None:
    base, output, error, message = OUTPUTS[name]
    with pytest.raises(error, match=message):
        Symmetrized(base, f"n c -> {output}", S, samples=2)(X)


@pytest.mark.parametrize("kind", [list, tuple])
def test_outputs_may_be_lists_or_tuples(kind: type) -> None:
    single = Symmetrized(lambda x: kind([x[:, 0]]), HEAD, S)(X)
    pair = Symmetrized(lambda x: kind([x[:, 0], x]), "n c -> c, n c", S)(X)
    assert isinstance(single, torch.Tensor)
    assert isinstance(pair, tuple)
    assert torch.equal(pair[1], X)


def test_functions_that_hide_modules_are_found() -> None:
    layer, frozen = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)

    def closed(x: torch.Tensor) -> torch.Tensor:
        return layer(x)

    for function in (closed, layer.forward, functools.partial(layer, bias=None), functools.partial(print, layer)):
        assert hidden_modules(function) == ["Linear"]
    for function in (layer, frozen.forward, lambda x: frozen(x) + 1, len, functools.partial(len)):
        assert hidden_modules(function) == []

    class Wrapping:
        func = layer  # no partial, whatever it is called

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    assert hidden_modules(Wrapping()) == []
    with pytest.warns(UserWarning, match=r"Expected base to be a module.*\(got a function around Linear\)"):
        Symmetrized(closed, "n -> n", {"n": groups.S()})


LAYER, FROZEN = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)
LAYERS, BY_NAME, SCALE = [LAYER, FROZEN], {"layer": LAYER}, nn.Parameter(torch.ones(2))
HIDING: dict[str, tuple[Callable[..., torch.Tensor], list[str]]] = {
    "global": (lambda x: LAYER(x) + 1, ["Linear"]),
    "global in a comprehension": (lambda x: torch.stack([LAYER(row) for row in x]), ["Linear"]),
    "list": (lambda x: LAYERS[0](x) + 1, ["Linear"]),
    "mapping": (lambda x: BY_NAME["layer"](x) + 1, ["Linear"]),
    "default": (lambda x, layer=LAYER: layer(x), ["Linear"]),
    "default by keyword": (lambda x, *, layer=LAYER: layer(x), ["Linear"]),
    "partial": (functools.partial(lambda layers, x: layers[0](x), (LAYER,)), ["Linear"]),
    "partial of what names one": (functools.partial(lambda x, y: LAYER(x), y=1), ["Linear"]),
    "parameter": (lambda x: x * SCALE, ["Parameter"]),
    "reached twice": (lambda x, layer=LAYER: layer(x) + LAYER(x), ["Linear"]),
    "frozen": (lambda x: FROZEN(x) + 1, []),
    "attribute of that name": (lambda x: x.LAYER(), []),
    "library": (lambda x: torch.relu(nn.functional.relu(x)), []),
    "class of modules": (lambda x: nn.Linear(2, 2)(x) + 1, []),
}


@pytest.mark.parametrize("name", HIDING)
def test_functions_hide_what_they_name_or_were_given(name: str) -> None:
    function, hidden = HIDING[name]
    assert hidden_modules(function) == hidden
    assert hidden_modules(function, held=[*LAYER.parameters(), SCALE]) == []


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_functions_of_samplers_that_hide_modules_are_found(tau: float) -> None:
    def energy(x: torch.Tensor) -> torch.Tensor:
        return LAYER(x).sum((1, 2))

    with pytest.warns(UserWarning, match=r"Expected energy of Energy to be a module.*\(got a function around Linear\)"):
        Symmetrized(nn.Identity(), "n c -> n c", S, samplers.Energy(energy, tau))
    net = nets.Lifted(lambda x: LAYER(x)[:, 0], groups.C(2))
    with pytest.warns(UserWarning, match=r"Expected net of Lifted to be a module"):
        Symmetrized(nn.Identity(), "c -> c", {"c": groups.C(2)}, samplers.Canonical(net))
    Symmetrized(LAYER, "n c -> n c", S, samplers.Energy(energy, tau))  # the base holds it, so this does not warn


@pytest.mark.filterwarnings("ignore:Expected mask_argument='attention_mask'")
@pytest.mark.parametrize("takes", [True, False])
def test_masks_go_by_the_name_that_the_base_has_for_them(takes: bool) -> None:
    seen = []

    def base(x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        seen.append(attention_mask)
        return x[:, 0]

    mask = torch.tensor([[True, False, True]])
    options = {"mask_argument": "attention_mask"} if takes else {}
    Symmetrized(base, "n c -> c", {"n": groups.S()}, samples=2, **options)(torch.randn(1, 3, 2), mask=mask)
    assert (seen[0] is not None) == takes
    if takes:
        assert seen[0].tolist() == [[True, True, False]] * 2
