"""What to know of one's own model before relying on it, in a few tables and one piece of advice."""

from __future__ import annotations

from collections.abc import Iterator

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.estimate import draws_for
from probsym.lab.analyses.analysis import Questions, Row
from probsym.lab.analyses.concentration import by_group
from probsym.lab.analyses.cost import by_stage
from probsym.lab.analyses.draws import by_draws
from probsym.lab.analyses.equivariance import by_move
from probsym.lab.engine import Engine
from probsym.symmetrized import Symmetrized


def inspected(engine: Engine, questions: Questions, show: Show) -> Iterator[tuple[str, list[Row]]]:
    """The tables that apply to the model, each with its title."""
    yield "Change of the prediction when inputs are moved", by_move(engine, questions, show)
    if engine.draws:
        rows = by_draws(engine, questions, show, couplings=("independent",))
        yield "Loss and variance by number of draws", [row for row in rows if row["part"] == "all"]
        yield "Spread of the distribution over the group", by_group(engine, questions, show)
    if isinstance(engine.model, Symmetrized):
        yield "Time of a prediction", by_stage(engine, questions, show)


def suggested_samples(rows: list[Row], stderr: float) -> int:
    """How many draws make the standard error of a prediction as small as that, by the variance of the most draws.

    >>> suggested_samples([{"draws": 1, "variance": 0.05}, {"draws": 10, "variance": 0.004}], stderr=0.02)
    100
    """
    most = max(rows, key=lambda row: row["draws"])
    if most["variance"] is None:
        raise RunError("Expected a variance between repeats (got none: there was one, or the noise is fixed)")
    return draws_for(most["variance"] * most["draws"], stderr)
