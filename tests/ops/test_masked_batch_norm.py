import os
from datetime import timedelta

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap
from torch.testing import assert_close

from probsym.errors import MaskError, RangeError, ShapeError, TracingError
from probsym.nets import MaskedBatchNorm

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def pair(channels, dtype=torch.float64):
    """Ours and torch's, with the same weights, far from the initial ones."""
    ours, other = MaskedBatchNorm(channels).to(dtype), nn.BatchNorm1d(channels).to(dtype)
    with torch.no_grad():
        for norm in (ours, other):
            norm.weight.copy_(normal(channels, dtype=dtype, seed=1))
            norm.bias.copy_(normal(channels, dtype=dtype, seed=2))
    return ours, other


def some_mask(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3)) < 0.6


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
def test_agrees_with_torch_on_the_real_rows(masked, dtype):
    ours, other = pair(5, dtype)
    mask = some_mask(4, 1, 6) if masked else None
    chosen = (mask if masked else torch.ones(4, 1, 6, dtype=torch.bool)).expand(4, 3, 6)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
    for step in range(3):
        x = normal(4, 3, 6, 5, dtype=dtype, seed=step).mul_(2).add_(1)
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        output, wanted = ours(mine, mask)[chosen], other(theirs[chosen])
        cotangent = normal(*wanted.shape, dtype=dtype, seed=9)
        got = torch.autograd.grad((output * cotangent).sum(), [mine, ours.weight, ours.bias])
        want = torch.autograd.grad((wanted * cotangent).sum(), [theirs, other.weight, other.bias])
        assert_close(output, wanted, **tolerance)
        assert_close(got, want, **tolerance)
        assert_close(ours.running_mean, other.running_mean, **tolerance)
        assert_close(ours.running_var, other.running_var, **tolerance)
    ours.eval(), other.eval()
    assert_close(ours(x, mask)[chosen], other(x[chosen]), **tolerance)


def test_gradient_by_finite_differences():
    norm = MaskedBatchNorm(3).double()
    mask = some_mask(7)
    assert torch.autograd.gradcheck(lambda x: norm(x, mask)[mask], normal(7, 3).requires_grad_())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("garbage", [1e30, torch.nan, torch.inf])
def test_padding_has_no_say(garbage, training):
    norm, mask = MaskedBatchNorm(3).train(training), some_mask(8, 4)
    results = []
    for fill in (0.0, garbage):
        x = torch.where(mask[..., None], normal(8, 4, 3, dtype=torch.float32), fill).requires_grad_()
        y = norm(x, mask)
        loss = (y * mask[..., None]).square().sum()
        results.append([y[mask], *torch.autograd.grad(loss, [x, norm.weight])])
        assert torch.isfinite(y).all()
    assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_large_offsets_keep_the_variance(offset):
    x = normal(64, 3)
    mask = torch.ones(64, dtype=torch.bool)
    output = MaskedBatchNorm(3)((x + offset).float(), mask).double()
    wanted = MaskedBatchNorm(3).double()((x + offset).float().double(), mask)
    assert (output - wanted).abs().max() < 1e-2


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_real_rows(count):
    norm = MaskedBatchNorm(3)
    norm.running_var.fill_(7)
    mask = torch.arange(4) < count
    x = normal(4, 3, dtype=torch.float32).requires_grad_()
    y = norm(x, mask)
    y.sum().backward()
    assert torch.equal(y[mask], torch.zeros(count, 3))
    assert torch.isfinite(x.grad).all()
    assert torch.equal(norm.running_var, torch.full((3,), 7.0))
    assert_close(norm.running_mean, 0.1 * count * x[0].detach())


def test_a_single_row_without_a_mask():
    norm = MaskedBatchNorm(3)
    assert torch.equal(norm(torch.ones(1, 3)), torch.zeros(1, 3))
    assert torch.equal(norm.running_var, torch.ones(3))


def test_names_of_parameters_and_buffers():
    assert set(MaskedBatchNorm(2).state_dict()) == {"weight", "bias", "running_mean", "running_var"}


def by_moments(norm, x):
    """The same from the count, the mean and the sum of squared differences alone."""
    rows = x.reshape(-1, x.shape[-1])
    count = rows.new_tensor([len(rows)])
    mean, scale = norm.statistics((count, rows.mean(0), (rows - rows.mean(0)).square().sum(0)))
    return torch.addcmul(norm.bias, x - mean, scale)


def test_statistics_from_moments():
    ours, other = pair(3)[0], pair(3)[0]
    leaf, twin = (normal(8, 4, 3).add_(100).requires_grad_() for _ in range(2))
    output, wanted = by_moments(ours, leaf), other(twin)
    assert_close(output, wanted, rtol=1e-10, atol=1e-10)
    assert_close(list(ours.buffers()), list(other.buffers()))
    got, want = (torch.autograd.grad(y.sin().sum(), x) for y, x in ((output, leaf), (wanted, twin)))
    assert_close(got, want, rtol=1e-8, atol=1e-10)


FORMS = ("masked", "plain", "moments")


