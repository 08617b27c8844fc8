"""Figures that the paper does not have: one object each."""

from __future__ import annotations

from probsym.lab.report import judges
from probsym.lab.report.claims import Claim
from probsym.lab.report.drawing import Axes, Drawing, Tracks, independent, whole
from probsym.lab.report.falling import FALLING, falls_with_draws, spread

OTHER_FIGURES: tuple[Drawing, ...] = (
    Drawing(
        "draws",
        "Test error by number of draws",
        "Mean loss over the test set, independent draws.",
        (Axes("test loss", "draws", "loss", log_x=True, log_y=True),),
        claims=(
            Claim("More draws in inference help every model.", FALLING, falls_with_draws("loss", spread, independent)),
        ),
        rows=independent,
    ),
    Drawing(
        "draws",
        "Variance of a prediction by number of draws, and how draws are coupled",
        "One chart a run. Coupled draws keep the law of each single draw.",
        (Axes("variance", "draws", "variance", log_x=True, log_y=True),),
        series=("coupling",),
        rows=whole,
        apart=True,
    ),
    Drawing(
        "concentration",
        "How far distributions are from uniform",
        "Entropy of the mean permutation in nats, or spread of rotations; beside it that of as many uniform draws.",
        (Tracks("entropy or spread", ("group", "measure"), ("model", "uniform")),),
        claims=(
            Claim(
                "What is learned is more concentrated than uniform.",
                "Supported if every measure is lower by 1 % or more than that of uniform draws, mixed if some are.",
                judges.more_concentrated,
            ),
        ),
    ),
    Drawing(
        "parts",
        "Test error on parts of the test set",
        "Mean loss; the bars are two standard errors over the examples.",
        (Tracks("test loss", (), ("loss",), margin="stderr", dots="part"),),
    ),
    Drawing(
        "tolerance",
        "Draws that inputs need for a standard error",
        "Mean number of draws over the inputs, each of which gets as many as it needs.",
        (Axes("draws", "tolerance", "draws", log_x=True, log_y=True),),
    ),
    Drawing(
        "cost",
        "Where the time of a prediction goes",
        "Median milliseconds of one evaluation of a batch, stage by stage.",
        (Tracks("milliseconds", (), ("ms",), log=True, dots="stage"),),
    ),
)

EQUIVARIANCE = Drawing(
    "equivariance",
    "What is left when inputs are moved",
    "Root mean square change of the prediction in float64, for inputs moved by random elements: with the noise moved "
    "along, which leaves rounding, and with fresh draws, as a user sees it.",
    (Tracks("change of the prediction", ("move",), ("moved_noise", "fresh"), log=True),),
    claims=(
        Claim(
            "Symmetrized models are equivariant: with the noise moved along, moving the input moves the output.",
            "Supported if for every run and move no output is off by more than a millionth of the predictions' root "
            "mean square, or in files that lack this, of what the move changes.",
            judges.equivariant,
        ),
    ),
    apart=True,
)
