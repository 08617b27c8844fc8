"""A small folder of results with every kind of file that a report reads, some of it hostile."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from probsym.lab.results import write_result

HOSTILE = "demo/<script>alert(1)</script>-ps"
ORIGIN = {
    "command": "probsym train",
    "commit": "c" * 40,
    "hardware": "two cores",
    "torch": "2.13",
    "date": "2026-01-02T03:04",
}
TRAIN_DRAWS = (1, 2, 5, 10, 20, 50)


def result(row: str, seed: int = 0, changed: dict[str, Any] | None = None, **metrics: float) -> dict[str, Any]:
    rest = {"epochs": 40, "settings": {"eval_samples": 10}, "changed": changed or {}, "wall_seconds": 3.5}
    return {"row": row, "seed": seed, "metrics": metrics, "paper": {}, **rest, **ORIGIN}


def curve(rate: float, epochs: int = 40) -> list[dict[str, float]]:
    return [
        {
            "epoch": float(epoch),
            "train_loss": math.exp(-rate * epoch),
            "valid_accuracy": 100 - 50 * math.exp(-rate * epoch),
            "seconds": 0.1 * epoch,
        }
        for epoch in range(1, epochs + 1)
    ]


def write_analysis(
    folder: Path, name: str, row: str, rows: list[dict[str, Any]], seed: int = 0, **changed: Any
) -> Path:
    place = folder / row / "+".join(f"{key}={value}" for key, value in changed.items())
    place.mkdir(parents=True, exist_ok=True)
    run = {"row": row, "seed": seed, "changed": changed} if "/" in row else None
    path = place / f"seed-{seed}.{name}.json"
    path.write_text(json.dumps({"analysis": name, "run": run, "rows": rows, "questions": {}, **ORIGIN}))
    return path


def entropy_rows(rate: float = 0.2, start: float = 3.0) -> list[dict[str, Any]]:
    uniform = {"uniform_row_entropy": 3.1, "uniform_column_entropy": 3.1}
    return [
        {
            "epoch": epoch,
            "examples": 20,
            "draws": 50,
            "row_entropy": 1 + (start - 1) * math.exp(-rate * epoch),
            "column_entropy": 1.1 + (start - 1) * math.exp(-rate * epoch),
            **uniform,
        }
        for epoch in range(0, 41, 4)
    ]


def sample_size_rows(train: int, accuracy: float = 97.0) -> list[dict[str, Any]]:
    return [
        {
            "train_draws": train,
            "draws": draws,
            "examples": 2000,
            "repeats": 3,
            "accuracy": accuracy + train / 50,
            "loss_mean": (0.5 if train == 1 else 0.2) / draws**0.2,
            "loss_variance": 0.01 * train / draws,
            "output_variance": 0.1 * train / draws,
            "row_entropy": 1 + 0.1 * train**0.5,
            "column_entropy": 1.1 + 0.1 * train**0.5,
            "uniform_row_entropy": 3.1,
            "uniform_column_entropy": 3.1,
        }
        for draws in (1, 2, 5, 10, 20, 50)
    ]


def variance_rows(share: float = 0.3) -> list[dict[str, Any]]:
    return [
        {
            "method": method,
            "draws": draws,
            "examples": 20,
            "repeats": 100,
            "output_variance": size / draws,
            "loss_variance": 0.1 * size / draws,
        }
        for method, size in (("ps", share), ("ps-initial", 0.9), ("ga", 1.0))
        for draws in (1, 5, 10, 100)
    ]


def gradient_rows(size: float) -> list[dict[str, Any]]:
    return [{"epoch": epoch, "examples": 20, "draws": 10, "norm": size * (1 + epoch)} for epoch in range(0, 40, 5)]


def inner_rows(ps: float = 0.01, canonical: float = 0.5) -> list[dict[str, Any]]:
    return [
        {
            **{"graph": graph, "method": method, "draws": 100, "node": node, "orbit": 0, "embedding": 0.1},
            **{"spread": spread, "spread_stderr": spread / 9, "from_draws": 0.009 if method == "ps" else None},
        }
        for graph in ("S_6", "S_3 x S_2", "D_4")
        for method, spread in (("ps", ps), ("canonical", canonical))
        for node in range(3)
    ]


def write_everything(folder: Path) -> Path:
    """All kinds of files under a folder of results."""
    for seed, accuracy in enumerate((99.0, 99.5, 98.5)):
        write_result(folder, result("exp-classify/mlp-ps", seed, test_accuracy=accuracy, train_seconds=2.0), curve(0.1))
    write_result(folder, result("exp-classify/mlp-ga", test_accuracy=50.0), curve(0.001))
    write_result(folder, result("exp-classify/gin", test_accuracy=50.0), curve(0.0001))
    counts = {"not_separated": 3, "control_separated": 7, "pairs": 600, "controls": 1200}
    counts |= {"not_separated_calibrated": 5, "control_separated_calibrated": 1, "calibrated_pairs": 600}
    write_result(folder, result("exp/mlp-ps", **counts))
    write_result(folder, result("nbody/gnn-ps", changed={"epochs": 9}, test_mse=0.004, test_mse_std=1e-5), curve(0.2))
    write_result(folder, result(HOSTILE, test_accuracy=12.0, test_accuracy_std=0.5), curve(0.3))
    write_analysis(folder, "entropy", "exp-classify/mlp-ps", entropy_rows())
    write_analysis(folder, "variance", "exp-classify/mlp-ps", variance_rows())
    write_analysis(folder, "inner_symmetry", "figures", inner_rows())
    for train in TRAIN_DRAWS:
        changed = {} if train == 10 else {"samples": train}  # as in the paper, which changes nothing
        write_analysis(folder, "sample_size", "exp-classify/mlp-ps", sample_size_rows(train), **changed)
    write_analysis(folder, "gradient", "exp-classify/mlp-ps", gradient_rows(1.0))
    write_analysis(folder, "gradient", "exp-classify/mlp-ga", gradient_rows(0.01))
    moves = [{"move": "all", "draws": 20, "moved_noise": 1e-16, "largest": 1e-15, "fresh": 0.02, "change": 3.0}]
    moves[0]["scale"] = 2.0
    write_analysis(folder, "equivariance", "nbody/gnn-ps", moves, epochs=9)
    write_analysis(folder, "check", HOSTILE, [{"examples": 50, "draws": 500, "error": 1e-7, "left_out": 8}])
    write_analysis(folder, "new<b>", "nbody/gnn-ps", [{"what": "<img src=x>", "much": 1.25}], epochs=9)
    (folder / "benchmarks").mkdir()
    benchmark = {
        "benchmark": "exp_classify",
        "step_seconds": {"plain": 0.02, "captured": 0.005, "bare": 0.001},
        "kernels": [{"kernel": "product", "calls": 2.0, "seconds": 0.00512}, {"kernel": "a|b<c>", "seconds": 0.1}],
        **ORIGIN,
    }
    (folder / "benchmarks" / "steps.json").write_text(json.dumps(benchmark))
    (folder / "benchmarks" / "odd.json").write_text(json.dumps({"a": {"b": [1, 2]}, "c": None, "d": True}))
    return folder