def _process(rank, store, x, mask, cotangent, queue):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    share, results = slice(0, 5) if rank == 0 else slice(5, None), {}
    for form in FORMS:
        norm, leaf = pair(3)[0], x[share].clone().requires_grad_()
        y = by_moments(norm, leaf) if form == "moments" else norm(leaf, mask[share] if form == "masked" else None)
        (y * cotangent[share]).sum().backward()
        tensors = [y.detach(), leaf.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]
        norm.eval()(leaf)
        results[form] = [tensor.numpy() for tensor in tensors]
    queue.put((rank, results))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_two_processes_equal_one_on_the_joined_batch(tmp_path, monkeypatch):
    """The shares differ in size, and under the mask one process has no more than one real row."""
    x, cotangent = normal(8, 4, 3).add_(100), normal(8, 4, 3, seed=5)
    mask = some_mask(8, 4)
    mask[5:] = False
    mask[5, 2] = True
    monkeypatch.setitem(os.environ, "GLOO_SOCKET_IFNAME", "lo")
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    arguments = (tmp_path / "store", x, mask, cotangent, queue)
    workers = [context.Process(target=_process, args=(rank, *arguments)) for rank in range(2)]
    for worker in workers:
        worker.start()
    results = dict(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(60)
    for form in FORMS:
        norm, leaf = pair(3)[0], x.clone().requires_grad_()
        y = norm(leaf, mask if form == "masked" else None)
        (y * cotangent).sum().backward()
        first, second = ([torch.from_numpy(array) for array in results[rank][form]] for rank in (0, 1))
        assert_close(torch.cat([first[0], second[0]]), y.detach(), rtol=1e-10, atol=1e-10)
        assert_close(torch.cat([first[1], second[1]]), leaf.grad, rtol=1e-9, atol=1e-10)
        assert_close(first[2] + second[2], norm.weight.grad, rtol=1e-9, atol=1e-10)
        assert_close(first[3] + second[3], norm.bias.grad, rtol=1e-9, atol=1e-10)
        for rank in (first, second):
            assert_close(rank[4], norm.running_mean)
            assert_close(rank[5], norm.running_var)


@pytest.mark.parametrize(
    ("arguments", "options"), [((0,), {}), ((-1,), {}), ((2.5,), {}), ((2,), {"momentum": 2.0}), ((2,), {"eps": 0.0})]
)
def test_refuses_malformed_sizes(arguments, options):
    with pytest.raises(RangeError, match="Expected"):
        MaskedBatchNorm(*arguments, **options)


@pytest.mark.parametrize("shape", [(5,), (5, 4), ()])
def test_refuses_the_wrong_channels(shape):
    with pytest.raises(ShapeError, match=r"\(got"):
        MaskedBatchNorm(3)(torch.zeros(shape))


@pytest.mark.parametrize(
    "mask", [torch.ones(5), torch.ones(4, dtype=torch.bool), torch.ones(1, 5, dtype=torch.bool)], ids=str
)
def test_refuses_the_wrong_mask(mask):
    with pytest.raises(MaskError, match="Expected mask"):
        MaskedBatchNorm(3)(torch.zeros(5, 3), mask)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("transform", [grad, lambda f: jacrev(grad(f))], ids=["grad", "jacrev of grad"])
def test_transforms_in_training_agree_with_autograd_and_keep_statistics(transform, masked):
    x, mask = normal(7, 3), some_mask(7) if masked else None
    real = mask if masked else slice(None)
    ours, other = (MaskedBatchNorm(3).double() for _ in range(2))

    def loss(norm):
        return lambda y: norm(y, mask)[real].pow(3).sum()

    derivatives, wanted = transform(loss(ours))(x), torch.autograd.functional.jacobian(loss(other), x)
    if transform is not grad:
        other = MaskedBatchNorm(3).double()
        wanted = torch.autograd.functional.hessian(loss(other), x)
    assert_close(derivatives, wanted)
    assert_close(ours.running_mean, other.running_mean)
    assert_close(ours.running_var, other.running_var)
    assert ours.running_mean.any()


@pytest.mark.parametrize("masked", [True, False])
def test_a_vmap_over_one_norm_in_training_is_refused(masked):
    norm, x, mask = MaskedBatchNorm(3), normal(4, 7, 3), some_mask(7) if masked else None
    for function in (vmap(lambda y: norm(y, mask)), vmap(grad(lambda y: norm(y, mask).sum()))):
        with pytest.raises(TracingError, match=r"evaluation mode for a vmap, model.eval\(\)"):
            function(x.float())
    assert_close(
        vmap(lambda y: norm.eval()(y, mask))(x.float()), norm(x.float(), mask if mask is None else mask.expand(4, 7))
    )


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_vmap_over_several_norms_in_training_moves_the_statistics_of_each():
    norms, x, mask = [pair(3)[0], MaskedBatchNorm(3).double()], normal(2, 7, 3), some_mask(7)
    parameters, buffers = stack_module_state(norms)
    outputs = vmap(lambda *state: functional_call(norms[0], state[:2], (state[2], mask)))(parameters, buffers, x)
    for i, norm in enumerate(norms):
        assert_close(outputs[i], norm(x[i], mask))
        assert_close(buffers["running_var"][i], norm.running_var)
