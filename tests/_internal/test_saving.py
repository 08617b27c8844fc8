import copy
import hashlib
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, nets, samplers
from probsym._internal import saving
from probsym._internal.saving import build, describe
from probsym.bases import BASES
from probsym.errors import CheckpointError, ProbsymError, WriteError
from probsym.groups import GROUPS
from probsym.nets import NETS
from probsym.samplers import SAMPLERS
from tests.symmetrized_cases import SAMPLERS as SAMPLER_CASES
from tests.symmetrized_cases import SETTINGS, applies, make_inputs, make_model

S = groups.S()
N, CHANNELS = 5, 2
SHAPE = {"family": "vit", "width": 8, "layers": 1, "heads": 2, "feed_forward": 8}
CASES = [
    (setting, sampler)
    for setting in SETTINGS
    for sampler in SAMPLER_CASES
    if applies(setting, sampler) and sampler != "FromHaar"  # whose net is none of the library's
    if setting not in ("Signs", "Shift") or sampler not in ("Canonical", "Learned")  # neither is theirs
    if setting in ("S", "E(3)", "S x SE(3)", "D(4)") or sampler in ("Haar", "Learned")  # each of both
]
MADE: dict[str, Callable[[], nn.Module]] = {
    "MLP": lambda: bases.MLP([N * N + N * CHANNELS, 8, 3], "tanh", dropout=0.1),
    "SequenceTransformer": lambda: bases.SequenceTransformer("n 2, n n -> 3", N, width=8, layers=1, heads=2),
    "GNN": lambda: bases.GNN("n 2, n n -> 3", 8, layers=1),
    "GCN": lambda: bases.GCN("n 2, n n -> 3", 8, layers=1),
    "GINID": lambda: bases.GINID("n 2, n n -> 3", N, 8, layers=1),
    "PatchTransformer": lambda: bases.PatchTransformer("n 2, n n -> 3", N, SHAPE, 2, patch_dropout=(0.1, 0.5)),
}


