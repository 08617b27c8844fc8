import math

import pytest
import torch
from torch import Tensor

from probsym.errors import DtypeError, NonFiniteError, RangeError, ShapeError
from probsym.lab.contacts import contact_metrics

FORMS = ("", "_filtered", "_extended")
RAW = ("hits@1", "hits@3", "hits@10", "mrr")


def literal(scores: Tensor, contacts: Tensor, mask: Tensor) -> dict[str, float]:
    """One contact after the other, one candidate after the other."""
    means: dict[str, list[float]] = {}
    for b in range(len(scores)):
        atoms = mask[b].nonzero()[:, 0].tolist()
        values: dict[str, list[float]] = {}
        for i in atoms:
            for j in atoms:
                if not contacts[b, i, j]:
                    continue
                for form in FORMS:
                    others = [k for k in atoms if k != j]
                    if form:
                        others = [k for k in others if not contacts[b, i, k]]
                    if form == "_extended":
                        others = [k for k in others if k != i]
                    best = 1 + sum(float(scores[b, i, k]) > float(scores[b, i, j]) for k in others)
                    worst = 1 + sum(float(scores[b, i, k]) >= float(scores[b, i, j]) for k in others)
                    rank = (best + worst) / 2
                    values.setdefault(f"mrr{form}", []).append(1 / rank)
                    for many in (1, 3, 10):
                        values.setdefault(f"hits@{many}{form}", []).append(float(rank <= many))
        for name, numbers in (values or {name: [0.0] for name in RAW}).items():
            means.setdefault(name, []).append(sum(numbers) / len(numbers))
    return {name: sum(numbers) / len(numbers) for name, numbers in means.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_ranks_are_those_of_a_loop_over_candidates(ties: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(int(ties))
    scores = torch.randn(6, 17, 17, dtype=dtype)
    scores = scores.round() if ties else scores
    mask = torch.arange(17) < torch.tensor([[17], [1], [12], [5], [9], [16]])
    pairs = mask.unsqueeze(-1) & mask.unsqueeze(-2)
    contacts = (torch.rand(6, 17, 17) < 0.1) & pairs
    contacts = contacts | contacts.mT
    contacts[1] = contacts[4] = False  # molecules without contacts, one of them a single atom
    scores[~pairs] = math.nan  # never read
    metrics = contact_metrics(scores, contacts, mask)
    wanted = literal(scores, contacts, mask)
    assert set(metrics) == set(wanted)
    assert len(metrics) == 12
    for name, mean in wanted.items():
        assert float(metrics[name]) == pytest.approx(mean, abs=1e-12), name
    without = [0, 2, 3, 5]
    again = contact_metrics(scores[without], contacts[without], mask[without])
    for name, value in again.items():  # raw, the two molecules without contacts count as zero
        assert float(metrics[name]) == pytest.approx(float(value) * (4 / 6 if name in RAW else 1))


def metrics_of(scores: list[float], contacts: list[int], n: int = 4) -> dict[str, float]:
    """A molecule in which only the first atom has contacts."""
    array, where = torch.zeros(1, n, n), torch.zeros(1, n, n, dtype=torch.bool)
    array[0, 0] = torch.tensor(scores)
    where[0, 0, contacts] = True
    metrics = contact_metrics(array, where, torch.ones(1, n, dtype=torch.bool))
    return {name: float(value) for name, value in metrics.items()}


def test_the_three_forms_by_hand() -> None:
    metrics = metrics_of([9.0, 5.0, 7.0, 6.0], [1, 2])
    # raw: 4th and 2nd of all; filtered: 3rd (behind itself and 3) and 2nd; extended: 2nd (behind 3) and 1st
    assert metrics["mrr"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert metrics["mrr_filtered"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert metrics["mrr_extended"] == pytest.approx((1 / 2 + 1) / 2)
    assert [metrics[f"hits@1{form}"] for form in FORMS] == [0, 0, 0.5]
    assert [metrics[f"hits@3{form}"] for form in FORMS] == [0.5, 1, 1]
    assert [metrics[f"hits@10{form}"] for form in FORMS] == [1, 1, 1]


def test_equal_scores_rank_halfway() -> None:
    metrics = metrics_of([1.0, 1.0, 1.0, 1.0], [2])
    assert metrics["mrr"] == metrics["mrr_filtered"] == pytest.approx(1 / 2.5)  # from 1 to 4
    assert metrics["mrr_extended"] == pytest.approx(1 / 2)  # from 1 to 3
    assert metrics["hits@1_extended"] == 0
    assert metrics["hits@3"] == 1
    assert metrics_of([1.0, 2.0, 2.0, 0.0], [2])["hits@1"] == 0  # from 1 to 2


def test_molecules_weigh_the_same_however_many_contacts_they_have() -> None:
    scores = torch.zeros(2, 3, 3)
    scores[0] = torch.tensor([[0.0, 1.0, 2.0]] * 3)
    scores[1, 0, 1] = 1.0
    contacts = torch.zeros(2, 3, 3, dtype=torch.bool)
    contacts[0, 0, 1] = contacts[0, 1, 1] = contacts[0, 2, 1] = True  # all second
    contacts[1, 0, 1] = True  # first
    metrics = contact_metrics(scores, contacts, torch.ones(2, 3, dtype=torch.bool))
    assert float(metrics["mrr"]) == pytest.approx((1 / 2 + 1) / 2)


def test_what_cannot_be_measured_is_refused() -> None:
    scores, contacts = torch.zeros(1, 3, 3), torch.zeros(1, 3, 3, dtype=torch.bool)
    mask = torch.tensor([[True, True, False]])
    with pytest.raises(RangeError, match="a molecule with contacts"):
        contact_metrics(scores, contacts, mask)
    contacts[0, 0, 1] = True
    with pytest.raises(NonFiniteError):  # NaN would rank first: nothing is larger
        contact_metrics(scores / 0, contacts, mask)
    with pytest.raises(DtypeError, match="boolean"):
        contact_metrics(scores, contacts.float(), mask)
    with pytest.raises(ShapeError, match="mask"):
        contact_metrics(scores, contacts, mask[:, :2])
    with pytest.raises(ShapeError):
        contact_metrics(scores[0], contacts[0], mask[0])
    contacts[0, 2, 1] = True
    with pytest.raises(RangeError, match="on padding"):
        contact_metrics(scores, contacts, mask)
