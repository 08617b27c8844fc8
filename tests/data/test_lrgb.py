import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probsym.data import PackedGraphs, files, pcqm_contact, peptides_func, peptides_struct
from probsym.data.lrgb import PCQM_ATOMS, PCQM_BONDS, PEPTIDES_ATOMS, PEPTIDES_BONDS
from probsym.data.lrgb_files import Known
from probsym.errors import DataError, DependencyError, RangeError
from tests.data.molecules import Molecule, contacts, molecule, peptides, write

MODULE = importlib.import_module("probsym.data.lrgb")
DATA = Path(os.environ.get("PROBSYM_DATA", ""), "peptides_func.npz")
real = pytest.mark.skipif(not DATA.is_file(), reason="needs PROBSYM_DATA")
OGB_ATOMS, OGB_BONDS = (119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for name in ("own", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PROBSYM_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("PROBSYM_CACHE", str(tmp_path / "cache"))
    small = {"peptides-func": Known(4, 2.5, 1.5, 4), "peptides-struct": Known(4, 2.5, 1.5, 4)}
    monkeypatch.setattr(MODULE, "KNOWN", {**small, "pcqm-contact": Known(4, 2.75, 1.25, 4)})
    return tmp_path / "own", tmp_path / "cache"


def assert_molecules(packed: dict[str, PackedGraphs], parts: list[list[Molecule]], atoms: tuple[int, ...]) -> None:
    assert list(packed) == ["train", "valid", "test"]
    for graphs, part in zip(packed.values(), parts, strict=True):
        batch = graphs.batch(torch.arange(len(part)))
        dense = batch.edges.dense()
        assert len(graphs) == len(part)
        for b, (x, bonds, edges, *_) in enumerate(part):
            assert int(batch.mask[b].sum()) == len(x)
            for i, kinds in enumerate(x.tolist()):
                hot = [sum(atoms[:c]) + kind for c, kind in enumerate(kinds)]
                assert batch.features[b, i].nonzero()[:, 0].tolist() == hot
            assert int(dense[b, ..., 0].sum()) == len(bonds)
            assert all(dense[b, i, j].sum() == 4 for i, j in edges.T.tolist())


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("name", "load", "k"), [("peptides-struct", peptides_struct, 11), ("peptides-func", peptides_func, 10)]
)
def test_peptides_are_read_from_raw_files(
    name: str, load: Any, k: int, place: int, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(places[place], name, peptides(k))
    packed = load(download=False)
    assert_molecules(packed, peptides(k), PEPTIDES_ATOMS)
    assert packed["train"].batch(torch.tensor([1])).targets.tolist() == [list(range(k, 2 * k))]
    for path in (places[place] / name / "raw").iterdir():
        path.unlink()
    assert_molecules(load(download=False), peptides(k), PEPTIDES_ATOMS)  # packed by now


def test_contacts_are_targets_of_pairs(places: tuple[Path, Path]) -> None:
    write(places[0], "pcqm-contact", contacts())
    packed = pcqm_contact(download=False)
    assert_molecules(packed, contacts(), PCQM_ATOMS)
    batch = packed["train"].batch(torch.tensor([1, 0]))
    assert batch.targets.shape == batch.known.shape == (2, 4, 4)
    assert not batch.known[0].any()  # a molecule without contacts
    assert batch.known[1].nonzero().tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert batch.targets[1].nonzero().tolist() == [[0, 2], [2, 0]]
    assert packed["valid"].batch(torch.tensor([0])).known.nonzero().tolist() == [[0, 1, 0]]
    assert packed["valid"].batch(torch.tensor([0])).targets.sum() == 0


def test_torch_geometric_takes_the_same_files(places: tuple[Path, Path]) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    write(places[0], "pcqm-contact", contacts())
    theirs = datasets.LRGBDataset(str(places[0]), "PCQM-Contact", split="train")
    ours = pcqm_contact(download=False)["train"]
    assert len(theirs) == len(ours)
    assert torch.equal(theirs[0].x, ours.nodes.values[:3].long())
    assert torch.equal(theirs[0].edge_label_index.T, ours.pairs.values[:4].long())  # type: ignore[union-attr]


def test_what_is_missing_is_downloaded_by_torch_geometric_and_only_read_by_us(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    called = []

    def download(self: Any) -> None:
        called.append(self.raw_dir)
        write(Path(self.root), self.name, peptides(11))

    def refuse(*_: object) -> None:
        raise AssertionError("read by torch-geometric")

    monkeypatch.setattr(datasets.LRGBDataset, "download", download)
    monkeypatch.setattr(datasets.LRGBDataset, "process", refuse)
    monkeypatch.setattr("torch_geometric.io.fs.torch_load", refuse)
    with pytest.raises(DataError, match=r"peptides-struct/raw/train.pt, .* in .*own or .*cache.*LRGBDataset"):
        peptides_struct(download=False)
    assert_molecules(peptides_struct(), peptides(11), PEPTIDES_ATOMS)
    assert_molecules(peptides_struct(), peptides(11), PEPTIDES_ATOMS)
    assert called == [str(places[1] / "peptides-struct" / "raw")]


def test_a_download_that_fails_is_a_data_error(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")

    def download(_: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(datasets.LRGBDataset, "download", download)
    with pytest.raises(DataError, match=r"Expected to download pcqm-contact \(got: no network\)"):
        pcqm_contact()


def test_without_torch_geometric_there_is_no_download(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(DependencyError, match=r"torch-geometric .* probsym\[graphs\]"):
        peptides_struct()
    write(places[0], "peptides-struct", peptides(11))
    assert len(peptides_struct()["train"]) == 2  # and none is needed to read


class Hostile:
    """Pickles as a call that leaves a folder behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_no_file_runs_code(places: tuple[Path, Path]) -> None:
    write(places[0], "peptides-struct", [[Hostile(places[0] / "was-run")], *peptides(11)[1:]])
    with pytest.raises(DataError, match="nothing but tensors"):
        peptides_struct(download=False)
    assert not (places[0] / "was-run").exists()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([Path("anything but a tensor")], "nothing but tensors"),
        ([], "Expected molecules"),
        ([(torch.zeros(1, 9), torch.zeros(0, 3))], "Expected molecules"),
        ([(*peptides(11)[0][0][:2], torch.zeros(2, 3), torch.zeros(1, 11))], "Expected molecules"),
        ([molecule(3, [], 0, torch.zeros(1, 11))], "Expected 4 graphs"),
        ([(torch.full((3, 9), -1), *peptides(11)[0][0][1:]), peptides(11)[0][1]], "whole numbers from 0"),
        ({"x": torch.zeros(1)}, "a list of graphs"),
    ],
)
def test_other_files_are_refused(broken: Any, message: str, places: tuple[Path, Path]) -> None:
    write(places[0], "peptides-struct", [broken, *peptides(11)[1:]])
    with pytest.raises(DataError, match=message):
        peptides_struct(download=False)
    assert not list(places[1].iterdir())


def test_kinds_that_no_molecule_should_have_are_refused(places: tuple[Path, Path]) -> None:
    (x, *rest), *others = peptides(11)[0]
    write(places[0], "peptides-struct", [[(x + torch.eye(9, dtype=torch.int64)[5], *rest), *others], *peptides(11)[1:]])
    with pytest.raises(RangeError, match="kinds of nodes below"):
        peptides_struct(download=False)


def test_the_packed_peptides_are_checked(places: tuple[Path, Path]) -> None:
    files.save(places[0] / "peptides_func.npz", {"x": np.zeros((3, 9))})
    with pytest.raises(DataError, match="to have sha256"):
        peptides_func(download=False)


@real
def test_peptides_func_is_the_published_set() -> None:
    packed = peptides_func(download=False)
    assert {name: len(graphs) for name, graphs in packed.items()} == {"train": 10_873, "valid": 2_331, "test": 2_331}
    assert sum(len(graphs.nodes.values) for graphs in packed.values()) == 2_344_859
    assert sum(len(graphs.edges.values) for graphs in packed.values()) == 4_773_974
    nodes, edges = 2_344_859 / 15_535, 4_773_974 / 15_535
    known = MODULE.KNOWN["peptides-func"]
    assert (round(nodes, 2), round(edges, 2), packed["test"].n) == (known.nodes, known.edges, known.most)
    arrays = files.load(DATA)
    for name, part in (("train", "train"), ("valid", "val"), ("test", "test")):
        index = torch.tensor([0, len(packed[name]) - 1])
        batch = packed[name].batch(index)
        for b, i in enumerate(arrays[part][index].tolist()):
            first, last = arrays["node_ptr"][i : i + 2]
            assert int(batch.mask[b].sum()) == last - first
            assert batch.features[b, : last - first].sum(-1).unique().tolist() == [9]
            assert batch.targets[b].tolist() == arrays["y"][i].tolist()
            first, last = arrays["edge_ptr"][i : i + 2]
            wanted = np.zeros((444, 444))
            wanted[tuple(arrays["edge_index"][:, first:last])] = 1
            assert np.array_equal(batch.edges.dense()[b, ..., 0], wanted)


@real
def test_the_kinds_are_those_that_occur() -> None:
    arrays = files.load(DATA)
    assert tuple(arrays["x"].max(0) + 1) == PEPTIDES_ATOMS
    assert tuple(arrays["edge_attr"].max(0) + 1) == PEPTIDES_BONDS


def test_the_kinds_of_every_feature_are_those_of_the_published_code() -> None:
    """Of peptides and of PCQM-Contact, in the order of the Open Graph Benchmark."""
    atoms = {
        "atomic number": (17, 35),
        "chirality": (3, 3),
        "degree": (7, 7),
        "formal charge": (7, 7),
        "hydrogens": (5, 2),
        "radical electrons": (1, 4),
        "hybridization": (6, 6),
        "aromatic": (2, 2),
        "in a ring": (2, 2),
    }
    bonds = {"type": (4, 4), "stereo": (1, 1), "conjugated": (2, 1)}
    assert list(atoms.values()) == list(zip(PEPTIDES_ATOMS, PCQM_ATOMS, strict=True))
    assert list(bonds.values()) == list(zip(PEPTIDES_BONDS, PCQM_BONDS, strict=True))


def test_no_kind_is_beyond_those_of_the_open_graph_benchmark() -> None:
    for kinds, most in (
        (PEPTIDES_ATOMS, OGB_ATOMS),
        (PEPTIDES_BONDS, OGB_BONDS),
        (PCQM_ATOMS, OGB_ATOMS),
        (PCQM_BONDS, OGB_BONDS),
    ):
        assert all(count <= many for count, many in zip(kinds, most, strict=True))
    assert [sum(kinds) for kinds in (PEPTIDES_ATOMS, PEPTIDES_BONDS, PCQM_ATOMS, PCQM_BONDS)] == [50, 7, 68, 6]
