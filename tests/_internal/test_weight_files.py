import json
import pickle
import struct
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError
from safetensors.torch import save_file

import probsym
from probsym._internal.json_file import read_object
from probsym._internal.weight_files import download, locate, read_tensors
from probsym.errors import CheckpointError, ProbsymError

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.arange(4), "c": torch.ones(2, dtype=torch.bfloat16)}


@pytest.fixture(autouse=True)
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever unpickles fails the test with an error that nothing in the library is to catch."""

    def refuse(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("unpickled")

    for owner, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(owner, name, refuse)


def saved(folder: Path, name: str = "model.safetensors", tensors: dict[str, torch.Tensor] = TENSORS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / name)
    return folder / name


def sharded(folder: Path, weight_map: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def same(actual: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    alike = all(torch.equal(actual[name], x) and actual[name].dtype == x.dtype for name, x in wanted.items())
    return alike and set(actual) == set(wanted)


# ------------------------------------------------------------------------------------------------------- tensors


def test_reads_every_tensor_in_its_dtype(tmp_path: Path) -> None:
    assert same(read_tensors(saved(tmp_path)), TENSORS)


def test_reads_all_parts_that_an_index_names(tmp_path: Path) -> None:
    for i, (name, x) in enumerate(TENSORS.items()):
        saved(tmp_path, f"part-{i}.safetensors", {name: x})
    saved(tmp_path, "other.safetensors", {"stray": torch.ones(1)})
    index = sharded(tmp_path, {name: f"part-{i}.safetensors" for i, name in enumerate(TENSORS)})
    assert same(read_tensors(index), TENSORS)


@pytest.mark.parametrize("outside", ["../model.safetensors", "{root}/model.safetensors", "sub/../../model.safetensors"])
def test_an_index_names_no_file_outside_its_folder(tmp_path: Path, outside: str) -> None:
    saved(tmp_path)
    index = sharded(tmp_path / "inside", {"b": outside.format(root=tmp_path)})
    (tmp_path / "inside" / "sub").mkdir()
    with pytest.raises(CheckpointError, match=r"index.json to name files beside it \(got \["):
        read_tensors(index)


@pytest.mark.parametrize(
    "weight_map",
    [
        {"b": "absent.safetensors"},
        {"b": "pytorch_model.bin"},
        {"b": ".."},
        {"b": ""},
        {"b": 3},
        {"b": None},
        {"b": ["x"]},
        ["b"],
        "b",
        3,
        {"b": "model.safetensors.index.json"},
        {"b": "nul\0byte.safetensors"},
    ],
    ids=repr,
)
def test_an_index_of_nonsense_is_refused(tmp_path: Path, weight_map: Any) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(CheckpointError, match=r"^Expected"):
        read_tensors(sharded(tmp_path, weight_map))


def test_an_index_whose_parts_lack_a_tensor_that_it_names_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "part.safetensors", {"b": TENSORS["b"]})
    with pytest.raises(CheckpointError, match="absent"):
        read_tensors(sharded(tmp_path, {"b": "part.safetensors", "absent": "part.safetensors"}))


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 40, 100, -9, -1])
def test_truncated_files_are_refused(tmp_path: Path, kept: int) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"model.safetensors to be a whole safetensors file \(got: "):
        read_tensors(path)


def _header(text: bytes, length: int | None = None, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"hello, world, this is no tensor",
        pickle.dumps({"a": 1}),
        _header(b"{}", 2**63),
        _header(b"[]"),
        _header(b"\xff\xfe{}"),
        _header(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', data=b"1234"),
        _header(b'{"a":{"dtype":"F32","shape":[9999999999999],"data_offsets":[0,4]}}', data=b"1234"),
        _header(b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', data=b"1234"),
        _header(b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}', data=b"1234"),
        _header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', data=b"12345678"),
        _header(b"[" * 5000),
    ],
    ids=range(11),
)
def test_files_that_are_no_safetensors_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"to be a whole safetensors file \(got: "):
        read_tensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt", ".pkl"])
def test_pickled_files_are_refused_by_their_name(tmp_path: Path, suffix: str) -> None:
    path = saved(tmp_path, f"model{suffix}")
    with pytest.raises(CheckpointError, match=rf"pickled ones can run code \(got model{suffix}\)"):
        read_tensors(path)


def test_a_pickle_under_another_name_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = f"cos\nmkdir\n(V{mark}\ntR.".encode()  # a pickle that makes a folder
    for name in ("model.safetensors", "model.BIN", "model.Pt", "model"):
        (tmp_path / name).write_bytes(program)
        with pytest.raises(CheckpointError):
            read_tensors(tmp_path / name)
    assert not mark.exists()


def test_nothing_that_loads_names_what_unpickles() -> None:
    source = Path(probsym.__file__).parent
    paths = [*(source / "_internal").glob("*.py"), *(source / "bases").glob("*.py")]
    assert len(paths) > 15
    for path in paths:
        text = path.read_text()
        assert not any(word in text for word in ("torch.load(", "pickle.load", "import pickle", "joblib")), path


# ------------------------------------------------------------------------------------------------------ location


@pytest.mark.parametrize("name", ["model.safetensors", "weights-of-mine.safetensors"])
def test_locates_a_file_or_the_folder_around_it(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, name)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    for source in (path, str(path), tmp_path, str(tmp_path)):
        assert locate(source) == (path, {"model_type": "vit"})


def test_model_safetensors_comes_before_an_index_and_other_files(tmp_path: Path) -> None:
    saved(tmp_path, "a.safetensors")
    index = sharded(tmp_path, {"b": "a.safetensors"})
    assert locate(tmp_path) == (index, {})
    assert locate(saved(tmp_path).parent)[0].name == "model.safetensors"


@pytest.mark.parametrize("names", [[], ["pytorch_model.bin"], ["a.safetensors", "b.safetensors"], ["config.json"]])
def test_folders_without_one_file_of_weights_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    there = ", ".join(names) or "nothing"
    with pytest.raises(CheckpointError, match=rf"Expected model.safetensors in .*\(got {there}\)"):
        locate(tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "/no/such/folder",
        "no/such/folder",
        "absent.safetensors",
        "a/absent.bin",
        "absent.pt",
        "../x",
        "~/x/y",
        "",
        " ",
        "a b",
    ],
)
def test_paths_that_do_not_exist_are_not_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(CheckpointError, match=r"^Expected"):
        locate(source)


@pytest.mark.parametrize("source", ["x" * 5000, "nul\0byte", "a/b\n"], ids=["long", "nul", "newline"])
def test_paths_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(CheckpointError, match=r"^Expected"):
        locate(source)


# ----------------------------------------------------------------------------------------------------------- hub


def test_a_hub_id_is_downloaded_with_all_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    asked = []

    def fake(repo: str, name: str, **options: Any) -> str:
        asked.append((repo, name, options))
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake)
    options = {"revision": "v1", "cache_dir": tmp_path / "cache", "token": "t", "local_files_only": True}
    assert locate("some-one/a_model.v2", **options) == (tmp_path / "model.safetensors", {"model_type": "vit"})
    assert sorted(name for _, name, _ in asked) == ["config.json", "model.safetensors"]
    assert all(repo == "some-one/a_model.v2" and given == options for repo, _, given in asked)


@pytest.mark.parametrize("error", [OSError("offline"), ValueError("bad id"), RuntimeError("x"), FileNotFoundError("y")])
def test_a_failure_of_the_hub_is_a_checkpoint_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(
        CheckpointError, match=rf"find model.safetensors of 'a/b' on the hub \(got: {error}\)"
    ) as caught:
        download("a/b", "model.safetensors")
    assert caught.value.__cause__ is error
    with pytest.raises(CheckpointError):
        locate("a/b")


def test_a_sharded_repository_on_the_hub_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, "part.safetensors")
    sharded(tmp_path, dict.fromkeys(TENSORS, "part.safetensors"))
    (tmp_path / "config.json").write_text("{}")

    def fake(repo: str, name: str, **_: Any) -> str:
        if not (tmp_path / name).is_file():
            raise EntryNotFoundError(name)
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake)
    assert same(read_tensors(locate("a/b")[0]), TENSORS)


# ---------------------------------------------------------------------------------------------------------- JSON


def test_json_is_an_object_or_absent(tmp_path: Path) -> None:
    assert read_object(tmp_path / "absent.json") == {}
    (tmp_path / "a.json").write_text('{"a": [1, null]}')
    assert read_object(tmp_path / "a.json") == {"a": [1, None]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"to be JSON \(got: "),
        (b"{", r"to be JSON \(got: "),
        (b"\xff\xfe\x00", r"to be JSON \(got: "),
        (b"{'a': 1}", r"to be JSON \(got: "),
        (b"[1]", r"to hold an object \(got list\)"),
        (b"null", r"to hold an object \(got NoneType\)"),
        (b'{"a":' + b"[" * 200_000, "^Expected"),
        (b'{"a":' + b"9" * 10_000 + b"}", "^Expected"),
    ],
    ids=["empty", "half", "binary", "python", "list", "null", "deep", "long number"],
)
def test_broken_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_object(tmp_path / "config.json", CheckpointError)


def test_checkpoint_errors_are_value_errors_of_the_library() -> None:
    assert issubclass(CheckpointError, ValueError)
    assert issubclass(CheckpointError, ProbsymError)
