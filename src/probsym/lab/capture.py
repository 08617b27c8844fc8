"""Whole steps as CUDA graphs: launched at once, with nothing of Python in between."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Captured:
    """A function of one index tensor, recorded on the GPU once and then replayed.

    It must do the same on the same memory every time; what it returns is overwritten by the next call. Random numbers
    come from `generator`, which may be seeded anew between calls.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], index: Tensor, generator: torch.Generator) -> None:
        self.index, self.function = index.clone(), function  # kept, since the graph reads what it holds
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # so that everything lazy has happened
                function(self.index)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(generator)
        with torch.cuda.graph(self.graph):
            self.result = function(self.index)

    def __call__(self, index: Tensor) -> Tensor:
        self.index.copy_(index, non_blocking=True)
        self.graph.replay()
        return self.result
