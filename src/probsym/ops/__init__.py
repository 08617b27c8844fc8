"""Numerical kernels with their own gradients."""

from probsym.ops.gram_schmidt import gram_schmidt
from probsym.ops.order import Order
from probsym.ops.permute import descending, invert, take
from probsym.ops.short_attention import short_attention
from probsym.ops.sinkhorn import sinkhorn
from probsym.ops.soft_sort import SoftSort, soft_sort

__all__ = [
    "Order",
    "SoftSort",
    "descending",
    "gram_schmidt",
    "invert",
    "short_attention",
    "sinkhorn",
    "soft_sort",
    "take",
]
