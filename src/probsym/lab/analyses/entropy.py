"""How the distribution over permutations sharpens while a model is trained (paper, Figure 2)."""

from __future__ import annotations

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, drawing_model, kept_weights_of, test_set
from probsym.lab.analyses.concentration import concentrations
from probsym.lab.engine import Engine
from probsym.lab.examples import Stored
from probsym.lab.seeds import derived, seeded
from probsym.symmetrized import Symmetrized

DRAWS = 50
"""As many as the paper averages."""


def by_epoch(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each epoch whose weights were kept: the entropies of the mean permutation matrix, mean over inputs.

    Numbers are those of the analysis of concentration, of the test set, but with the sampler in training mode, as it
    draws while it learns: the statistics that norms gather over time say nothing of the data in the first epochs, and a
    sampler that relies on them looks far more certain than it is. All epochs share their random numbers. `epochs` is
    how many the run had, the same in all rows.
    """
    model, kept = drawing_model(engine), kept_weights_of(engine)
    examples, count, _ = test_set(engine, questions)
    rows, total = [], len(kept.epochs)
    for place, epoch in enumerate(kept.revisited(model, "sampler")):
        with seeded(engine.device, derived(questions.seed, "entropy")):
            entropies = permutation_entropies(model.train(), examples, count, questions)
        of = {"epoch": epoch, "epochs": engine.settings.epochs, "examples": count, "draws": questions.samples}
        rows.append({**of, **entropies})
        show(place + 1, total, f"epoch {epoch}")
    model.eval()
    return rows


def permutation_entropies(model: Symmetrized, examples: Stored, count: int, questions: Questions) -> dict[str, float]:
    """The entropies of rows and of columns, in nats, of the model's draws and of as many uniform ones.

    The paper has both, but their means over nodes and over places are one number: they sum over the same matrix.
    """
    key = permuted(model)
    measures = concentrations(model, examples, count, questions, lambda *_: None)
    row, column = (measures[key, f"{name} entropy"] for name in ("row", "column"))
    return {
        "row_entropy": row[0],
        "column_entropy": column[0],
        "uniform_row_entropy": row[1],
        "uniform_column_entropy": column[1],
    }


def permuted(model: Symmetrized) -> str:
    """The axis that is bound to permutations, the first of several; refused if there is none."""
    keys = [key for key, group in model.signature.groups.items() if group.frame == "order"]
    if not keys:
        raise RunError(f"Expected a model symmetrized under permutations (got one of {model.signature})")
    return keys[0]
