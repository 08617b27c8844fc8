import csv
import json
import re
import statistics
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import probsym
from benchmarks import trained_potentials_chart
from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.lab.paper import TABLES
from probsym.lab.report import load_results
from probsym.lab.report.comparison import LEGEND
from probsym.lab.report.paper_tables import paper_grid
from tests.side_by_side import finish, free_port
from tests.symmetrized_cases import IN_CI

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "gallery" not in path.parts)]
WITH_NAMES = (
    "averages.md",
    "gradients.md",
    "inference.md",
    "nets.md",
    "potentials.md",
    "processes.md",
    "tools.md",
    "training.md",
)
"""Pages whose code needs more than it says; they have tests of their own."""
BENCHMARKS = ROOT / "results" / "benchmarks"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in WITH_NAMES], ids=name_of)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    built = ("gallery/index.rst",)
    inside = [link for link in links if not link.startswith("https://") and not link.endswith(built)]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted((DOCS / "theory").glob("*.md")), ids=name_of)
def test_the_tests_that_theory_names_exist(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    assert len(named) > 5
    assert [(file, test) for file, test in named if f"def {test}" not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_result_files_and_pictures_that_exist(page: Path) -> None:
    text = page.read_text()
    named = [name for name in re.findall(r"`(results/[^`]+)`", text) if not list(ROOT.glob(name))]
    beside = [
        name for name in re.findall(r"`([\w.-]+\.(?:json|csv))`", text) if not list(ROOT.glob(f"results/**/{name}"))
    ]
    pictures = [name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text) if not (page.parent / name).exists()]
    assert (named, beside, pictures) == ([], [], [])


def test_every_benchmark_is_named_on_a_page() -> None:
    named = {name for page in PAGES for name in re.findall(r"(\w+\.json)`", page.read_text())}
    assert {path.name for path in BENCHMARKS.glob("*.json")} - named == set()


def test_every_picture_is_shown_on_a_page() -> None:
    shown = {name for page in PAGES for name in re.findall(r"pictures/([\w.-]+)\)", page.read_text())}
    assert {path.name for path in (DOCS / "pictures").iterdir()} == shown


def test_curves_belong_to_a_benchmark() -> None:
    results = [path.stem for path in BENCHMARKS.glob("*.json")]
    assert [path.name for path in BENCHMARKS.glob("*.csv") if not path.stem.startswith(tuple(results))] == []


def test_the_code_about_gradients_runs() -> None:
    torch.manual_seed(0)
    page = (ROOT / "docs" / "gradients.md").read_text()
    base = bases.MLP([12, 16, 1], activation="tanh", shape=())
    model = Symmetrized(base, "m d:point -> ", {"d": groups.E(3)}, samplers.Frame())
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "nets": nets, "model": model}
    names |= {"x": torch.randn(2, 4, 3), "forces": torch.randn(2, 4, 3)}
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert base.layers[0].weight.grad is not None


