from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import BertConfig, ViTConfig, ViTModel

from probsym import Symmetrized, groups, testing
from probsym.bases import EdgeList, EncoderSettings, PatchTransformer, patch_transformer
from probsym.errors import DtypeError, ProbsymError, RangeError, ShapeError, SignatureError
from probsym.nets import GIN
from probsym.samplers import Learned
from tests.bases.cases import (
    TINY,
    TOLERANCE,
    both_dtypes,
    count,
    gradients,
    make_inputs,
    make_mask,
    normal,
    scrambled,
)

BERT = {**TINY, "family": "bert"}
OUTPUTS = ["3", "", "n 2", "n", "n n 2", "n n"]


def build(arrays: str, n: int = 9, dtype: torch.dtype = torch.float64, **options: Any) -> PatchTransformer:
    torch.manual_seed(0)
    model = PatchTransformer(arrays, n, **{"encoder": TINY, "grid": 4, **options}).to(dtype)
    scrambled(model, 0.1)
    return model


@both_dtypes
def test_is_a_vit_on_images(dtype: torch.dtype) -> None:
    """An array "n n 3" is an image; with the same weights, the first token is that of the library's own model."""
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=12,
        patch_size=3,
        layer_norm_eps=1e-6,
    )
    vit = ViTModel(config, add_pooling_layer=False).to(dtype).eval()
    scrambled(vit)
    model = build("n n 3 -> 5", 12, dtype, encoder=config)
    parts = vit.embeddings
    with torch.no_grad():
        model.tokenize.weights[0].copy_(parts.patch_embeddings.projection.weight.permute(2, 3, 1, 0).reshape(-1, 32))
        model.tokenize.bias.copy_(parts.patch_embeddings.projection.bias)
        model.cls.copy_(parts.cls_token.view(-1))
        model.positions.copy_(parts.position_embeddings[0])
    model.encoder.layers.load_state_dict(vit.layers.state_dict())
    model.encoder.norm.load_state_dict(vit.layernorm.state_dict())
    image = normal(2, 12, 12, 3, dtype=dtype)
    hidden = vit(image.permute(0, 3, 1, 2)).last_hidden_state
    wanted = hidden[:, 0] @ model.detokenize.weight + model.detokenize.bias
    assert_close(model(image), wanted, **TOLERANCE[dtype])


