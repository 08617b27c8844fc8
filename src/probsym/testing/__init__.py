"""Assertions about symmetry, for the test suites of users as much as for ours."""

from probsym.testing.equivariance import Equivariance, assert_equivariant
from probsym.testing.gap import Gap, equivariance_gap
from probsym.testing.group_laws import assert_group_laws

__all__ = ["Equivariance", "Gap", "assert_equivariant", "assert_group_laws", "equivariance_gap"]
