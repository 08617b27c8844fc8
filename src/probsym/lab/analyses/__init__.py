"""What trained runs can be asked, one file a question. A new analysis is one new file and one line in `ANALYSES`.

`STUDIES` are those that need no run. `ASKED` holds how much is asked where the paper says so, and `USED` which of the
questions an analysis uses where it does not use all.
"""

from dataclasses import asdict
from typing import Any

from probsym.errors import RunError
from probsym.lab.analyses.analysis import Analysis, Questions, Study
from probsym.lab.analyses.concentration import by_group
from probsym.lab.analyses.cost import by_stage
from probsym.lab.analyses.draws import by_draws
from probsym.lab.analyses.entropy import by_epoch as entropy_by_epoch
from probsym.lab.analyses.equivariance import by_move
from probsym.lab.analyses.gradient import by_epoch as gradient_by_epoch
from probsym.lab.analyses.inner_symmetry import by_graph
from probsym.lab.analyses.parts import by_part
from probsym.lab.analyses.predictions import by_example
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
    "predictions": by_example,
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
USED = {
    "concentration": ("examples", "samples", "seed"),
    "cost": ("examples", "samples", "repeats"),
    "entropy": ("examples", "samples", "seed"),
    "equivariance": ("examples", "samples", "seed"),
    "gradient": ("examples", "seed"),
    "inner_symmetry": ("samples", "repeats", "seed"),
    "predictions": ("examples", "samples", "seed"),
    "tolerance": ("examples", "samples", "seed"),
}


def questions_for(name: str, **given: Any) -> Questions:
    """How much to ask of an analysis: what is given and not None, else as the paper did, else the usual.

    What it has no use for is refused.
    """
    usual = ASKED.get(name, Questions())
    wanted = {key: value for key, value in given.items() if value is not None}
    used = list(questions_of(name, usual))
    vain = [key for key in wanted if key not in used]
    if vain:
        raise RunError(
            f"Expected {name} to be asked with {', '.join(used)} (got {', '.join(vain)}, which it never uses)"
        )
    return Questions(**vars(usual) | wanted)


def questions_of(name: str, questions: Questions) -> dict[str, Any]:
    """Those of the questions that an analysis has a use for.

    >>> questions_of("gradient", Questions(examples=10))
    {'examples': 10, 'seed': 0}
    """
    return {key: value for key, value in asdict(questions).items() if name not in USED or key in USED[name]}


__all__ = ["ANALYSES", "STUDIES", "Analysis", "Study", "questions_for", "questions_of"]