@both_dtypes
@pytest.mark.parametrize("encoder", [TINY, BERT], ids=["vit", "bert"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_puts_its_parts_together(output: str, encoder: dict[str, Any], dtype: torch.dtype) -> None:
    model, inputs = build(f"n 3, n n -> {output}", 9, dtype, encoder=encoder), make_inputs("n 3, n n -> n", 2, 7, dtype)
    rows = []
    for row in model.tokenize(*inputs):
        tokens = [model.cls, *row]
        rows.append(torch.stack([token + place for token, place in zip(tokens, model.positions, strict=True)]))
    wanted = model.detokenize(model.encoder(torch.stack(rows)), 7)
    actual = model(*inputs)
    assert actual.shape == model.arrays.output.shape(2, 7)
    assert actual.dtype == dtype
    assert_close(actual, wanted, **TOLERANCE[dtype])
    leaves = [*inputs, *model.parameters()]
    assert_close(gradients(actual, leaves), gradients(wanted, leaves), rtol=1e-3, atol=TOLERANCE[dtype]["atol"] * 10)


@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_reach_every_parameter(output: str) -> None:
    model = build(f"n 3, n n -> {output}", 16)
    reached = gradients(model(*make_inputs("n 3, n n -> n", 2, 16)), model.parameters())
    assert all(gradient.abs().sum() > 0 for gradient in reached)


@pytest.mark.parametrize("diagonal", [False, True])
def test_fewer_items_are_padded_with_zeros(diagonal: bool) -> None:
    model = build("n 3, n n -> n 2", diagonal_inputs=diagonal, diagonal_output=diagonal)
    x, links = make_inputs("n 3, n n -> n", 2, 6)
    pad = torch.nn.functional.pad
    assert_close(model(x, links), model(pad(x, (0, 0, 0, 3)), pad(links, (0, 3, 0, 3)))[:, :6])


def test_diagonal_options_reach_the_layers() -> None:
    plain, diagonal = build("n 3 -> n 2"), build("n 3 -> n 2", diagonal_inputs=True, diagonal_output=True)
    assert (plain.tokenize.diagonal, plain.detokenize.diagonal) == (False, False)
    assert (diagonal.tokenize.diagonal, diagonal.detokenize.diagonal) == (True, True)
    assert diagonal.tokenize.weights[0].shape == (3 * 3, 32)
    assert diagonal.detokenize.weight.shape == (32, 3 * 2)


@both_dtypes
@pytest.mark.parametrize("diagonal", [False, True])
def test_edges_are_the_array(diagonal: bool, dtype: torch.dtype) -> None:
    model = build("n 3, n n, n n 2 -> n n", 9, dtype, diagonal_inputs=diagonal)
    x = normal(2, 7, 3, dtype=dtype)
    dense = [normal(2, 7, 7, dtype=dtype, seed=1).relu(), normal(2, 7, 7, 2, dtype=dtype, seed=2).relu()]
    edges = [EdgeList.from_dense(array) for array in dense]
    output, wanted = model(x, *edges), model(x, *dense)
    assert_close(output, wanted, **TOLERANCE[dtype])
    leaves = list(model.parameters())
    assert_close(gradients(output, leaves), gradients(wanted, leaves), rtol=1e-3, atol=TOLERANCE[dtype]["atol"] * 10)
    assert_close(model(x, edges[0], dense[1]), wanted, **TOLERANCE[dtype])


def test_edges_alone_are_enough() -> None:
    model, links = build("n n -> 3"), normal(2, 7, 7).relu()
    assert_close(model(EdgeList.from_dense(links)), model(links))
    empty = EdgeList(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0), 2, 7)
    assert_close(model(empty), model(torch.zeros(2, 7, 7)))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_inputs_are_cast_to_the_parameters(dtype: torch.dtype) -> None:
    model, x, links = build("n 2, n n -> n"), normal(2, 7, 2), normal(2, 7, 7, seed=1) > 0
    assert_close(model(x, links.to(dtype)), model(x, links.double()))


def test_parameter_count_of_the_paper() -> None:
    """With the 3 * 16 * 16 inputs of an image's patch instead of the tokenizer, that of ViT-B: 85.8 M."""
    with torch.device("meta"):
        model = PatchTransformer("n 3, n n -> n 2", n=188, diagonal_inputs=True, diagonal_output=True)
    kept = count(model.encoder) + model.cls.numel() + model.positions.numel()
    assert kept == 85_208_064
    assert kept + 768 * 16 * 16 * 3 + 768 == 85_798_656
    assert count(model.tokenize) == (14 * 3 + 14 * 14 + 1) * 768
    assert count(model.detokenize) == 768 * 14 * 2 + 2
    assert count(model) == kept + count(model.tokenize) + count(model.detokenize)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("output", "returned", "diagonal"),
    [("k", "3", False), ("n k", "n 2", False), ("n k", "n 2", True), ("n n k", "n n 2", False), ("", "", True)],
)
def test_symmetrized_follows_permutations(output: str, returned: str, diagonal: bool, masked: bool) -> None:
    base = build(
        f"n 2, n n -> {returned}", diagonal_inputs=diagonal, diagonal_output=diagonal and returned.startswith("n")
    )
    sampler = Learned(GIN(2, hidden=8, layers=2))
    model = Symmetrized(base, f"n c, n n -> {output}", {"n": groups.S()}, sampler, samples=3).double()
    x, links = normal(3, 6, 2), normal(3, 6, 6, seed=1)
    links = ((links + links.mT) > 0).double()
    testing.assert_equivariant(model, x, links, mask=make_mask(3, 6) if masked else None)