class Own(nn.Module):
    """A base that the library does not know."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(N * N + N * CHANNELS, width)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return self.linear(torch.cat([x.flatten(1), a.flatten(1)], 1))


def graphs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(3, N, N, generator=generator)
    return torch.rand(3, N, CHANNELS, generator=generator), ((a + a.mT) > 1).float()


def on_graphs(base: Any = None, sampler: samplers.Sampler | None = None, **options: Any) -> Symmetrized:
    base = MADE["MLP"]() if base is None else base
    sampler = samplers.Learned(nets.GIN(2, 8, layers=1), noise=0.5, tau=0.1) if sampler is None else sampler
    return Symmetrized(base, "n c, n n -> k", {"n": S}, sampler, **{"samples": 3, **options})


def assert_same(loaded: Symmetrized, model: Symmetrized, *inputs: Tensor, mask: Any = None) -> None:
    """Bit by bit, with the same noise and with the same generator."""
    model.eval()
    assert not loaded.training
    with torch.no_grad():
        noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(1))
        output, wanted = (symmetrized(*inputs, mask=mask, noise=noise) for symmetrized in (loaded, model))
        assert output.dtype == wanted.dtype
        assert torch.equal(output, wanted)
        output, wanted = (
            symmetrized(*inputs, mask=mask, generator=torch.Generator().manual_seed(2))
            for symmetrized in (loaded, model)
        )
        assert torch.equal(output, wanted)
    assert describe(loaded) == describe(model)
    own, other = model.state_dict(), loaded.state_dict()
    assert [(name, x.dtype) for name, x in own.items()] == [(name, x.dtype) for name, x in other.items()]
    assert all(torch.equal(x, other[name]) for name, x in own.items())


def saved(model: Symmetrized, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    return folder


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config = change(config) or config
    path.write_text(json.dumps(config))
    return folder


def reweighted(folder: Path, **changes: Tensor | None) -> Path:
    tensors = load_file(folder / "model.safetensors") | changes
    save_file({name: x for name, x in tensors.items() if x is not None}, folder / "model.safetensors")
    return edited(folder, lambda config: config.pop("weights_sha256") and None)


# --------------------------------------------------------------------------------------------- the same once more


@pytest.mark.parametrize(("setting", "sampler"), CASES)
def test_every_group_and_sampler(tmp_path: Path, setting: str, sampler: str) -> None:
    chosen = SETTINGS[setting]
    inputs, mask = make_inputs(chosen, torch.float32, "mixed", torch.Generator().manual_seed(0))
    model = make_model(chosen, chosen.outputs[-1], sampler, torch.float32)
    model.train()(*inputs, mask=mask)  # norms have seen something
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *inputs, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_every_base_in_every_precision(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    model = on_graphs(MADE[name]().to(dtype), eval_samples=5, chunk=2)
    model.train()(*graphs())
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path))
    assert next(loaded.base.parameters()).dtype == dtype
    assert_same(loaded, model, *graphs())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_model_that_is_converted_whole(tmp_path: Path, dtype: torch.dtype) -> None:
    model = on_graphs().to(dtype)
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path))
    assert_same(loaded, model, *(x.to(dtype) for x in graphs()))


def test_a_sampler_from_uniform_elements_with_a_base_of_the_library(tmp_path: Path) -> None:
    sampler = samplers.FromHaar(bases.MLP([N * CHANNELS, 8, N]), reads=(0,), tau=0.2)
    model = on_graphs(sampler=sampler)
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *graphs())


def test_a_sampler_over_a_set(tmp_path: Path) -> None:
    sampler = samplers.Learned(nets.DeepSets(3, hidden=4, inputs=2), noise=0.25, tau=0.5, fixed_noise=True, seed=7)
    base = bases.MLP([15, 4, 1], shape=())
    model = Symmetrized(base, "n c, n e -> ", {"n": S}, sampler, samples=2)
    inputs = torch.rand(3, N, 2), torch.rand(3, N, 1)
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path))
    index = torch.arange(3)
    assert torch.equal(loaded(*inputs, index=index), model.eval()(*inputs, index=index))
    assert describe(loaded) == describe(model)


def of_particles() -> Symmetrized:
    return Symmetrized(bases.EGNN(2, 8, layers=1), "n d, n d, n n e -> n d", {"n": S}, samples=2)


def test_a_base_of_particles(tmp_path: Path) -> None:
    model, inputs = of_particles(), (torch.randn(2, 5, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 5, 2))
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *inputs)


def test_models_without_a_sampler_of_their_own(tmp_path: Path) -> None:
    model = Symmetrized(MADE["MLP"](), "n c, n n -> k", {"n": S}, samples=2)
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *graphs())


def test_every_registered_name_is_among_the_cases() -> None:
    """So that a new part has to be added here."""
    made = [make_model(SETTINGS[case], SETTINGS[case].outputs[0], sampler, torch.float32) for case, sampler in CASES]
    made += [on_graphs(base()) for base in MADE.values()]
    made += [on_graphs(sampler=samplers.FromHaar(nets.DeepSets(2), reads=(0,))), of_particles()]
    text = " ".join(json.dumps(describe(model)) for model in made)
    assert [name for name in (*BASES, *NETS, *SAMPLERS) if f'"part": "{name}"' not in text] == []
    assert [name for name in GROUPS if f'"group": "{name}"' not in text] == []


def test_what_came_later_is_kept_and_older_files_have_it_not(tmp_path: Path) -> None:
    base, inputs = MADE["SequenceTransformer"](), graphs()
    options = {"output_keys": ("y",), "mask_argument": "real"}
    model = Symmetrized(
        lambda x, a, real=None: {"y": x.tanh()}, "n c, n n -> n c", {"n": S}, samples=2, residual=0, **options
    )
    saved(model, tmp_path / "new")
    loaded = Symmetrized.from_pretrained(tmp_path / "new", base=model.base)
    assert (loaded.residual, loaded.output_keys, loaded.mask_argument) == (0, ("y",), "real")
    assert_same(loaded, model, *inputs)
    saved(on_graphs(base), tmp_path / "old")
    for name in ("residual", "output_keys", "mask_argument"):
        edited(tmp_path / "old", lambda config, name=name: config.pop(name) and None)
    older = Symmetrized.from_pretrained(tmp_path / "old")
    assert (older.residual, older.output_keys, older.mask_argument) == (None, None, None)


def test_numbers_and_chunks_are_kept(tmp_path: Path) -> None:
    loaded = Symmetrized.from_pretrained(saved(on_graphs(samples=7, eval_samples=9, chunk=4), tmp_path))
    assert (loaded.samples, loaded.eval_samples, loaded.chunk) == (7, 9, 4)
    assert isinstance(loaded.sampler, samplers.Learned)
    assert (loaded.sampler.eta, loaded.sampler.tau) == (0.5, 0.1)


def test_a_second_round_writes_the_same_files(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path / "a")
    saved(Symmetrized.from_pretrained(tmp_path / "a"), tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_what_is_written_is_two_plain_files(tmp_path: Path) -> None:
    model = on_graphs()
    saved(model, tmp_path / "deep" / "er")
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((tmp_path / "deep" / "er" / "config.json").read_text())
    weights = (tmp_path / "deep" / "er" / "model.safetensors").read_bytes()
    assert config.pop("weights_sha256") == hashlib.sha256(weights).hexdigest()
    assert config == describe(model)
    assert config["library_name"] == "probsym"
    assert config["signature"] == "n c, n n -> k"
    assert config["groups"] == {"n": {"group": "S"}}
    with safe_open(tmp_path / "deep" / "er" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert set(file.keys()) == set(model.state_dict())


def test_a_loaded_model_is_trained_on(tmp_path: Path) -> None:
    loaded = Symmetrized.from_pretrained(saved(on_graphs(), tmp_path)).train()
    before = {name: x.clone() for name, x in loaded.named_parameters()}
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in loaded.parameters())
    optimiser = torch.optim.Adam(loaded.parameters(), lr=0.1)
    estimate = loaded.estimate(*graphs())
    (estimate.mean.square().sum() + estimate.losses["entropy"]).backward()
    optimiser.step()
    assert any(not torch.equal(before[name], x) for name, x in loaded.base.named_parameters(prefix="base"))
    assert any(not torch.equal(before[name], x) for name, x in loaded.sampler.named_parameters(prefix="sampler"))
    stored = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(x, stored[name]) for name, x in before.items())


def test_a_model_can_be_given_another_device(tmp_path: Path) -> None:
    loaded = Symmetrized.from_pretrained(saved(on_graphs(), tmp_path), map_location="meta")
    assert {parameter.device.type for parameter in loaded.parameters()} == {"meta"}


def test_weights_that_share_memory_are_saved(tmp_path: Path) -> None:
    class Tied(Own):
        def __init__(self) -> None:
            super().__init__(N * N + N * CHANNELS)
            self.back = nn.Linear(3, 3)
            self.again = self.back
            self.register_buffer("view", self.linear.weight.detach()[:2])

        def forward(self, x: Tensor, a: Tensor) -> Tensor:
            return self.again(super().forward(x, a)[:, :3])

    model = on_graphs(Tied())
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path), base=Tied())
    assert_same(loaded, model, *graphs())
    assert loaded.base.again.weight is loaded.base.back.weight


def test_weights_that_are_not_contiguous_are_saved(tmp_path: Path) -> None:
    model = on_graphs(Own())
    model.base.linear.weight.data = torch.rand(N * N + N * CHANNELS, 3).T
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path), base=Own())
    assert torch.equal(loaded.base.linear.weight, model.base.linear.weight)


# ------------------------------------------------------------------------------------------------- what is saved


def test_a_part_that_is_exchanged_is_the_one_saved(tmp_path: Path) -> None:
    model = on_graphs()
    model.base = bases.MLP([N * N + N * CHANNELS, 3], "gelu")
    assert isinstance(model.sampler, samplers.Learned)
    model.sampler.net = nets.GIN(2, 6, layers=2)
    assert describe(model)["base"]["widths"] == [N * N + N * CHANNELS, 3]
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *graphs())


def test_a_temperature_that_is_lowered_in_training_is_the_one_saved(tmp_path: Path) -> None:
    model = on_graphs()
    assert isinstance(model.sampler, samplers.Learned)
    model.sampler.tau, model.samples = 0.7, 2
    loaded = Symmetrized.from_pretrained(saved(model, tmp_path))
    assert (loaded.samples, loaded.sampler.tau) == (2, 0.7)


def test_noise_that_is_lowered_in_training_is_the_one_saved(tmp_path: Path) -> None:
    model = on_graphs()
    assert isinstance(model.sampler, samplers.Learned)
    model.sampler.eta = 0.0
    assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *graphs())


def test_copies_are_saved_like_the_model(tmp_path: Path) -> None:
    model = on_graphs()
    for i, copied in enumerate((copy.deepcopy(model), pickle.loads(pickle.dumps(model)))):
        assert_same(Symmetrized.from_pretrained(saved(copied, tmp_path / str(i))), model, *graphs())


@pytest.mark.parametrize("widths", [[35, 3], (35, 3), range(35, 33, -1), torch.Size([35, 3])], ids=repr)
def test_sizes_may_be_any_sequence(tmp_path: Path, widths: Any) -> None:
    model = on_graphs(bases.MLP(widths))
    if model.base.widths[-1] == 3:
        assert_same(Symmetrized.from_pretrained(saved(model, tmp_path)), model, *graphs())
    else:
        assert describe(model)["base"]["widths"] == list(widths)


def test_numbers_may_be_those_of_numpy_and_torch(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    for i, (tau, n) in enumerate(
        [(numpy.float32(0.5), numpy.int64(N)), (numpy.float64(0.5), N), (torch.tensor(0.5), N)]
    ):
        base = bases.GINID("n 2, n n -> 3", n, 8, layers=1)
        model = on_graphs(base, samplers.Learned(nets.GIN(2, 8, layers=1), tau=tau))
        assert_same(Symmetrized.from_pretrained(saved(model, tmp_path / str(i))), model, *graphs())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the compiler itself runs into
def test_a_compiled_base_is_saved_under_plain_names(tmp_path: Path) -> None:
    plain = on_graphs()
    model = on_graphs(torch.compile(plain.base, backend="eager"), plain.sampler)
    saved(model, tmp_path)
    assert describe(model) == describe(plain)
    assert set(load_file(tmp_path / "model.safetensors")) == set(plain.state_dict())
    assert_same(Symmetrized.from_pretrained(tmp_path), plain, *graphs())
    into = torch.compile(MADE["MLP"](), backend="eager")
    loaded = Symmetrized.from_pretrained(tmp_path, base=into)
    assert loaded.base is into
    assert torch.equal(into._orig_mod.layers[0].weight, plain.base.layers[0].weight)


def test_a_compiled_net_and_a_compiled_model(tmp_path: Path) -> None:
    plain = on_graphs()
    model = copy.deepcopy(plain)
    model.sampler.net = torch.compile(model.sampler.net, backend="eager")
    torch.compile(model, backend="eager").save_pretrained(tmp_path)
    assert describe(model) == describe(plain)
    assert_same(Symmetrized.from_pretrained(tmp_path), plain, *graphs())


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_pretrained_base_is_saved_with_the_shape_it_was_found_to_have(tmp_path: Path, checkpointing: bool) -> None:
    from tests.checkpoint_cases import classic, config_of, vit, write  # noqa: PLC0415

    source = write(tmp_path / "vit", classic(vit()), config_of(vit()))
    base = bases.PatchTransformer.from_pretrained(
        source, "n 2, n n -> 3", n=N, grid=2, dropout=0.2, checkpointing=checkpointing
    )
    model = on_graphs(base)
    saved(model, tmp_path / "model")
    shutil.rmtree(tmp_path / "vit")
    loaded = Symmetrized.from_pretrained(tmp_path / "model")
    assert loaded.base.encoder.settings == base.encoder.settings
    assert loaded.base.encoder.checkpointing == checkpointing
    assert_same(loaded, model, *graphs())


# ------------------------------------------------------------------------------------------------ parts of one's own


def test_a_base_of_ones_own_is_named_and_given_again(tmp_path: Path) -> None:
    model = on_graphs(Own())
    assert describe(model)["base"] == {"own": f"{Own.__module__}.Own"}
    saved(model, tmp_path)
    with pytest.raises(CheckpointError, match=rf"Expected base= to be given, since {Own.__module__}.Own is not of the"):
        Symmetrized.from_pretrained(tmp_path)
    base = Own()
    loaded = Symmetrized.from_pretrained(tmp_path, base=base)
    assert loaded.base is base
    assert_same(loaded, model, *graphs())


def test_a_function_as_base(tmp_path: Path) -> None:
    def first(x: Tensor, a: Tensor) -> Tensor:
        return x[:, 0]

    model = on_graphs(first)
    assert describe(model)["base"] == {"own": "builtins.function"}
    saved(model, tmp_path)
    with pytest.raises(CheckpointError, match="Expected base= to be given"):
        Symmetrized.from_pretrained(tmp_path)
    assert_same(Symmetrized.from_pretrained(tmp_path, base=first), model, *graphs())


def test_a_subclass_of_a_part_is_not_taken_for_the_part() -> None:
    class MLP(bases.MLP):
        def forward(self, *inputs: Tensor) -> Tensor:
            return -super().forward(*inputs)

    assert "own" in describe(on_graphs(MLP([35, 3])))["base"]


def test_a_net_of_ones_own_asks_for_the_sampler_it_is_in(tmp_path: Path) -> None:
    def made() -> samplers.FromHaar:
        torch.manual_seed(0)
        return samplers.FromHaar(nn.Sequential(nn.Flatten(), nn.Linear(N * CHANNELS, N)), reads=(0,))

    model = on_graphs(sampler=made())
    saved(model, tmp_path)
    assert_same(Symmetrized.from_pretrained(tmp_path, sampler=made()), model, *graphs())
    with pytest.raises(CheckpointError, match=r"Expected sampler= to be given, since .*Sequential"):
        Symmetrized.from_pretrained(tmp_path)


def test_a_group_of_ones_own_asks_for_the_groups(tmp_path: Path) -> None:
    class Mine(groups.S):
        pass

    model = Symmetrized(MADE["MLP"](), "n c, n n -> k", {"n": Mine()}, samplers.Enumerate())
    saved(model, tmp_path)
    assert describe(Symmetrized.from_pretrained(tmp_path, groups={"n": Mine()})) == describe(model)
    with pytest.raises(CheckpointError, match=r"Expected groups= to be given, since .*Mine"):
        Symmetrized.from_pretrained(tmp_path)


class Counting(nn.Linear):
    def get_extra_state(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (nn.LazyLinear(2), r"called before it is saved \(got no shape for 'base.weight' yet\)"),
        (Counting(2, 2), r"state of a model to be tensors \(got a int for 'base._extra_state'\)"),
    ],
)
def test_states_that_are_no_tensors_are_refused(tmp_path: Path, base: nn.Module, message: str) -> None:
    model = Symmetrized(base, "n c -> n k", {"n": S})
    with pytest.raises(CheckpointError, match=message):
        saved(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_arguments_take_the_place_of_those_saved(tmp_path: Path) -> None:
    model = on_graphs(samples=3)
    saved(model, tmp_path)
    loaded = Symmetrized.from_pretrained(tmp_path, samples=11, eval_samples=5, chunk=2)
    assert (loaded.samples, loaded.eval_samples, loaded.chunk) == (11, 5, 2)
    assert all(torch.equal(x, loaded.state_dict()[name]) for name, x in model.state_dict().items())
    sampler = samplers.Learned(nets.GIN(2, 8, layers=1), tau=0.9)
    assert Symmetrized.from_pretrained(tmp_path, sampler=sampler).sampler.tau == 0.9
    with pytest.raises(CheckpointError, match=r"Expected arguments among signature, .*\(got 'sample'\)"):
        Symmetrized.from_pretrained(tmp_path, sample=11)


def test_a_subclass_loads_itself(tmp_path: Path) -> None:
    class Mine(Symmetrized):
        pass

    assert type(Mine.from_pretrained(saved(on_graphs(), tmp_path))) is Mine


# ---------------------------------------------------------------------------------------------------- overwriting


@pytest.mark.parametrize("there", ["config.json", "model.safetensors"])
def test_nothing_is_overwritten_unasked(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(CheckpointError, match=rf"without a model, or overwrite=True \(got {there} there\)"):
        saved(on_graphs(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_folder(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match=r"^Expected a folder \(got the file .*file\)"):
        saved(on_graphs(), tmp_path / "file", overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "mine"


def test_overwriting_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    saved(on_graphs(), tmp_path)
    model = on_graphs(samples=8)
    saved(model, tmp_path, overwrite=True)
    assert_same(Symmetrized.from_pretrained(tmp_path), model, *graphs())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors", "notes.txt"]


@pytest.mark.parametrize("fails", ["weights", "weights halfway", "config", "config halfway"])
def test_a_save_that_fails_leaves_the_old_model_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    old, new = on_graphs(), on_graphs(bases.MLP([35, 9, 3]), samples=8)
    saved(old, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail_weights(tensors: Any, path: Path) -> None:
        if "halfway" in fails:
            path.write_bytes(b"half")
        raise OSError("disk full")

    write_text = Path.write_text

    def fail_config(path: Path, text: str, *args: Any, **kwargs: Any) -> int:
        if "halfway" in fails:
            write_text(path, text[: len(text) // 2])
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        if fails.startswith("weights"):
            patch.setattr(saving, "_save_tensors", fail_weights)
        else:
            patch.setattr(Path, "write_text", fail_config)
        with pytest.raises(WriteError, match=r"^Expected to write .* \(got: disk full\)"):
            saved(new, tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert_same(Symmetrized.from_pretrained(tmp_path), old, *graphs())


def test_a_model_that_cannot_be_described_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("no words")

    monkeypatch.setattr(saving, "describe", fail)
    with pytest.raises(RuntimeError, match="no words"):
        saved(on_graphs(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------------------------------------------- refusals

Change = Callable[[dict[str, Any]], Any]


def _set(*path: str, to: Any) -> Change:
    def change(config: dict[str, Any]) -> None:
        for key in path[:-1]:
            config = config[key]
        config[path[-1]] = to

    return change


def _drop(*path: str) -> Change:
    def change(config: dict[str, Any]) -> None:
        for key in path[:-1]:
            config = config[key]
        del config[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("library_name", to="transformers"), r"configuration of a probsym model, format 1 \(got .*transformers"),
        (_drop("library_name"), r"configuration of a probsym model, format 1 \(got .*None"),
        (_set("format", to=2), r"format 1 \(got .*'format': 2"),
        (_drop("format"), "format 1"),
        (lambda _: {"model_type": "vit"}, "configuration of a probsym model"),
        (_drop("sampler"), r"\(got none for 'sampler'\)"),
        (_drop("samples"), r"\(got none for 'samples'\)"),
        (_set("base", "part", to="Resnet"), r"Expected a part of probsym for base \(got 'Resnet'\)"),
        (_set("sampler", "net", "part", to="Gin"), r"Expected a part of probsym for net \(got 'Gin'\)"),
        (_set("groups", "n", "group", to="SL"), r"Expected a group of probsym for n \(got 'SL'\)"),
        (_set("groups", "n", "d", to=3), "Expected the arguments of S for n"),
        (_set("base", "depth", to=3), r"Expected the arguments of MLP for base \(got: .*depth"),
        (_drop("base", "widths"), r"Expected the arguments of MLP for base \(got: .*widths"),
        (_drop("sampler", "net"), r"Expected the arguments of Learned for sampler \(got: .*net"),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, change: Change, message: str) -> None:
    edited(saved(on_graphs(), tmp_path), change)
    with pytest.raises(CheckpointError, match=message):
        Symmetrized.from_pretrained(tmp_path)


HOSTILE: dict[str, Change] = {
    "a list as part": _set("base", "part", to=["MLP"]),
    "an object as part": _set("base", "part", to={}),
    "a number as part": _set("base", "part", to=3),
    "no part": _set("base", "part", to=None),
    "a list as group": _set("groups", "n", "group", to=["S"]),
    "groups as a list": _set("groups", to=[]),
    "groups as a number": _set("groups", to=3),
    "no groups": _set("groups", to=None),
    "a group that is a number": _set("groups", "n", to=3),
    "a part as group": _set("groups", "n", to={"part": "Haar"}),
    "a group as base": _set("base", to={"group": "S"}),
    "a base that is text": _set("base", to="MLP"),
    "a base that is a list": _set("base", to=[]),
    "no base": _set("base", to=None),
    "a sampler that is text": _set("sampler", to="Haar"),
    "a net as sampler": _set("sampler", to={"part": "GIN", "in_channels": 2}),
    "a net that is text": _set("sampler", "net", to="GIN"),
    "no net": _set("sampler", "net", to=None),
    "a sampler as net": _set("sampler", "net", to={"part": "Enumerate"}),
    "a signature that is a number": _set("signature", to=3),
    "a signature that is a list": _set("signature", to=["n -> n"]),
    "no signature": _set("signature", to=None),
    "a signature that is nonsense": _set("signature", to="-> ->"),
    "samples as text": _set("samples", to="3"),
    "no samples": _set("samples", to=0),
    "samples that are not whole": _set("samples", to=2.5),
    "samples that are true": _set("samples", to=True),
    "a chunk of nothing": _set("chunk", to=0),
    "widths as text": _set("base", "widths", to="35,3"),
    "widths of text": _set("base", "widths", to=["35", "3"]),
    "widths that no memory holds": _set("base", "widths", to=[10**9, 10**9]),
    "widths that no number holds": _set("base", "widths", to=[10**30, 3]),
    "an activation that is a list": _set("base", "activation", to=[]),
    "dropout as text": _set("base", "dropout", to="0.1"),
    "dropout that is no number": _set("base", "dropout", to=float("nan")),
    "tau as text": _set("sampler", "tau", to="0.1"),
    "no tau": _set("sampler", "tau", to=None),
    "infinite noise": _set("sampler", "noise", to=float("inf")),
    "reads as text": _set("sampler", "reads", to="01"),
    "reads of what is not there": _set("sampler", "reads", to=[7]),
    "a group where a number goes": _set("sampler", "tau", to={"group": "S"}),
    "a lifted net of no group": _set("sampler", "net", to={"part": "Lifted", "net": {"part": "Haar"}, "group": "C"}),
    "a lifted net of an axis that is text": _set(
        "sampler",
        "net",
        to={"part": "Lifted", "net": {"part": "MLP", "widths": [2, 1]}, "group": {"group": "C", "m": 4}, "axis": "x"},
    ),
    "a patch transformer of nonsense": _set("base", to={"part": "PatchTransformer", "arrays": 3, "n": 5}),
    "an encoder of nonsense": _set(
        "base", to={"part": "PatchTransformer", "arrays": "n n -> 3", "n": 5, "encoder": {"family": "vit"}}
    ),
    "an encoder with an activation that is not known": _set(
        "base",
        to={"part": "PatchTransformer", "arrays": "n n -> 3", "n": 5, "encoder": {**SHAPE, "activation": "no_such"}},
    ),
    "a name for itself": _set("base", to={"own": ["x"]}),
    "more layers than there is time to make": _set("sampler", "net", "layers", to=10**8),
    "widths that take 40 GB": _set("base", "widths", to=[35, 10**5, 10**5, 3]),
    "a patch transformer of 100,000,000 layers": _set(
        "base", to={"part": "PatchTransformer", "arrays": "n n -> 3", "n": 5, "encoder": {**SHAPE, "layers": 10**8}}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_configurations_raise_errors_of_the_library(tmp_path: Path, name: str) -> None:
    edited(saved(on_graphs(), tmp_path), HOSTILE[name])
    with pytest.raises(ProbsymError, match=r"^Expected"):
        Symmetrized.from_pretrained(tmp_path)


def test_a_configuration_without_end(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"samples": 3', '"samples": ' + "[" * 900 + "]" * 900))
    with pytest.raises(ProbsymError, match=r"^Expected"):
        Symmetrized.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["antigravity", "antigravity.fly", "os.system", "builtins.eval", "__import__", "Part"])
@pytest.mark.parametrize("kind", ["part", "group", "own"])
def test_no_name_in_a_configuration_is_imported(tmp_path: Path, name: str, kind: str) -> None:
    sys.modules.pop("antigravity", None)
    saved(on_graphs(), tmp_path)
    before = set(sys.modules)
    for place in (("base",), ("sampler",), ("sampler", "net"), ("groups", "n"), ("samples",), ("signature",)):
        shutil.rmtree(tmp_path)
        edited(saved(on_graphs(), tmp_path), _set(*place, to={kind: name, "command": "touch x"}))
        with pytest.raises(CheckpointError):
            Symmetrized.from_pretrained(tmp_path)
    assert not {module for module in set(sys.modules) - before if module.startswith("antigravity")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base.layers.0.weight": None}, r"\(got 1 missing, 0 unknown, such as base.layers.0.weight\)"),
        ({"base.extra": torch.ones(1)}, r"\(got 0 missing, 1 unknown, such as base.extra\)"),
        (
            {"base.layers.0.weight": torch.ones(8, 34)},
            r"Expected base.layers.0.weight of .* \(8, 35\) \(got \(8, 34\)\)",
        ),
        ({"base.layers.0.weight": torch.ones(8, 35).int()}, "^Expected base.layers.0.weight"),
        ({"base.layers.0.weight": torch.ones(8, 35).bool()}, "^Expected base.layers.0.weight"),
        ({"base.layers.0.weight": torch.ones(8, 35).to(torch.complex64)}, "^Expected base.layers.0.weight"),
        ({"sampler.net.layers.0.outer_norm.running_var": torch.ones(8).int()}, "^Expected sampler.net.layers.0.outer"),
    ],
    ids=["missing", "extra", "shape", "int", "bool", "complex", "buffer"],
)
def test_weights_that_do_not_fit(tmp_path: Path, changes: dict[str, Tensor | None], message: str) -> None:
    reweighted(saved(on_graphs(), tmp_path), **changes)
    with pytest.raises(CheckpointError, match=message):
        Symmetrized.from_pretrained(tmp_path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite(tmp_path: Path, value: float) -> None:
    saved(on_graphs(), tmp_path)
    bad = load_file(tmp_path / "model.safetensors")["base.layers.0.weight"]
    bad[1, 2] = value
    reweighted(tmp_path, **{"base.layers.0.weight": bad})
    with pytest.raises(
        CheckpointError, match=r"Expected base.layers.0.weight of .* finite \(got 1 numbers that are not"
    ):
        Symmetrized.from_pretrained(tmp_path)


def test_buffers_may_be_infinite_but_not_nan(tmp_path: Path) -> None:
    base = Own()
    base.register_buffer("bias", torch.tensor([0.0, -torch.inf]))
    saved(on_graphs(base), tmp_path)
    assert Symmetrized.from_pretrained(tmp_path, base=base).base.bias[1] == -torch.inf
    base.bias[0] = torch.nan
    with pytest.raises(CheckpointError, match=r"Expected base.bias of .* to be finite"):
        Symmetrized.from_pretrained(saved(on_graphs(base), tmp_path, overwrite=True), base=base)


def test_weights_of_two_precisions_in_one_part(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path)
    half = load_file(tmp_path / "model.safetensors")["base.layers.0.weight"].bfloat16()
    reweighted(tmp_path, **{"base.layers.0.weight": half})
    with pytest.raises(CheckpointError, match=r"one precision .*\(got torch.bfloat16, torch.float32\)"):
        Symmetrized.from_pretrained(tmp_path)


def test_new_settings_with_old_weights_are_refused(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path / "new")
    saved(on_graphs(), tmp_path / "old")
    shutil.copy(tmp_path / "old" / "model.safetensors", tmp_path / "new")
    with pytest.raises(CheckpointError, match=r"weights that config.json names, with sha256 \w{64} \(got other ones"):
        Symmetrized.from_pretrained(tmp_path / "new")
    edited(tmp_path / "new", lambda config: config.pop("weights_sha256") and None)
    assert isinstance(Symmetrized.from_pretrained(tmp_path / "new"), Symmetrized)  # older files have no digest


def test_a_source_that_is_no_path() -> None:
    with pytest.raises(CheckpointError, match=r"Expected a folder or a hub id \(got None\)"):
        Symmetrized.from_pretrained(None)  # type: ignore[arg-type]


def test_a_base_of_another_shape_than_the_weights(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path)
    with pytest.raises(CheckpointError, match=r"Expected base.layers.0.weight of .* \(9, 35\) \(got \(8, 35\)\)"):
        Symmetrized.from_pretrained(tmp_path, base=bases.MLP([35, 9, 3], dropout=0.1))
    with pytest.raises(CheckpointError, match="Expected the weights of the model"):
        Symmetrized.from_pretrained(tmp_path, base=Own())


def test_a_base_that_is_refused_keeps_its_weights(tmp_path: Path) -> None:
    saved(on_graphs(), tmp_path)
    base = bases.MLP([35, 8, 4], dropout=0.1)
    before = base.layers[0].weight.detach().clone()
    with pytest.raises(CheckpointError, match=r"base.layers.3.weight"):
        Symmetrized.from_pretrained(tmp_path, base=base)
    assert torch.equal(base.layers[0].weight, before)


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
def test_a_folder_without_both_files(tmp_path: Path, gone: str) -> None:
    (saved(on_graphs(), tmp_path) / gone).unlink()
    with pytest.raises(CheckpointError, match=rf"Expected {gone} in .* \(got (config.json|model.safetensors)\)"):
        Symmetrized.from_pretrained(tmp_path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"\(got nothing\)"):
        Symmetrized.from_pretrained(tmp_path)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_truncated_files(tmp_path: Path, kept: int) -> None:
    for name in ("config.json", "model.safetensors"):
        saved(on_graphs(), tmp_path, overwrite=True)
        path = tmp_path / name
        path.write_bytes(path.read_bytes().rstrip()[:kept])
        with pytest.raises(CheckpointError, match=rf"Expected .*{name} to be"):
            Symmetrized.from_pretrained(tmp_path)


def test_pickled_weights_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_graphs()
    saved(model, tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("unpickled"))
    with pytest.raises(
        CheckpointError, match=r"Expected model.safetensors in .* \(got config.json, pytorch_model.bin\)"
    ):
        Symmetrized.from_pretrained(tmp_path)
    shutil.copy(tmp_path / "pytorch_model.bin", tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="to be a whole safetensors file"):
        Symmetrized.from_pretrained(tmp_path)


def test_a_path_that_is_no_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error is not to be answered with what the hub says of it."""
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: pytest.fail("asked the hub"))
    saved(on_graphs(), tmp_path)
    for source in (tmp_path / "absent", tmp_path / "model.safetensors"):
        with pytest.raises(CheckpointError, match=r"^Expected a folder"):
            Symmetrized.from_pretrained(source)


