import math

import pytest
import torch
from torch import Tensor

from probsym.errors import NonFiniteError, RangeError, ShapeError
from probsym.lab.metrics import average_precision, class_averaged_accuracy, mean_absolute_error

DTYPES = (torch.float32, torch.float64)


def literal_accuracy(scores: Tensor, labels: Tensor, mask: Tensor) -> float:
    right, given, chosen = ([0] * scores.shape[-1] for _ in range(3))
    for b, i in mask.nonzero().tolist():
        values = scores[b, i].tolist()
        best, true = values.index(max(values)), int(labels[b, i])
        given[true] += 1
        chosen[best] += 1
        right[true] += best == true
    shares = [r / g if g else 0.0 for r, g, c in zip(right, given, chosen, strict=True) if g or c]
    return sum(shares) / len(shares)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_accuracy_is_averaged_over_classes_batch_by_batch_or_over_all(classes: int, dtype: torch.dtype) -> None:
    torch.manual_seed(classes)
    scores = torch.randn(11, 6, classes, dtype=dtype).round(decimals=1)  # some equal
    labels = torch.multinomial(torch.arange(1.0, classes + 1), 66, replacement=True).view(11, 6)
    mask = torch.rand(11, 6) < 0.7
    mask[8:10] = False  # and a whole batch of two without nodes
    whole = class_averaged_accuracy(scores, labels, mask, None)
    assert float(whole) == pytest.approx(literal_accuracy(scores, labels, mask), abs=1e-6)
    parts = [slice(first, first + 4) for first in (0, 4, 8)]
    each = [literal_accuracy(scores[part], labels[part], mask[part]) for part in parts]
    assert float(class_averaged_accuracy(scores, labels, mask, 4)) == pytest.approx(sum(each) / 3, abs=1e-6)
    assert class_averaged_accuracy(scores, labels, mask, 2).isfinite()
    assert torch.equal(class_averaged_accuracy(scores, labels, mask), whole)  # 11 graphs are less than a batch of 128


def test_batches_weigh_the_same_and_padding_nothing() -> None:
    labels = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]])
    chosen = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 1, 1]])
    mask = torch.tensor([[True] * 4, [True] * 4, [True, True, False, False]])
    scores = torch.nn.functional.one_hot(chosen, 2).float()
    scores[2, 2:] = math.nan  # on padding
    first = ((2 / 4) + (3 / 4)) / 2  # classes 0 and 1 of the first two graphs
    assert float(class_averaged_accuracy(scores, labels, mask, 2)) == pytest.approx((first + 1) / 2)
    assert float(class_averaged_accuracy(scores, labels, mask, None)) == pytest.approx((3 / 5 + 4 / 5) / 2)


def test_a_model_that_names_one_class_is_right_half_of_the_time() -> None:
    labels = (torch.arange(40) < 6).long().view(4, 10)
    scores = torch.tensor([1.0, 0.0]).expand(4, 10, 2)
    assert float(class_averaged_accuracy(scores, labels, torch.ones(4, 10, dtype=torch.bool))) == 0.5


def literal_precision(scores: list[float], labels: list[int]) -> float:
    total = 0.0
    for threshold in sorted(set(scores), reverse=True):
        above = [label for score, label in zip(scores, labels, strict=True) if score >= threshold]
        new = sum(label for score, label in zip(scores, labels, strict=True) if score == threshold)
        total += new / sum(labels) * sum(above) / len(above)
    return total


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_average_precision_is_the_sum_over_thresholds(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    scores = (3 * torch.randn(60, 5, dtype=dtype)).round()  # many equal
    labels = (torch.rand(60, 5) < torch.tensor([0.1, 0.3, 0.5, 0.9, 0.02])).float()
    labels[0] = 1.0
    wanted = [literal_precision(scores[:, i].tolist(), labels[:, i].int().tolist()) for i in range(5)]
    assert float(average_precision(scores, labels)) == pytest.approx(sum(wanted) / 5, abs=1e-6)


def test_average_precision_by_hand() -> None:
    scores = torch.tensor([[4.0, 1.0], [3.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
    labels = torch.tensor([[0, 1], [1, 0], [0, 0], [1, 0]])
    # 1/2 at the second and 2/4 at the fourth; all four together, of which one is right
    assert float(average_precision(scores, labels)) == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1 / 4) / 2)


def test_large_scores_stay_apart() -> None:
    scores = torch.tensor([[1000.0], [900.0], [800.0], [-1000.0]])
    labels = torch.tensor([[1], [0], [1], [0]])
    assert float(average_precision(scores, labels)) == pytest.approx((1 + 2 / 3) / 2)
    assert float(average_precision(scores, labels)) == float(average_precision(scores / 1000, labels))


def test_labels_that_none_or_all_have_are_left_out_and_so_is_what_is_not_labelled() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.3, 0.9], [0.8, 0.2, 0.2, 0.8], [0.1, 0.3, 0.1, 0.7]])
    labels = torch.tensor([[1.0, 0, 1, math.nan], [0, 0, 1, 0], [1, 0, 1, 1]])
    assert float(average_precision(scores, labels)) == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)
    with pytest.raises(RangeError, match="some examples have and others do not"):
        average_precision(scores[:, 1:3], labels[:, 1:3])


def test_absolute_error_is_the_mean_over_all_numbers() -> None:
    output, targets = torch.tensor([[1.0, -2.0], [0.5, 4.0]]), torch.tensor([[0.0, 1.0], [0.5, 2.0]])
    assert float(mean_absolute_error(output, targets)) == (1 + 3 + 0 + 2) / 4
    assert mean_absolute_error(output, targets).dtype == torch.float64


def test_what_cannot_be_measured_is_refused() -> None:
    bad, labels = torch.tensor([[math.nan], [1.0]]), torch.tensor([[1], [0]])
    with pytest.raises(NonFiniteError):
        average_precision(bad, labels)
    with pytest.raises(NonFiniteError):
        mean_absolute_error(bad, labels.float())
    with pytest.raises(NonFiniteError):
        class_averaged_accuracy(bad.view(1, 2, 1), labels.view(1, 2), torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ShapeError, match="at least one node"):
        class_averaged_accuracy(bad.view(1, 2, 1), labels.view(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(RangeError, match="0, 1 or NaN"):
        average_precision(torch.zeros(2, 1), torch.tensor([[0.5], [1.0]]))
    with pytest.raises(RangeError, match="0, 1 or NaN"):
        average_precision(torch.zeros(2, 1), torch.tensor([[2], [1]]))
    with pytest.raises(ShapeError):
        mean_absolute_error(torch.zeros(2, 1), torch.zeros(2))
    with pytest.raises(ShapeError):
        average_precision(torch.zeros(2), torch.zeros(2))