@pytest.mark.parametrize("encoder", [TINY, BERT], ids=["vit", "bert"])
def test_checkpointing_changes_nothing(encoder: dict[str, Any]) -> None:
    inputs, results = make_inputs("n 3, n n -> n", 2, 9), []
    for checkpointing in (False, True):
        model = build("n 3, n n -> n n", encoder=encoder, checkpointing=checkpointing)
        y = model(*inputs)
        results.append([y, *gradients(y, [*inputs, *model.parameters()])])
    assert model.encoder.checkpointing
    assert_close(results[1], results[0], rtol=0, atol=0)


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("encoder", [TINY, BERT], ids=["vit", "bert"])
@pytest.mark.parametrize("output", ["3", "n 2", "n n"])
def test_bfloat16(output: str, encoder: dict[str, Any], edges: bool) -> None:
    model = build(f"n 3, n n -> {output}", 9, torch.float32, encoder=encoder)
    x, links = normal(2, 7, 3, dtype=torch.float32), normal(2, 7, 7, dtype=torch.float32, seed=1).relu()
    inputs = x, EdgeList.from_dense(links) if edges else links
    wanted = model(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        actual = model(*inputs)
    assert_close(actual.float(), wanted, rtol=0.05, atol=0.08)
    assert all(gradient.isfinite().all() for gradient in gradients(actual, model.parameters()))
    model.to(torch.bfloat16)
    actual = model(*inputs)
    assert actual.dtype == torch.bfloat16
    assert_close(actual.float(), wanted, rtol=0.05, atol=0.08)
    assert all(gradient.isfinite().all() for gradient in gradients(actual, model.parameters()))


def kept_tokens(model: PatchTransformer, batch: int = 4) -> list[list[int]]:
    """Which tokens of every row reach the encoder, in one call."""
    seen: list[Tensor] = []
    with torch.no_grad():
        for parameter in model.tokenize.parameters():
            parameter.zero_()
        hook = model.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        model(torch.ones(batch, 9, 3, dtype=torch.float64))
        hook.remove()
    (tokens,) = seen
    assert_close(tokens[:, 0], (model.cls + model.positions[0]).expand(batch, -1))
    return [[int((token == model.positions[1:]).all(-1).nonzero()) for token in row[1:]] for row in tokens.detach()]


@pytest.mark.parametrize(("share", "left"), [(0.0, 16), (0.5, 8), (0.3, 11), (0.75, 4), (0.99, 1), ((0.25, 0.25), 12)])
def test_patch_dropout_leaves_the_right_number(share: Any, left: int) -> None:
    model = build("n 3 -> 2", patch_dropout=share)
    for row in kept_tokens(model):
        assert len(row) == len(set(row)) == left
    for row in kept_tokens(model.eval()):
        assert row == list(range(16))


def test_patch_dropout_is_drawn_for_every_row_and_call() -> None:
    model = build("n 3 -> 2", patch_dropout=0.5)
    rows = [frozenset(row) for _ in range(3) for row in kept_tokens(model, 10)]
    assert len(set(rows)) > 25
    counts = Counter(token for _ in range(20) for row in kept_tokens(model, 10) for token in row)
    assert sorted(counts) == list(range(16))
    assert 60 < min(counts.values()) <= max(counts.values()) < 140


def test_patch_dropout_can_draw_its_share() -> None:
    model = build("n 3 -> 2", patch_dropout=(0.25, 0.75))
    lengths = []
    for _ in range(40):
        rows = kept_tokens(model, 2)
        assert len(rows[0]) == len(rows[1])
        lengths.append(len(rows[0]))
    assert 4 <= min(lengths) < 7
    assert 9 < max(lengths) <= 12


@pytest.mark.parametrize("family", ["vit", "bert"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_tokens_that_are_hidden_are_as_if_left_out(
    family: str, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("n 3 -> 2", encoder={**TINY, "family": family}, patch_dropout=(0.2, 0.9), checkpointing=checkpointing)
    (x,) = make_inputs("n 3 -> 2", 3, 9)
    lengths = []
    model.encoder.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    for seed in range(5):
        results = []
        for keeps in (False, True):
            monkeypatch.setattr(patch_transformer, "keeps_shapes", lambda _, keeps=keeps: keeps)
            torch.manual_seed(seed)
            y = model(x)
            results.append([y, *gradients(y, model.parameters())])
        assert all(torch.allclose(left_out, hidden, atol=1e-12) for left_out, hidden in zip(*results, strict=True))
    assert set(lengths[1::2]) == {1 + 13}  # as many as are left at the least
    assert len(set(lengths[::2])) > 2


def test_patch_dropout_is_off_in_evaluation() -> None:
    model, plain, (x,) = build("n 3 -> 2", patch_dropout=0.5), build("n 3 -> 2"), make_inputs("n 3 -> 2", 2, 9)
    assert not torch.isclose(model(x), model(x)).any()
    assert torch.equal(model.eval()(x), plain(x))
    gradients(model.train()(x), model.parameters())


def test_patches_can_be_dropped_in_evaluation_too() -> None:
    model, (x,) = build("n 3 -> 2", eval_patch_dropout=0.5).eval(), make_inputs("n 3 -> 2", 2, 9)
    lengths = []
    model.encoder.register_forward_pre_hook(lambda module, given: lengths.append(given[0].shape[1]))
    first, second = model(x), model(x)
    assert not torch.allclose(first, second)
    model.train()(x)
    tokens = model.grid**2
    assert lengths == [1 + round(tokens / 2)] * 2 + [1 + tokens]
    with pytest.raises(RangeError, match="which every token has a part in"):
        build("n 3 -> n 2", eval_patch_dropout=0.5)


def test_patch_dropout_with_edges_and_checkpointing() -> None:
    model = build("n n -> 2", patch_dropout=(0.2, 0.6), checkpointing=True)
    y = model(EdgeList.from_dense(normal(2, 7, 7).relu()))
    assert all(gradient.isfinite().all() for gradient in gradients(y, model.parameters()))


@pytest.mark.parametrize("share", [0.5, (0.0, 0.5)])
@pytest.mark.parametrize("output", ["n 2", "n", "n n 2", "n n"])
def test_refuses_patch_dropout_where_every_token_is_needed(output: str, share: Any) -> None:
    with pytest.raises(RangeError, match=rf"^Expected no patch_dropout with the output '{output}', .* \(got "):
        build(f"n 3 -> {output}", patch_dropout=share)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan"), (0.5, 0.2), (0.1,), (0.1, 0.2, 0.3), (0.5, 1.0), "0.5"])
def test_refuses_shares(share: Any) -> None:
    with pytest.raises(RangeError, match=r"^Expected patch_dropout to be in \[0, 1\), or a pair \(low, high\) of such"):
        build("n 3 -> 2", patch_dropout=share)


@pytest.mark.parametrize("share", [None, ("a", "b"), {"low": 0.1}], ids=str)
def test_refuses_shares_that_are_no_numbers(share: Any) -> None:
    with pytest.raises(ProbsymError, match=r"^Expected patch_dropout to be "):
        build("n 3 -> 2", patch_dropout=share)


def test_dropout_only_in_training() -> None:
    model, plain = build("n 3 -> 2", encoder={**TINY, "dropout": 0.5}), build("n 3 -> 2")
    (x,) = make_inputs("n 3 -> 2", 2, 9)
    assert not torch.isclose(model(x), model(x)).any()
    assert torch.equal(model.eval()(x), plain(x))


@pytest.mark.slow
@pytest.mark.parametrize("edges", [False, True])
def test_compiles_without_a_break(edges: bool) -> None:
    model, (x, links) = build("n 3, n n -> n 2"), make_inputs("n 3, n n -> n", 2, 7)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    given = EdgeList.from_dense(links.detach().relu()) if edges else links
    assert_close(compiled(x, given), model(x, given))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, (0.0, 0.5)])
def test_patch_dropout_compiles_without_a_break(share: Any) -> None:
    model, inputs = build("n 3 -> 2", patch_dropout=share), make_inputs("n 3 -> 2", 2, 7)
    compiled, outputs = torch.compile(model, backend="aot_eager", fullgraph=True), []
    for call in (compiled, compiled, model):
        torch.manual_seed(len(outputs) % 2)
        outputs.append(call(*inputs))
    assert_close(outputs[0], outputs[2])
    assert not torch.allclose(outputs[0], outputs[1])


@pytest.mark.parametrize("arrays", ["n 3 -> ", "n n -> "])
@pytest.mark.parametrize("output", ["3", "n 2", "n n"])
def test_an_empty_batch_stays_empty(arrays: str, output: str) -> None:
    model = build(arrays + output)
    assert model(*make_inputs(arrays, 0, 7)).shape == model.arrays.output.shape(0, 7)


def test_an_empty_batch_of_edges_stays_empty() -> None:
    edges = EdgeList(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0), 0, 7)
    assert build("n n -> n 2")(edges).shape == (0, 7, 2)


@pytest.mark.parametrize("diagonal", [False, True])
def test_inputs_of_any_strides(diagonal: bool) -> None:
    model, x = build("n 3 -> 2", 32, diagonal_inputs=diagonal), normal(2, 3, 32).mT
    assert_close(model(x), model(x.contiguous()))


def test_grid_is_that_of_an_image_unless_told() -> None:
    with torch.device("meta"):
        model = PatchTransformer("n n -> 2", 20, {**TINY, "layers": 1})
    assert model.grid == 14
    assert model.positions.shape == (197, 32)
    assert build("n n -> 2", grid=2).positions.shape == (5, 32)


def test_remembers_how_it_was_made() -> None:
    config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    model = PatchTransformer("n n -> 2", 9, config, 3, patch_dropout=(0.1, 0.2), checkpointing=True)
    assert model.arguments["encoder"] == EncoderSettings.of(config).described()
    again = PatchTransformer(**model.arguments)
    again.load_state_dict(model.state_dict())
    links = torch.rand(2, 9, 9)
    assert torch.equal(again.eval()(links), model.eval()(links))
    assert again.arguments == model.arguments


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        ("n n", {}, SignatureError, r"arrays as text with one '->'"),
        ("3 -> 2", {}, SignatureError, r"PatchTransformer to read order 1 or 2 in input 0 \(got '3'\)"),
        ("n n n -> 2", {}, SignatureError, r"PatchTransformer to read order 1 or 2 in input 0 \(got 'n n n'\)"),
        ("n -> n n n", {}, SignatureError, r"PatchTransformer to return order 0 or 1 or 2 \(got 'n n n'\)"),
        ("n 3 -> 2", {"diagonal_output": True}, SignatureError, r"an output of order 1 to be read .*\(got '2'\)"),
        ("n 3 -> n n", {"diagonal_output": True}, SignatureError, r"an output of order 1 to be read .*\(got 'n n'\)"),
        ("n 3 -> 2", {"n": 0}, RangeError, r"n to be 1 or more \(got 0\)"),
        ("n 3 -> 2", {"n": 9.0}, RangeError, r"n to be 1 or more \(got 9.0\)"),
        ("n 3 -> 2", {"grid": 0}, RangeError, r"grid to be 1 or more \(got 0\)"),
        ("n 3 -> 2", {"grid": 4.0}, RangeError, r"grid to be 1 or more \(got 4.0\)"),
        ("n 3 -> 2", {"encoder": "vit-x"}, RangeError, r"an encoder among vit-ti, vit-s, vit-b, vit-l \(got 'vit-x'\)"),
        ("n 3 -> 2", {"encoder": {**TINY, "heads": 3}}, RangeError, r"whole numbers of 1 or more, and heads that"),
        ("n 3 -> 2", {"encoder": None}, RangeError, r"an encoder as a name, a mapping or a configuration"),
    ],
)
def test_refuses_to_be_built(arrays: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build(arrays, **options)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((torch.ones(2, 4, 3),), ShapeError, r"2 inputs, 'n 3, n n -> 2' \(got 1\)"),
        ((torch.ones(2, 4, 3), torch.ones(2, 4, 3)), ShapeError, r"input 1 \('n n'\) to have shape \(2, 4, 4\)"),
        (
            (torch.ones(2, 4, 3), torch.ones(2, 4, 4).to(torch.complex64)),
            DtypeError,
            r"input 1 \('n n'\) .* real numbers",
        ),
        ((torch.ones(2, 4, 3), [1.0]), DtypeError, r"input 1 \('n n'\) .* real numbers \(got list\)"),
        ((torch.tensor(1.0), torch.ones(2, 4, 4)), ShapeError, r"input 0 \('n 3'\) to have shape"),
        ((torch.ones(2, 10, 3), torch.ones(2, 10, 10)), ShapeError, r"at most 9 items \(got 10\)"),
        (
            (torch.ones(2, 4, 3), EdgeList.from_dense(torch.ones(2, 5, 5))),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(2, 4, 4\) \(got \(2, 5, 5\)\)",
        ),
        (
            (torch.ones(2, 4, 3), EdgeList.from_dense(torch.ones(2, 4, 4, 2))),
            ShapeError,
            r"input 1 \('n n'\) to have shape \(2, 4, 4\) \(got \(2, 4, 4, 2\)\)",
        ),
    ],
)
def test_refuses_inputs(inputs: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Expected " + message):
        build("n 3, n n -> 2")(*inputs)


def test_refuses_an_edge_list_for_items() -> None:
    with pytest.raises((DtypeError, ShapeError), match=r"^Expected input 0 \('n 5'\)"):
        build("n 5 -> 2")(EdgeList.from_dense(torch.ones(2, 5, 5)))


@pytest.mark.parametrize("place", [(0, 0, 5), (0, 7, 0), (2, 0, 0), (0, -1, 0), (-1, 0, 0)], ids=str)
def test_refuses_edges_outside(place: tuple[int, int, int]) -> None:
    model = build("n n -> 2")
    with pytest.raises(ProbsymError, match=r"^Expected "):
        model(EdgeList(torch.tensor(place).view(3, 1), torch.ones(1), batch=2, n=5))
