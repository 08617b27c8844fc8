"""What every test of the laboratory leaves as it was."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _products() -> Iterator[None]:
    """Runs set the precision of products of float32 matrices, which is global."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)
