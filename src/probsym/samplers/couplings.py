"""How the draws of one input depend on each other, so that as many of them may tell more.

Every single draw keeps its law whatever the coupling is, so the expectation is the same. A new coupling is one new
file and one line in `COUPLINGS`.
"""

from __future__ import annotations

from typing import Protocol

import torch

from probsym.errors import GroupError, RangeError
from probsym.samplers.antithetic import antithetic
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.noise import Noise
from probsym.samplers.quasi import quasi
from probsym.samplers.stratified import is_stratified, stratified
from probsym.signature import Signature

INDEPENDENT = "independent"


class Coupling(Protocol):
    """The noise of several draws at once, as `Sampler.noise` gives it but for how the draws depend on each other."""

    def __call__(
        self, sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
    ) -> Noise: ...


def independent(
    sampler: Sampler, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0
) -> Noise:
    """Draws that know nothing of each other."""
    return sampler.noise(batch, draws, generator, start=start)


COUPLINGS: dict[str, Coupling] = {
    INDEPENDENT: independent,
    "antithetic": antithetic,
    "quasi": quasi,
    "stratified": stratified,
}
BLOCKS: dict[str, int | None] = {INDEPENDENT: 1, "antithetic": 2, "quasi": None, "stratified": None}
"""How many draws in a row depend on each other; None if all do."""


def check_coupling(name: str, sampler: Sampler, signature: Signature) -> str:
    """The name, refused if there is no such coupling, or none of this sampler for these groups."""
    if not isinstance(name, str) or name not in COUPLINGS:
        raise RangeError(f"Expected coupling to be one of {', '.join(COUPLINGS)} (got {name!r})")
    if name == "stratified":
        if not sampler.draws_elements:
            found = type(sampler).__name__
            raise RangeError(f"Expected a sampler of uniform elements for coupling 'stratified' (got {found})")
        groups = signature.groups.values()
        if not any(is_stratified(group) for group in groups):
            found = ", ".join(repr(group) for group in groups) or "none"
            raise GroupError(
                f"Expected S, C, D or rotations of at most 3 dimensions for coupling 'stratified' (got {found})"
            )
    elif name != INDEPENDENT:
        sampler.noise_laws(signature)
    return name
