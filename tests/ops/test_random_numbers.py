import pytest
import torch
from scipy import stats

from probsym.ops.random_numbers import random_numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("normal", "law"), [(True, "norm"), (False, "uniform")])
def test_numbers_have_their_law_and_come_from_the_generator(normal: bool, law: str, dtype: torch.dtype) -> None:
    def drawn(seed: int) -> torch.Tensor:
        return random_numbers((40, 50), normal=normal, dtype=dtype, generator=torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    numbers, same, other = drawn(0), drawn(0), drawn(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert numbers.dtype == dtype
    assert torch.equal(numbers, same)
    assert not torch.equal(numbers, other)
    assert stats.kstest(numbers.flatten().numpy(), law).pvalue > 1e-4


def test_without_a_generator_the_global_one_is_used() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first = random_numbers((4,), normal=False)
        torch.manual_seed(3)
        assert torch.equal(first, torch.rand(4))