def test_the_code_about_training_runs_in_a_loop_in_lightning_and_in_hugging_face(tmp_path: Path) -> None:
    names: dict[str, Any] = {"folder": str(tmp_path)}
    first, *trainings = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.S)
    exec(first, names)
    train, make_model = names["train"], names["make_model"]

    def loss(model: Symmetrized) -> float:
        features, adjacency, mask, label = train.tensors
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            logits = model.eval()(features, adjacency, mask=mask, samples=20, generator=generator)
            return float(torch.nn.functional.cross_entropy(logits, label))

    assert len(trainings) == 3
    before = loss(make_model())
    for block, trained in zip(trainings, ("model", "classifier", "hugging"), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the trainers themselves, about workers and their own versions
            exec(block, names)
        result = names[trained]
        model = result if trained == "model" else result.model if trained == "classifier" else result.model.model
        assert loss(model) < before - 0.05, trained


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
@pytest.mark.parametrize("sharded", [False, pytest.param(True, marks=IN_CI)])
def test_loops_in_two_processes_end_as_in_one(sharded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *loops = re.findall(r"```python\n(.*?)```", (DOCS / "processes.md").read_text(), re.S)
    precise = "import torch\ntorch.set_default_dtype(torch.float64)\n"
    (tmp_path / "train.py").write_text(precise + first + loops[sharded])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    ended = finish([["train.py"]] * 2, [{**common, "RANK": str(rank)} for rank in range(2)], tmp_path)
    assert [code for code, _, _ in ended] == [0, 0], ended
    weights = torch.load(tmp_path / "model.pt", weights_only=True)

    monkeypatch.chdir(tmp_path)
    alone = {"get_rank": 0, "get_world_size": 1} | dict.fromkeys(
        ("init_process_group", "barrier", "destroy_process_group")
    )
    for name, value in alone.items():
        monkeypatch.setattr(torch.distributed, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", lambda module: module)
    try:
        exec(precise + first + loops[0], {})
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(weights, torch.load("model.pt", weights_only=True), rtol=0, atol=1e-6)


def test_the_code_about_nets_runs() -> None:
    torch.manual_seed(0)
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "nets": nets, "groups": groups}
    names |= {"Symmetrized": Symmetrized, "images": torch.randn(2, 8, 8), "classifier": lambda x: x[:, 0]}
    names |= {"types": torch.rand(2, 6, 5), "positions": torch.randn(2, 6, 3)}
    names |= {"mask": torch.ones(2, 6, dtype=torch.bool)}
    names |= {"energy": lambda types, positions, mask: (types[..., 0] * positions[..., 0] * mask["n"]).sum(1)}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "nets.md").read_text(), re.S)
    for block in blocks:
        exec(block, names)
    assert names["energies"].shape == (2,)  # type: ignore[attr-defined]
    assert names["logits"].shape == (2, 8)  # type: ignore[attr-defined]


def test_the_code_about_inference_runs() -> None:
    torch.manual_seed(0)
    model = Symmetrized(lambda x: x[:, 0, 0] / 5, "n c -> ", {"n": groups.S()})
    names: dict[str, object] = {"torch": torch, "model": model, "x": torch.randn(2, 6, 1)}
    names |= {"mask": torch.ones(2, 6, dtype=torch.bool)}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "inference.md").read_text(), re.S):
        exec(block, names)
    assert isinstance(names["samples"], int)
    assert names["samples"] > 100


@pytest.mark.filterwarnings("ignore")  # of torch.onnx itself
def test_the_code_about_tools_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    page = (ROOT / "docs" / "tools.md").read_text()
    model = Symmetrized(bases.MLP([12, 1]), "n c -> k", {"n": groups.S()}, samples=3)
    names: dict[str, object] = {
        "torch": torch,
        "model": model,
        "x": torch.randn(2, 4, 3),
        "other": torch.randn(5, 4, 3),
    }
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 3
    exec(
        blocks[0].replace("drawing =", "wanted = model(other, noise=noise)\nassert torch.equal(y, wanted)\ndrawing ="),
        names,
    )
    for block in blocks[1:]:
        exec(block, names)
    assert {path.suffix for path in tmp_path.iterdir()} == {".pt2", ".onnx"}
    assert [len(gradient) for gradient in names["each"].values()] == [2, 2]  # type: ignore[attr-defined]


def test_the_code_about_averages_runs() -> None:
    torch.manual_seed(0)
    page = (ROOT / "docs" / "averages.md").read_text()
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5))
    score = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 1))
    net = nets.Lifted(score, groups.C(4), axis=(-2, -1), kind="grid", rank=3)
    names: dict[str, object] = {"torch": torch, "samplers": samplers, "groups": groups, "Symmetrized": Symmetrized}
    names |= {"base": bases.MLP([12, 16, 1], activation="tanh", shape=()), "x": torch.randn(2, 4, 3)}
    names |= {"classifier": classifier, "images": torch.randn(6, 3, 8, 8), "labels": torch.arange(6) % 5, "net": net}
    names |= {"__name__": "page", "matrices": (m := torch.randn(3, 4, 4)) + m.mT, "reader": bases.MLP([16, 8, 2])}
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 6
    for block in blocks:
        exec(block, names)
    assert names["energy"].shape == (2,)
    assert names["logits"].shape == (6, 5)
    assert score[1].weight.grad.abs().max() > 0
    assert names["readout"].shape == (3, 2)


