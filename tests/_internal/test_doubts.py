"""Warnings when a model is made."""

import warnings

import pytest

from probsym import Symmetrized, groups

GROUPS = {"E": groups.E(3), "SE": groups.SE(2)}


@pytest.mark.parametrize("name", GROUPS)
def test_translations_without_points_warn(name: str) -> None:
    bound = {"d": GROUPS[name]}
    with pytest.warns(UserWarning, match=r"write 'd:point' for positions, or bind 'd' to S?O\(\d\)") as warned:
        Symmetrized(lambda x: x, "n d -> n d", bound)
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_points_and_other_groups_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Symmetrized(lambda x, v: v, "n d:point, n d -> n d", {"d": groups.E(3)})
        Symmetrized(lambda x: x, "n d -> n d", {"d": groups.O(3)})
