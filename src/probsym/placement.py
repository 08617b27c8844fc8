"""Where averages belong: points about the centroid of the input, or added to the input that they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.estimate import Average, Outputs, one_or_all
from probsym.samplers.batch import Batch, translate, zero_padding


@dataclass(frozen=True, eq=False)
class Placement:
    """Brings what was averaged about the centroid back to where the inputs are.

    Args:
        outline: the inputs as they were given.
        batch: the inputs as samplers and base have seen them.
        residual: the number of an input that is added to the only output, which is then a vector without a place.
    """

    outline: Batch
    batch: Batch
    residual: int | None

    def mean(self, average: Average) -> Outputs:
        """The mean of every output, (B, ...)."""
        if self.residual is not None:
            added = self._added(self.residual)
            return (average.mean()[0] + added).to(torch.promote_types(average.dtypes[0], added.dtype))
        placed = [self._placed(y, i, self.batch.centroids, self.batch.masks) for i, y in enumerate(average.mean())]
        return one_or_all([y.to(self._dtype(i, average.dtypes[i])) for i, y in enumerate(placed)])

    def values(self, chunks: Sequence[tuple[Tensor, ...]]) -> Outputs:
        """The outputs of all draws, (B, K, ...), from chunks of them."""
        values = [torch.cat(each, 1) for each in zip(*chunks, strict=True)]
        if self.residual is not None:
            return values[0] + self._added(self.residual).unsqueeze(1)
        draws = values[0].shape[1]
        masks, centroids = (
            {name: tensor.repeat_interleave(draws, 0) for name, tensor in each.items()}
            for each in (self.batch.masks, self.batch.centroids)
        )
        for i, y in enumerate(values):
            precise = y.flatten(0, 1).to(self._dtype(i, y.dtype))
            values[i] = self._placed(precise, i, centroids, masks).view(y.shape)
        return one_or_all(values)

    def _added(self, i: int) -> Tensor:
        """Input i as it was given, but for padding, which is zero."""
        added = self.outline.inputs[i]
        assert isinstance(added, Tensor)
        return zero_padding(added, self.outline.signature.inputs[i], self.outline.masks)

    def _placed(self, y: Tensor, i: int, centroids: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> Tensor:
        """Output i with its points about the input's centroid."""
        for key, centroid in centroids.items():
            y = translate(y, self.batch.signature.outputs[i], key, centroid, masks)
        return y

    def _dtype(self, i: int, dtype: torch.dtype) -> torch.dtype:
        """That of output i: what the base gave it, but points are known as well as those of the input."""
        points = any(axis.kind == "point" for axis in self.batch.signature.outputs[i].axes)
        given = next((x.dtype for x in self.batch.inputs if x.is_floating_point()), dtype)
        return torch.promote_types(dtype, given) if points else dtype
