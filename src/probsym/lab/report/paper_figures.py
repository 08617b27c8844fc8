"""The paper's figures: one object each."""

from __future__ import annotations

from collections.abc import Sequence

from probsym.lab.report import judges, training_draws
from probsym.lab.report.claims import Claim
from probsym.lab.report.drawing import Axes, Drawing, Tracks, most_draws
from probsym.lab.report.falling import FALLING
from probsym.lab.report.gathered import Row
from probsym.lab.report.training_draws import COVERAGE, RISING


def ten_draws(rows: Sequence[Row]) -> list[Row]:
    """Rows of ten draws, as in the paper."""
    return [row for row in rows if row.get("draws") == 10]


PAPER_FIGURES: tuple[Drawing, ...] = (
    Drawing(
        "entropy",
        "Entropy of the learned distribution over training",
        "Permutations drawn for each input, averaged to one matrix: the entropy of its rows and of its columns, in "
        "nats. Dashed: uniform permutations, as many.",
        (
            Axes("row entropy", "epoch", "row_entropy", reference="uniform_row_entropy"),
            Axes("column entropy", "epoch", "column_entropy", reference="uniform_column_entropy"),
        ),
        "Figure 2",
        (
            Claim(
                "Early in training the entropy drops: the learned distribution becomes more consistent.",
                "Supported if the row entropy falls by 5 % or more in the first quarter of the run's epochs, and by "
                "half of all that it ever falls. It takes two kept epochs in that quarter, and one later.",
                judges.entropy_drops_early,
            ),
        ),
    ),
    Drawing(
        "sample_size",
        "Accuracy by the draws in training",
        "Models trained with different numbers of draws, all evaluated with ten.",
        (Axes("test accuracy, %", "train_draws", "accuracy", log_x=True),),
        "Figure 4",
        (
            Claim(
                "However many draws it was trained with, every model comes above 95 %.",
                f"Supported if all do with ten draws in inference, mixed if some do. {COVERAGE}",
                training_draws.accuracy_above(95, 10),
            ),
        ),
        rows=ten_draws,
        joined=True,
    ),
    Drawing(
        "sample_size",
        "Entropy by the draws in training",
        "Entropy of the averaged permutations of each trained model. Dashed: uniform permutations.",
        (
            Axes("row entropy", "train_draws", "row_entropy", log_x=True, reference="uniform_row_entropy"),
            Axes("column entropy", "train_draws", "column_entropy", log_x=True, reference="uniform_column_entropy"),
        ),
        "Figure 5",
        (
            Claim(
                "The fewer draws in training, the more consistent the permutations: the entropy rises with the draws.",
                RISING,
                training_draws.rises("row_entropy", "row entropy"),
            ),
        ),
        rows=most_draws,
        joined=True,
    ),
    Drawing(
        "sample_size",
        "Variance and loss by the draws in training and in inference",
        "A line for each number of draws in training.",
        (
            Axes("variance of the output", "draws", "output_variance", log_x=True, log_y=True),
            Axes("variance of the loss", "draws", "loss_variance", log_x=True, log_y=True),
            Axes("mean loss", "draws", "loss_mean", log_x=True, log_y=True),
        ),
        "Figure 6",
        (
            Claim(
                "Models trained with fewer draws estimate the output with less variance.",
                RISING,
                training_draws.rises("output_variance", "variance"),
            ),
            Claim(
                "Models trained with fewer draws estimate the loss with less variance.",
                RISING,
                training_draws.rises("loss_variance", "variance"),
            ),
            Claim(
                "More draws in inference lower the loss of every model.",
                f"{FALLING} The standard error is sqrt(variance of the loss / (repeats * examples)). {COVERAGE}",
                training_draws.loss_falls(),
            ),
            Claim(
                "Training with a single draw gives the poorest loss.",
                "Supported if that model has the largest loss at every number of draws in inference that all have. "
                f"{COVERAGE}",
                training_draws.one_draw_trains_worst(),
            ),
        ),
        series=("train_draws",),
        joined=True,
    ),
    Drawing(
        "variance",
        "Variance under a learned and under the uniform distribution",
        "The same base at random initialisation, under a learned distribution (ps), under the same before it learned "
        "(ps-initial) where that was asked, and under group averaging (ga).",
        (
            Axes("variance of the output", "draws", "output_variance", log_x=True, log_y=True),
            Axes("variance of the loss", "draws", "loss_variance", log_x=True, log_y=True),
        ),
        "Figure 7",
        (
            Claim(
                "The learned distribution estimates with less variance at every number of draws.",
                "Supported if both variances are lower at all numbers of draws that runs with the same settings share, "
                "mixed if at some. It takes four.",
                judges.lower_with_ps("output_variance", "loss_variance"),
            ),
        ),
        series=("method",),
        joined=True,
    ),
    Drawing(
        "gradient",
        "Norm of the full gradient over training",
        "Gradient of the loss over all training examples with respect to the weights of the base.",
        (Axes("norm of the gradient", "epoch", "norm", log_y=True),),
        "Figure 8",
        (
            Claim(
                "With a learned distribution the net gradient on the base is larger throughout training.",
                "Supported if it is at all epochs that runs of PS and GA with the same settings and seed share, mixed "
                "if at some. It takes five beyond epoch 0.",
                judges.larger_gradients_with_ps,
            ),
        ),
    ),
    Drawing(
        "inner_symmetry",
        "Nodes that a symmetry of the graph exchanges",
        "How far apart the embeddings are inside each orbit of the graph's own symmetries, root mean square over its "
        "nodes and mean over networks; bars are two standard errors over networks. Dashed: what is to be expected of "
        "PS if the draws alone keep such nodes apart, and more of them would not.",
        (
            Tracks(
                "spread inside orbits",
                ("graph",),
                ("spread",),
                log=True,
                margin="spread_stderr",
                dots="method",
                reference=("from_draws", "stderr"),  # as it was called before
                reference_title="from draws alone",
            ),
        ),
        "Figures 9 to 11",
        (
            Claim(
                "Probabilistic symmetrization embeds such nodes alike, canonicalization does not.",
                "Supported if for all three graphs the spread with PS is at most half of that with canonicalization.",
                judges.closer_inside_orbits,
            ),
        ),
        joined=True,
    ),
)
