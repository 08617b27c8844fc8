"""What trained runs can be asked, one file a question. A new analysis is one new file and one line in `ANALYSES`.

`STUDIES` are those that need no run. `ASKED` holds how much is asked where the paper says so.
"""

from typing import Any

from probsym.lab.analyses.analysis import Analysis, Questions, Study
from probsym.lab.analyses.concentration import by_group
from probsym.lab.analyses.cost import by_stage
from probsym.lab.analyses.draws import by_draws
from probsym.lab.analyses.entropy import by_epoch as entropy_by_epoch
from probsym.lab.analyses.equivariance import by_move
from probsym.lab.analyses.gradient import by_epoch as gradient_by_epoch
from probsym.lab.analyses.inner_symmetry import by_graph
from probsym.lab.analyses.parts import by_part
from probsym.lab.analyses.sample_size import by_sample_size
from probsym.lab.analyses.tolerance import by_tolerance
from probsym.lab.analyses.variance import by_method

ANALYSES: dict[str, Analysis] = {
    "concentration": by_group,
    "cost": by_stage,
    "draws": by_draws,
    "entropy": entropy_by_epoch,
    "equivariance": by_move,
    "gradient": gradient_by_epoch,
    "parts": by_part,
    "sample_size": by_sample_size,
    "tolerance": by_tolerance,
    "variance": by_method,
}
STUDIES: dict[str, Study] = {"inner_symmetry": by_graph}
ASKED = {
    "entropy": Questions(samples=50),
    "inner_symmetry": Questions(samples=10_000, repeats=20),
    "sample_size": Questions(samples=50, repeats=100),
    "variance": Questions(samples=50, repeats=100),
}


def questions_for(name: str, **given: Any) -> Questions:
    """How much to ask of an analysis: what is given and not None, else as the paper did, else the usual."""
    usual = vars(ASKED.get(name, Questions()))
    return Questions(**usual | {key: value for key, value in given.items() if value is not None})


__all__ = ["ANALYSES", "STUDIES", "Analysis", "Study", "questions_for"]