def test_build_takes_a_description() -> None:
    model = on_graphs()
    arguments = build(describe(model))
    assert describe(Symmetrized(**arguments)) == describe(model)
    assert build(describe(model), {"samples": 9})["samples"] == 9


# ------------------------------------------------------------------------------------------------------------ hub


def test_a_model_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_graphs()
    saved(model, tmp_path)
    asked = []

    def fake(repo: str, name: str, **options: Any) -> str:
        asked.append((repo, name, options))
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake)
    options = {"revision": "v2", "cache_dir": "here", "token": "secret", "force_download": True}
    loaded = Symmetrized.from_pretrained("me/model", local_files_only=True, **options)
    assert_same(loaded, model, *graphs())
    assert asked == [
        ("me/model", name, {**options, "local_files_only": True}) for name in ("config.json", "model.safetensors")
    ]


def test_a_failure_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(CheckpointError, match=r"config.json of 'me/model' on the hub \(got: no network\)"):
        Symmetrized.from_pretrained("me/model")


class FakeApi:
    """Remembers what it was asked, and keeps the files it was given."""

    calls: list[tuple[str, dict[str, Any]]]
    kept: Path

    def __init__(self, **options: Any) -> None:
        self.calls.append(("init", options))

    def create_repo(self, repo_id: str, **options: Any) -> SimpleNamespace:
        self.calls.append(("create", {"repo_id": repo_id, **options}))
        return SimpleNamespace(repo_id=f"me/{repo_id}" if "/" not in repo_id else repo_id)

    def upload_folder(self, *, folder_path: str | Path, **options: Any) -> str:
        self.calls.append(("upload", options))
        shutil.copytree(folder_path, self.kept)
        return f"https://hub/{options['repo_id']}/commit/1"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[FakeApi]:
    fake = type("Api", (FakeApi,), {"calls": [], "kept": tmp_path / "kept"})
    monkeypatch.setattr(huggingface_hub, "HfApi", fake)
    return fake


