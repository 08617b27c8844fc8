"""The numbers that the paper printed, table by table, and which of our rows stands beside each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column: the task, the metric of ours that belongs in it, and whether more of it is better."""

    title: str
    task: str
    metric: str
    larger: bool


@dataclass(frozen=True)
class Line:
    """One line: the paper's name for it, our name without the task (None where only the paper has it), its numbers.

    `metric` is that of ours which belongs in it, where it is not the column's. A line that only we have, such as one of
    a smaller encoder, has no numbers.
    """

    title: str
    row: str | None
    numbers: Mapping[str, float]
    metric: str | None = None


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    number: int
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def rows(self) -> set[str]:
        """Our rows that it has a place for."""
        return {f"{column.task}/{line.row}" for line in self.lines for column in self.columns if line.row is not None}


_SEPARATION = (
    Column("GRAPH8c", "graph8c", "not_separated", False),
    Column("EXP", "exp", "not_separated", False),
    Column("EXP-classify", "exp-classify", "test_accuracy", True),
)
_NBODY = (Column("position MSE", "nbody", "test_mse", False),)
_PATTERN = (Column("accuracy", "pattern", "test_accuracy", True),)
_LRGB = (
    Column("Peptides-func AP", "peptides-func", "test_ap", True),
    Column("Peptides-struct MAE", "peptides-struct", "test_mae", False),
    Column("PCQM-Contact Hits@1", "pcqm-contact", "test_hits@1", True),
    Column("Hits@3", "pcqm-contact", "test_hits@3", True),
    Column("Hits@10", "pcqm-contact", "test_hits@10", True),
    Column("MRR", "pcqm-contact", "test_mrr", True),
)


def _table(number: int, title: str, columns: tuple[Column, ...], *rows: tuple[Any, ...]) -> PaperTable:
    """A table from tuples: the paper's name, our name, or it and our metric, then a number or None for each column."""
    lines = []
    for name, own, *numbers in rows:
        row, metric = own if isinstance(own, tuple) else (own, None)
        pairs = zip(columns, numbers, strict=True)
        given = {column.title: float(number) for column, number in pairs if number is not None}
        lines.append(Line(name, row, given, metric))
    return PaperTable(number, title, columns, tuple(lines))


