"""Canonicalization: p(g|x) is one element."""

from collections.abc import Sequence

from torch import nn

from probsym.samplers.learned import Learned


class Canonical(Learned):
    """One element, chosen by an equivariant net without noise; `Learned` with noise 0.

    The element is a function of the input unless scores tie or vectors do not span the space, as must happen if the
    input is itself symmetric. Then it is drawn from the elements that fit, so that the model stays equivariant in
    distribution. Several `samples` average over these; for other inputs they only repeat the same element.

    >>> import torch
    >>> from probsym import Symmetrized, groups, nets
    >>> sampler = Canonical(nets.DeepSets(in_channels=1))
    >>> model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, sampler).eval()
    >>> x = torch.tensor([[[3.0], [1.0], [2.0]]])
    >>> bool((model(x) == model(x.flip(1))).all())
    True
    """

    def __init__(
        self,
        net: nn.Module,
        reads: Sequence[int] | None = None,
        tau: float = 0.01,
        input_gradient: bool = False,
        prior: bool = False,
    ) -> None:
        super().__init__(net, noise=0.0, tau=tau, reads=reads, input_gradient=input_gradient, prior=prior)