def test_the_marks_of_tables_are_explained_as_in_the_report() -> None:
    assert LEGEND in " ".join((DOCS / "results" / "index.md").read_text().split())


def test_every_table_with_a_number_of_ours_is_on_the_page() -> None:
    data = load_results(ROOT / "results")
    ours = {number for number, table in TABLES.items() if paper_grid(table, data) is not None}
    shown = re.findall(r"{paper-table} (\d+)", (DOCS / "results" / "index.md").read_text())
    assert {int(number) for number in shown} == ours


def test_accuracy_by_draws_in_training_is_that_of_the_files() -> None:
    (line,) = re.findall(r"\| test accuracy, % \| (.*) \|", (DOCS / "guide" / "draws.md").read_text())
    folder = ROOT / "results" / "exp-classify" / "mlp-ps"
    for draws, cell in zip((1, 2, 5, 10, 20, 50), line.split(" | "), strict=True):
        files = sorted(folder.glob(f"samples={draws}/*.sample_size.csv" if draws != 10 else "*.sample_size.csv"))
        rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines()) if row["draws"] == "10"]
        accuracies = sorted(f"{float(row['accuracy']):.1f}" for row in rows)
        assert sorted(cell.split(", ")) == accuracies, draws


def test_settings_of_samplers_are_those_of_the_file() -> None:
    rows = json.loads((BENCHMARKS / "sampler_settings_cpu.json").read_text())["rows"]
    page = (DOCS / "guide" / "temperature.md").read_text()
    usual = {"tau": 0.01, "noise": 1.0, "entropy": 0.1, "samples": 4}
    shown = re.findall(r"^\| (?:`(\w+)=([\d.]+)`|nothing) \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    assert len(shown) == len({tuple(row[name] for name in usual) for row in rows})
    for name, value, accuracy, loss in shown:
        wanted = {**usual, name: float(value)} if name else usual
        matching = [row for row in rows if all(row[setting] == wanted[setting] for setting in usual)]
        assert f"{statistics.mean(row['accuracy'] for row in matching):.1f}" == accuracy, wanted
        assert f"{statistics.mean(row['loss'] for row in matching):.2f}" == loss, wanted


def test_whoever_names_the_version_names_this_one() -> None:
    named = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    named += re.findall(r"probsym-([\d.]+)-py3", (DOCS / "start" / "install.md").read_text())
    named += re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[:1]
    assert named == [probsym.__version__] * 3


def test_the_code_about_potentials_runs() -> None:
    torch.manual_seed(0)
    network = torch.nn.Bilinear(3, 3, 1, dtype=torch.float64)
    names: dict[str, Any] = {"network": lambda types, x: network(types, x.tanh()).sum((1, 2))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the network is in a function
        for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "potentials.md").read_text(), re.S):
            exec(block, names)
    assert names["degree"] == 0  # EMT is invariant
    assert names["forces"].shape == (6, 3)
    assert names["calculator"].conservative


