"""Permutations by their number in lexicographic order, of all items or within runs of items."""

import torch
from torch import Tensor


def numbered_orders(number: Tensor, start: Tensor, left: Tensor, behind: Tensor, longest: int) -> Tensor:
    """The permutations with these numbers (*batch, 1) that keep runs in place: positions (*batch, n).

    The run of each position begins at `start` and has `left` positions from this one to its end; `behind` is the
    product of what is left at all positions behind. All are (*batch, n), or broadcast to it. Digits of the number, the
    last position's fastest, say which of the items that are left in its run each position takes. No run may be longer
    than `longest`.

    >>> start, left, behind = torch.tensor([[0, 0, 2, 3, 3], [2, 1, 1, 2, 1], [2, 2, 2, 1, 1]])
    >>> numbered_orders(torch.arange(4).unsqueeze(1), start, left, behind, longest=2).tolist()
    [[0, 1, 2, 3, 4], [0, 1, 2, 4, 3], [1, 0, 2, 3, 4], [1, 0, 2, 4, 3]]
    """
    digit = number // behind % left
    offset = torch.arange(digit.shape[-1], device=digit.device) - start
    for place in reversed(range(longest - 1)):  # an item behind those taken before it stands one further in the run
        taken = digit.gather(-1, torch.where(offset > place, start + place, start).expand(digit.shape))
        digit += (offset > place) & (digit >= taken)
    return start + digit
