"""Probabilistic symmetrization: p(g|x) is what an equivariant net makes of the input and of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from probsym._internal.callables import check_callable, takes_mask
from probsym.errors import DtypeError, GroupError, RangeError, SignatureError
from probsym.ops.argument_checks import check_tau
from probsym.ops.counter_rng import counter_normal, counter_uniform
from probsym.ops.edge_list import EdgeList, Input
from probsym.ops.random_numbers import random_numbers
from probsym.samplers import noise as noises
from probsym.samplers.base import Sampler, as_reads, check_net
from probsym.samplers.batch import Batch, zero_padding
from probsym.samplers.draw import Draw
from probsym.samplers.noise import Law, Noise
from probsym.samplers.projection import by_axis, entropy, named_features, prior, project
from probsym.signature import Axis, Signature, Term

EXTRA = "(noise)"
"""The axis of noise that a net wants besides; no user's axis can be called so."""


class Learned(Sampler):
    """The learned distribution: an equivariant net maps input plus noise to an element, g = project(net(x + noise)).

    The noise is uniform on [0, eta) for inputs that only permutations move, and normal with deviation eta for inputs
    that rotate. Gradients reach the net through the straight-through gradient of `soft_sort` for permutations, through
    Gram-Schmidt for rotations, and through a softmax for finite groups.

    Args:
        net: an equivariant net; `probsym.nets` says how it is called.
        noise: the scale eta of the noise. With 0 the element is a function of the input, up to ties: canonicalization.
        tau: temperature of the relaxed permutation, or of the softmax.
        reads: indices of the inputs that the net reads, in this order; all if None.
        fixed_noise: compute the noise from the example's id, given by `model(..., index=ids)`, the draw and the entry.
            It does not move with the input, so the model is NOT equivariant: this is the paper's ablation.
        seed: seed of the fixed noise.
        input_gradient: pass the straight-through gradient of orders and choices on to the inputs too, for inputs that
            come from a trainable encoder. The gradient of the inputs is then no longer the gradient of the function.
        prior: add `losses["prior"]`, which measures how far the elements are from the identity: -log p(identity) for
            finite groups, d - tr Q for rotations. If the training data are in the pose that a base was pretrained in,
            it keeps showing the base that pose (Mondal et al. 2023, "Equivariant Adaptation of Large Pretrained
            Models").

    >>> from probsym import Symmetrized, groups, nets
    >>> sampler = Learned(nets.GIN(in_channels=2), noise=1.0, tau=0.01)
    >>> model = Symmetrized(lambda x, a: a[:, 0], "n c, n n -> n", {"n": groups.S()}, sampler, samples=10)
    >>> estimate = model.estimate(torch.rand(4, 5, 2), torch.ones(4, 5, 5))
    >>> estimate.elements["n"].shape, list(estimate.losses)
    (torch.Size([4, 10, 5]), ['entropy'])
    """

    breaks_ties = True

    def __init__(
        self,
        net: nn.Module,
        noise: float = 1.0,
        tau: float = 0.01,
        reads: Sequence[int] | None = None,
        fixed_noise: bool = False,
        seed: int = 0,
        input_gradient: bool = False,
        prior: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= noise < float("inf"):
            raise RangeError(f"Expected noise to be finite and 0 or more (got {noise})")
        check_tau(tau)
        check_callable(net, "net")
        self.net, self.eta, self.tau = net, float(noise), float(tau)
        self.reads = as_reads(reads)
        self.fixed_noise, self.seed, self.input_gradient = fixed_noise, seed, input_gradient
        self.prior = prior

    @property
    def arguments(self) -> dict[str, Any]:
        """As `RemembersArguments` has them, the noise as it is now; a subclass may not take any."""
        arguments = super().arguments
        return {**arguments, "noise": self.eta} if "noise" in arguments else arguments

    def extra_repr(self) -> str:
        fixed = f", fixed_noise=True, seed={self.seed}" if self.fixed_noise else ""
        return f"noise={self.eta}, tau={self.tau}, reads={self.reads}{fixed}"

    def check(self, signature: Signature) -> None:
        count = len(signature.inputs)
        reads = self.read(signature)
        if any(not 0 <= number < count for number in reads) or len(set(reads)) < len(reads):
            raise SignatureError(f"Expected reads to be different numbers below {count} (got {self.reads})")
        check_net(self.net, signature, reads, self.extra_noise > 0)
        if any(not 0 <= number < len(reads) for number in self.perturbs(signature)):
            raise SignatureError(
                f"Expected the net to perturb some of the {len(reads)} inputs that it reads (got {self.net.perturbs})"
            )
        for term in self.noise_terms(signature):
            noise_law(signature, term)

    def read(self, signature: Signature) -> tuple[int, ...]:
        """Which inputs the net reads."""
        return super().read(signature) if self.reads is None else self.reads

    def perturbs(self, signature: Signature) -> tuple[int, ...]:
        """Which of those are perturbed: what the net says, or all."""
        chosen = as_reads(getattr(self.net, "perturbs", None), "perturbs of the net")
        return tuple(range(len(self.read(signature)))) if chosen is None else chosen

    @property
    def extra_noise(self) -> int:
        """How many channels of noise the net wants besides for every item."""
        channels = getattr(self.net, "extra_noise", 0)
        assert isinstance(channels, int)
        return channels

    def noise_terms(self, signature: Signature) -> tuple[Term, ...]:
        if self.eta == 0:
            return ()
        read = self.read(signature)
        return (*self._extra_terms(signature), *(signature.inputs[read[number]] for number in self.perturbs(signature)))

    def noise_laws(self, signature: Signature) -> tuple[Law, ...]:
        if self.fixed_noise:
            raise SignatureError("Expected noise that is drawn to couple draws (got fixed_noise=True)")
        return tuple(Law(noise_law(signature, term) == "normal", self.eta) for term in self.noise_terms(signature))

    def _extra_terms(self, signature: Signature) -> tuple[Term, ...]:
        """Noise that the net wants for every item besides, where there is no input to perturb."""
        if self.extra_noise == 0:
            return ()
        items = [key for key, group in signature.groups.items() if group.takes_mask]
        if len(items) != 1:
            raise SignatureError(f"Expected one axis bound to S for a net with noise of its own (got {items})")
        return (Term((Axis(items[0]), Axis(EXTRA))),)

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        if self.fixed_noise and batch.ids is None:
            raise SignatureError("Expected index=ids, the number of each example, for fixed noise (got none)")
        self._check_perturbed(batch)
        terms = self.noise_terms(batch.signature)
        inputs = [self._input_noise(batch, term, i, draws, generator, start) for i, term in enumerate(terms)]
        breaks = noises.tie_breaks(batch, draws, generator)
        if self.fixed_noise:
            breaks = self._fixed_breaks(batch, breaks, start, len(terms))
        return breaks._replace(inputs=tuple(inputs))

    def move(self, signature: Signature, g: Mapping[str, Tensor], noise: Noise) -> Noise:
        """As any noise moves; fixed noise belongs to the example's id and stays, whence the lack of equivariance."""
        return noise if self.fixed_noise else super().move(signature, g, noise)

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        draws = noise.draws() or 1
        signature = batch.signature
        inputs: list[Input] = [batch.inputs[number] for number in self.read(signature)]
        extra = len(self._extra_terms(signature))
        for place, number in enumerate(self.perturbs(signature)):
            given = inputs[number]
            if isinstance(given, EdgeList):  # which all draws share, without noise
                continue
            x = given.to(batch.dtype).unsqueeze(1)
            if self.eta > 0:
                term = signature.inputs[self.read(signature)[number]]
                x = zero_padding(x + noise.inputs[extra + place], term, batch.masks)
            inputs[number] = x
        inputs = [x.to(batch.dtype) if x.is_floating_point() else x for x in inputs]
        if extra:
            (axis,) = (term.axes[0] for term in self._extra_terms(signature))
            shape = batch.count, 1, batch.sizes[axis.key], self.extra_noise
            silent = torch.zeros(shape, dtype=batch.dtype, device=batch.device)
            inputs.insert(0, noise.inputs[0] if self.eta > 0 else silent)
        mask = self._net_mask(batch)
        options = {"mask": mask} if takes_mask(self.net, given=mask is not None) else {}
        named = named_features(batch, self.net, inputs, self.input_gradient, **options)
        features = by_axis(batch, named, draws)
        return project(batch, features, noise, draws, tau=self.tau, merge_ties=self.eta == 0)

    def losses(self, batch: Batch, draw: Draw) -> dict[str, Tensor]:
        losses = {"entropy": entropy(batch, draw, self.tau)}
        return {**losses, "prior": prior(batch, draw, self.tau)} if self.prior else losses

    def _check_perturbed(self, batch: Batch) -> None:
        """Refuse noise for every pair of nodes where the pairs are a list of edges."""
        read = self.read(batch.signature)
        for number in self.perturbs(batch.signature) if self.eta > 0 else ():
            if isinstance(batch.inputs[read[number]], EdgeList):
                raise DtypeError(
                    f"Expected input {read[number]} ('{batch.signature.inputs[read[number]]}') to be a tensor, since "
                    f"{type(self.net).__name__} perturbs every pair (got EdgeList; `perturbs` of the net says which "
                    f"of the inputs it reads)"
                )

    def _net_mask(self, batch: Batch) -> Tensor | dict[str, Tensor] | None:
        """The mask of the items that the net reads: of S, or where it is not bound, of an axis in all that it reads."""
        items = [key for key, group in batch.groups.items() if group.takes_mask]
        if not items:
            terms = [batch.signature.inputs[number] for number in self.read(batch.signature)]
            items = [name for name in batch.masks if all(name in term.names for term in terms)]
        masks = {name: batch.masks[name] for name in items if name in batch.masks}
        return next(iter(masks.values()), None) if len(items) < 2 else masks or None

    def _input_noise(
        self, batch: Batch, term: Term, stream: int, draws: int, generator: torch.Generator | None, start: int
    ) -> Tensor:
        shape = tuple(self.extra_noise if name == EXTRA else batch.sizes[name] for name in term.names)
        normal = noise_law(batch.signature, term) == "normal"
        if self.fixed_noise and batch.ids is not None:
            counter = counter_normal if normal else counter_uniform
            return self.eta * counter(self.seed, 4 + stream, batch.ids, start, draws, shape, batch.dtype)
        size, source = (batch.count, draws, *shape), noises.along(generator, batch, term.names)
        drawn = random_numbers(size, normal=normal, dtype=batch.dtype, device=batch.device, generator=source)
        return self.eta * drawn

    def _fixed_breaks(self, batch: Batch, breaks: Noise, start: int, streams: int) -> Noise:
        assert batch.ids is not None
        fixed: list[dict[str, Tensor]] = []
        for kind, (named, counter) in enumerate(((breaks.ties, counter_uniform), (breaks.completion, counter_normal))):
            fixed.append({})
            for i, (key, tensor) in enumerate(named.items()):
                stream = 4 + streams + 2 * i + kind
                fixed[-1][key] = counter(
                    self.seed, stream, batch.ids, start, tensor.shape[1], tensor.shape[2:], tensor.dtype
                )
        return breaks._replace(ties=fixed[0], completion=fixed[1])


def noise_law(signature: Signature, term: Term) -> str:
    """The law of noise on a term that no group on it changes: "uniform" where all allow it, else "normal"."""
    laws = ["uniform", "normal"]
    for axis in term.axes:
        if axis.key in signature.groups:
            group = signature.groups[axis.key].linear
            own = group.noise_laws("plain" if axis.kind == "point" else axis.kind)
            if not own:
                raise GroupError(
                    f"Expected noise=0 for {group!r}, which has no `noise_laws` on '{axis}' and so changes any noise"
                )
            laws = [law for law in laws if law in own]
    if not laws:
        raise GroupError(f"Expected groups on '{term}' that leave one law of noise as it is (got none for all)")
    return laws[0]