def test_variances_of_rules_are_those_of_the_file() -> None:
    results = json.loads((BENCHMARKS / "quadrature_cpu.json").read_text())
    page = (DOCS / "averages.md").read_text()
    names = {"random network": "random network", "GNN": "GNN", "transformer": "nbody/transformer-ps"}
    shown = re.findall(r"^\| ([\w ]+), degree (\d) \| (\d+) \| (.+) \| (.+) \| (.+) \|$", page, re.M)
    assert len(shown) == 18
    for name, degree, calls, *variances in shown:
        rows = [row for row in results[names[name]] if row["degree"] == int(degree)]
        assert {row["calls"] for row in rows} == {int(calls)}
        assert variances == [f"{row['variance']:.1e}".replace("e-0", "e-") for row in rows]
    for name, ratios in (("GNN", "16, 24, 125 and 23"), ("transformer", "45, 78, 337 and 418")):
        by_way = {(row["way"], row["degree"]): row.get("variance") for row in results[names[name]]}
        times = [round(by_way["uniform draws", degree] / by_way["quadrature", degree]) for degree in (4, 5, 6, 7)]
        assert re.findall(r"\d+", ratios) == [str(ratio) for ratio in times]
        assert ratios in " ".join(page.split())


def test_accuracies_of_turned_images_are_those_of_the_file() -> None:
    names = ("turned_images_deit_tiny_cpu.json", "turned_images_efficientnet_lite0_cpu.json")
    results = [json.loads((BENCHMARKS / name).read_text()) for name in names]
    page = (DOCS / "turned-images.md").read_text()
    for group, turns in (("C4", 4), ("D4", 8), ("any angle, C8", 1)):
        cells = r" \| ".join([r"([\d.]+)"] * turns)
        shown = re.findall(rf"^\| [^|]+ \| (\d+) \| {cells} \| ([\d.]+) to ([\d.]+) \|", page, re.M)
        rows = [
            (str(row["passes"]), *(f"{number:.1f}" for number in (*row["accuracy"], *row["interval"][0])))
            for result in results
            for row in result[group]["rows"].values()
        ]
        assert len(rows) > 20
        assert shown == rows, group
    bare, head = (results[0]["C4"]["rows"][row]["accuracy"] for row in ("bare", "energy: head, tau 1"))
    readme = (ROOT / "README.md").read_text()
    assert f"drops from {bare[0]:.1f} % to between {min(bare):.0f} and {max(bare[1:]):.0f} %" in readme
    assert f"trained head it reaches {head[0]:.1f} % in every orientation" in readme


def test_tables_of_trained_potentials_are_those_of_the_files() -> None:
    results = ROOT / "results"
    wanted = trained_potentials_chart.tables(json.loads((results / trained_potentials_chart.FILE).read_text()), results)
    assert trained_potentials_chart.block_of((DOCS / "potentials.md").read_text()) == wanted


def test_memory_of_draws_in_parts_is_what_the_file_says() -> None:
    results = json.loads((BENCHMARKS / "draws_in_parts_cpu.json").read_text())
    page = " ".join((DOCS / "results" / "cost.md").read_text().split())
    few, many, parts = (round(results["haar"]["added_bytes"][form] / 1e6) for form in results["haar"]["added_bytes"])
    learned = round(results["learned"]["added_bytes"]["200 in parts of 20"] / 1e6)
    times = results["haar"]["seconds"]["200 in parts of 20"] / results["haar"]["seconds"]["200"]
    assert f"200 draws holds {parts} MB, hardly more than the {few} MB of 20 draws, instead of {many} MB" in page
    assert f"With learned orders it holds {learned} MB" in page
    assert f"takes {times:.1f} times as long" in page
    assert parts < 1.1 * few


def test_memory_on_lists_of_edges_is_what_the_file_says() -> None:
    results = json.loads((BENCHMARKS / "sparse_graphs_cpu.json").read_text())
    page = (DOCS / "guide" / "masks.md").read_text()
    sizes = f"{results['nodes']:,} nodes, {results['edges']:,} edges and {results['draws']} draws"
    shown = re.search(rf"{sizes}[^.]+? less than ([\d.]+) GB[^.]+less than ([\d.]+) GB", page)
    assert shown is not None
    assert max(results["added_bytes"].values()) < float(shown[1]) * 1e9
    assert results["process_bytes"] < float(shown[2]) * 1e9