TABLES: dict[int, PaperTable] = {
    table.number: table
    for table in (
        _table(
            1,
            "Graph separation: pairs not separated, and accuracy in percent",
            _SEPARATION,
            ("GCN", "gcn", 4755, 600, 50),
            ("GAT", None, 1828, 600, 50),
            ("GIN", "gin", 386, 600, 50),
            ("ChebNet", None, 44, 71, 82),
            ("PPGN", None, 0, 0, 100),
            ("GNNML3", None, 0, 0, 100),
            ("MLP-GA", "mlp-ga", 0, 0, 50),
            ("MLP-FA", "mlp-fa", 0, 0, 100),
            ("MLP-Canonical", "mlp-canonical", 0, 0, 50),
            ("MLP-PS, fixed noise", "mlp-ps-fixed-noise", 0, 0, 79.5),
            ("MLP-PS", "mlp-ps", 0, 0, 100),
        ),
        _table(
            2,
            "Charged particles: mean squared error of positions",
            _NBODY,
            ("SE(3) Transformer", None, 0.0244),
            ("TFN", None, 0.0155),
            ("Radial Field", None, 0.0104),
            ("EGNN", "egnn", 0.0071),
            ("GNN-FA", "gnn-fa", 0.0057),
            ("GNN-Canonical", "gnn-canonical", 0.0043),
            ("Transformer-Canonical", "transformer-canonical", 0.00508),
            ("Transformer-GA", "transformer-ga", 0.00414),
            ("Transformer-PS", "transformer-ps", 0.00401),
        ),
        _table(
            3,
            "PATTERN: class-averaged accuracy in percent",
            _PATTERN,
            ("GCN, 16 layers", None, 85.614),
            ("GAT, 16 layers", None, 78.271),
            ("GatedGCN, 16 layers", None, 85.568),
            ("GIN, 16 layers", None, 85.387),
            ("RingGNN, 2 layers", None, 86.245),
            ("RingGNN, 8 layers", None, None),
            ("PPGN, 3 layers", None, 85.661),
            ("PPGN, 8 layers", None, None),
            ("ViT-GA, 1 sample", ("vit-b-scratch-ga", "test_accuracy@1"), 76.956),
            ("ViT-GA, 10 samples", ("vit-b-scratch-ga", "test_accuracy@10"), 83.220),
            ("ViT-GA, 1 sample, pretrained", ("vit-b-pretrained-ga", "test_accuracy@1"), 81.933),
            ("ViT-GA, 10 samples, pretrained", ("vit-b-pretrained-ga", "test_accuracy@10"), 84.641),
            ("ViT-FA", "vit-b-scratch-fa", 71.377),
            ("ViT-FA, pretrained", "vit-b-pretrained-fa", 80.015),
            ("ViT-Canonical", "vit-b-scratch-canonical", 85.825),
            ("ViT-Canonical, pretrained", "vit-b-pretrained-canonical", 86.534),
            ("ViT-PS, 1 sample", ("vit-b-scratch-ps", "test_accuracy@1"), 85.868),
            ("ViT-PS, 10 samples", ("vit-b-scratch-ps", "test_accuracy@10"), 85.989),
            ("ViT-PS, 1 sample, pretrained", ("vit-b-pretrained-ps", "test_accuracy@1"), 86.573),
            ("ViT-PS, 10 samples, pretrained", ("vit-b-pretrained-ps", "test_accuracy@10"), 86.650),
            ("DeiT-Ti-GA, 1 sample", ("deit-ti-scratch-ga", "test_accuracy@1"), None),
            ("DeiT-Ti-GA, 10 samples", ("deit-ti-scratch-ga", "test_accuracy@10"), None),
            ("DeiT-Ti-GA, 1 sample, pretrained", ("deit-ti-pretrained-ga", "test_accuracy@1"), None),
            ("DeiT-Ti-GA, 10 samples, pretrained", ("deit-ti-pretrained-ga", "test_accuracy@10"), None),
            ("DeiT-Ti-FA", "deit-ti-scratch-fa", None),
            ("DeiT-Ti-FA, pretrained", "deit-ti-pretrained-fa", None),
            ("DeiT-Ti-Canonical", "deit-ti-scratch-canonical", None),
            ("DeiT-Ti-Canonical, pretrained", "deit-ti-pretrained-canonical", None),
            ("DeiT-Ti-PS, 1 sample", ("deit-ti-scratch-ps", "test_accuracy@1"), None),
            ("DeiT-Ti-PS, 10 samples", ("deit-ti-scratch-ps", "test_accuracy@10"), None),
            ("DeiT-Ti-PS, 1 sample, pretrained", ("deit-ti-pretrained-ps", "test_accuracy@1"), None),
            ("DeiT-Ti-PS, 10 samples, pretrained", ("deit-ti-pretrained-ps", "test_accuracy@10"), None),
        ),
        _table(
            4,
            "Long-range graph benchmark",
            _LRGB,
            ("GCN", None, 0.5930, 0.3496, 0.1321, 0.3791, 0.8256, 0.3234),
            ("GCNII", None, 0.5543, 0.3471, 0.1325, 0.3607, 0.8116, 0.3161),
            ("GINE", None, 0.5498, 0.3547, 0.1337, 0.3642, 0.8147, 0.3180),
            ("GatedGCN", None, 0.5864, 0.3420, 0.1279, 0.3783, 0.8433, 0.3218),
            ("GatedGCN+RWSE", None, 0.6069, 0.3357, 0.1288, 0.3808, 0.8517, 0.3242),
            ("Transformer+LapPE", None, 0.6326, 0.2529, 0.1221, 0.3679, 0.8517, 0.3174),
            ("SAN+LapPE", None, 0.6384, 0.2683, 0.1355, 0.4004, 0.8478, 0.3350),
            ("SAN+RWSE", None, 0.6439, 0.2545, 0.1312, 0.4030, 0.8550, 0.3341),
            ("GraphGPS", None, 0.6535, 0.2500, None, None, None, 0.3337),
            ("Exphormer", None, 0.6527, 0.2481, None, None, None, 0.3637),
            ("ViT-PS", "vit-b-pretrained-ps", 0.6575, 0.2559, 0.3287, 0.6694, 0.9526, 0.5341),
            ("DeiT-Ti-PS", "deit-ti-scratch-ps", *[None] * len(_LRGB)),
            ("DeiT-Ti-PS, pretrained", "deit-ti-pretrained-ps", *[None] * len(_LRGB)),
        ),
        _table(
            7,
            "Graph separation with GIN-ID: pairs not separated, and accuracy in percent",
            _SEPARATION,
            ("GIN-ID-GA", "gin-id-ga", 0, 0, 50),
            ("GIN-ID-FA", "gin-id-fa", 0, 0, 100),
            ("GIN-ID-Canonical", "gin-id-canonical", 0, 0, 84),
            ("GIN-ID-PS", "gin-id-ps", 0, 0, 100),
        ),
        _table(
            8,
            "Charged particles with a GNN: mean squared error of positions",
            _NBODY,
            ("GNN-FA", "gnn-fa", 0.0057),
            ("GNN-Canonical", None, 0.0043),
            ("GNN-Canonical, reproduced", "gnn-canonical", 0.00457),
            ("GNN-GA", "gnn-ga", 0.00408),
            ("GNN-PS", "gnn-ps", 0.00386),
        ),
    )
}


def listed_rows() -> set[str]:
    """Our rows that a table has a place for."""
    return {row for table in TABLES.values() for row in table.rows}


def paper_number(name: str) -> dict[str, float]:
    """The paper's numbers for a row `task/base-method`, by metric."""
    task, _, row = name.partition("/")
    return {
        line.metric or column.metric: line.numbers[column.title]
        for table in TABLES.values()
        for line in table.lines
        for column in table.columns
        if line.row == row and column.task == task and column.title in line.numbers
    }