def test_push_to_hub(api: type[FakeApi]) -> None:
    model = on_graphs()
    address = model.push_to_hub(
        "model", commit_message="Mine", private=True, token="secret", branch="next", create_pr=True
    )
    assert address == "https://hub/me/model/commit/1"
    assert api.calls == [
        ("init", {"token": "secret"}),
        ("create", {"repo_id": "model", "private": True, "exist_ok": True}),
        ("upload", {"repo_id": "me/model", "revision": "next", "commit_message": "Mine", "create_pr": True}),
    ]
    assert sorted(path.name for path in api.kept.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert_same(Symmetrized.from_pretrained(api.kept), model, *graphs())


def test_push_to_hub_with_defaults(api: type[FakeApi]) -> None:
    assert on_graphs().push_to_hub("us/model").endswith("us/model/commit/1")
    options = dict(api.calls)["upload"]
    assert options["commit_message"] == "Push model using probsym."
    assert (options["repo_id"], options["revision"], options["create_pr"]) == ("us/model", None, None)


@pytest.mark.parametrize("name", ["create_repo", "upload_folder"])
def test_a_hub_that_refuses(api: type[FakeApi], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(api, name, fail)
    with pytest.raises(CheckpointError, match=r"^Expected to write to 'us/model' on the hub \(got: no network\)"):
        on_graphs().push_to_hub("us/model")


def test_the_card(api: type[FakeApi]) -> None:
    on_graphs().push_to_hub("us/model")
    card = (api.kept / "README.md").read_text()
    front = huggingface_hub.ModelCard(card).data
    assert front.library_name == "probsym"
    assert "probsym" in front.tags
    assert "A MLP, symmetrized as `n c, n n -> k` with `n`: S()" in card
    assert 'Symmetrized.from_pretrained("us/model")' in card


def test_the_card_of_a_compiled_base_names_the_base(api: type[FakeApi]) -> None:
    on_graphs(torch.compile(MADE["MLP"](), backend="eager")).push_to_hub("us/model")
    assert "A MLP, symmetrized" in (api.kept / "README.md").read_text()
