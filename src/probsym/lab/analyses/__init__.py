"""What trained runs can be asked, one file a question. A new analysis is one new file and one line in `ANALYSES`."""

from probsym.lab.analyses.analysis import Analysis
from probsym.lab.analyses.concentration import by_group
from probsym.lab.analyses.cost import by_stage
from probsym.lab.analyses.draws import by_draws
from probsym.lab.analyses.equivariance import by_move
from probsym.lab.analyses.parts import by_part
from probsym.lab.analyses.tolerance import by_tolerance

ANALYSES: dict[str, Analysis] = {
    "concentration": by_group,
    "cost": by_stage,
    "draws": by_draws,
    "equivariance": by_move,
    "parts": by_part,
    "tolerance": by_tolerance,
}

__all__ = ["ANALYSES", "Analysis"]
