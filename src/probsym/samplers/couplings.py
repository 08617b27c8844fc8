"""How the draws of one input depend on each other, to get a better average from the same number of draws.

With any coupling, every single draw keeps its distribution, so the expectation is unchanged and as equivariant:

- "independent": no coupling.
- "antithetic": draws 2i and 2i + 1 are mirror images. This helps if the output changes sign with the mirror image; if
  the output does not change, a pair is worth one draw. The standard error is computed from the means of pairs.
- "quasi": the draws fill the space of their random numbers evenly (a Sobol sequence, shifted at random for each batch
  item). It works best if the number of draws is a power of two. No standard error, and no `tol`. Only single draws are
  equivariant in distribution: all draws together need not be.
- "stratified": for `Haar` and `FromHaar`. Elements of finite groups (S on up to 7 items, Signs of up to 12 entries) are
  drawn without replacement. In up to 3 dimensions, each uniform rotation is combined with signed permutations of the
  axes, drawn without replacement: 48 for O(3). No standard error, and no `tol`.

A sampler that lists elements cannot be coupled, unless a call draws from its list with `samples=`. A new coupling is
one new file and one line in `COUPLINGS`.
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
from probsym.samplers.stratified import stratified
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
BLOCKS = {INDEPENDENT: 1, "antithetic": 2}
"""How many draws in a row depend on each other; all do where nothing is said."""


def check_coupling(name: str, sampler: Sampler, signature: Signature) -> str:
    """The name, refused if there is no such coupling, or none of this sampler for these groups."""
    if not isinstance(name, str) or name not in COUPLINGS:
        raise RangeError(f"Expected coupling to be one of {', '.join(COUPLINGS)} (got {name!r})")
    if name == "stratified":
        if not sampler.draws_elements:
            kind = type(sampler).__name__
            raise RangeError(f"Expected a sampler of uniform elements for coupling 'stratified' (got {kind})")
        groups = signature.groups.values()
        if not any(group.linear.stratifies for group in groups):
            bound = ", ".join(repr(group) for group in groups) or "none"
            raise GroupError(
                f"Expected a group that `stratifies`, such as a finite group or rotations of at most 3 dimensions, for "
                f"coupling 'stratified' (got {bound})"
            )
    elif name != INDEPENDENT:
        sampler.noise_laws(signature)
    return name


def chosen_coupling(asked: str | None, own: str | None, sampler: Sampler, signature: Signature) -> str:
    """The name of the coupling for a call that asks for one, or for none and the model has its own."""
    name = next((choice for choice in (asked, own) if choice is not None), INDEPENDENT)
    if not sampler.lists_elements or name == INDEPENDENT:
        return check_coupling(name, sampler, signature)
    if asked is None:
        return INDEPENDENT
    raise RangeError(
        f"Expected no coupling for {type(sampler).__name__}, which lists its elements, unless samples are drawn from "
        f"them (got {asked!r})"
    )
