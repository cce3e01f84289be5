"""Encoder layers against the reference implementation, and deviations against exact arithmetic."""

from dataclasses import replace

import pytest
import torch

from attnverify.mathematics import deviations, stacks
from attnverify.mathematics.deviations import Layer, Parts, Relative, Tokens
from attnverify.mathematics.encoder import Encoder
from attnverify.support.errors import InputError

SIZES = {
    "initializer_range": 0.02,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "intermediate_size": 3072,
    "vocab_size": 50,
}
IDS = torch.tensor([[3, 17, 4, 4, 29, 8, 41, 17, 2, 11]])


def linear(module):
    return module.weight.detach().mT, module.bias.detach()


def heads_of(matrix, bias, heads=12):
    """(width, width) and (width,) as (heads, width, key_width) and (heads, key_width)."""
    by_head = matrix.reshape(matrix.shape[0], heads, -1).transpose(0, 1)
    return by_head, bias.reshape(heads, -1)


def norms_of(*modules):
    names = {"scale": "weight", "shift": "bias"}
    return {k: torch.stack([getattr(m, v).detach() for m in modules]) for k, v in names.items()}


def from_linears(own, out, first, second, **rest):
    """A layer of the modules with query, key and value, and of three linear modules."""
    (W_Q, b_Q), (W_K, _), (W_V, b_V) = (
        heads_of(*linear(module)) for module in (own.query, own.key, own.value)
    )
    (W_O, b_O), (W_1, b_1), (W_2, b_2) = map(linear, (out, first, second))
    W_O = W_O.reshape(12, -1, 768)
    return Layer(W_Q, b_Q, W_K, W_V, b_V, W_O, b_O, W_1, b_1, W_2, b_2, **rest)


def from_bert(block):
    out, last = block.attention.output, block.output
    return from_linears(
        block.attention.self,
        out.dense,
        block.intermediate.dense,
        last.dense,
        **norms_of(out.LayerNorm, last.LayerNorm),
    )


def from_albert(block):
    own = block.attention
    return from_linears(
        own,
        own.dense,
        block.ffn,
        block.ffn_output,
        activation="gelu_new",
        **norms_of(own.LayerNorm, block.full_layer_layer_norm),
    )


def from_xlnet(block):
    own, ff = block.rel_attn, block.ff
    W_Q, W_K, W_V, W_R = (getattr(own, name).detach().transpose(0, 1) for name in "qkvr")
    W_O = own.o.detach().permute(1, 2, 0)
    (W_1, b_1), (W_2, b_2) = linear(ff.layer_1), linear(ff.layer_2)
    zero = torch.zeros_like(b_2)
    return Layer(
        W_Q,
        own.r_w_bias.detach(),
        W_K,
        W_V,
        zero.reshape(12, -1),
        W_O,
        zero,
        W_1,
        b_1,
        W_2,
        b_2,
        **norms_of(own.layer_norm, ff.layer_norm),
        relative=Relative(W_R, own.r_r_bias.detach()),
    )


def perturb(model):
    """Biases and norms start at 0 and 1, which would hide mistakes."""
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim == 1:
                value += 0.1 * torch.randn(value.shape)
    return model.eval()


def bert():
    from transformers import BertConfig, BertModel

    model = perturb(BertModel(BertConfig(**SIZES), add_pooling_layer=False))
    table = model.embeddings
    rows = (
        table.word_embeddings(IDS[0]),
        table.position_embeddings.weight[: IDS.shape[1]],
        table.token_type_embeddings.weight[0],
    )
    return model, [from_bert(block) for block in model.encoder.layer], (*rows, None)


def albert():
    from transformers import AlbertConfig, AlbertModel

    model = perturb(AlbertModel(AlbertConfig(**SIZES, embedding_size=128), add_pooling_layer=False))
    block = model.encoder.albert_layer_groups[0].albert_layers[0]
    table, matrix = model.embeddings, model.encoder.embedding_hidden_mapping_in
    torch.nn.init.zeros_(matrix.bias)
    rows = (
        table.word_embeddings(IDS[0]),
        table.position_embeddings.weight[: IDS.shape[1]],
        table.token_type_embeddings.weight[0],
    )
    return model, [from_albert(block)] * 12, (*rows, matrix.weight.mT)


def xlnet():
    from transformers import XLNetConfig, XLNetModel

    sizes = {"d_model": 768, "n_head": 12, "n_layer": 12, "d_inner": 3072, "vocab_size": 50}
    model = perturb(XLNetModel(XLNetConfig(**sizes)))
    return model, [from_xlnet(block) for block in model.layer], None


@pytest.mark.parametrize("build", [bert, albert, xlnet])
@torch.no_grad()
def test_agrees_with_the_reference(build):
    """Input and output of all 12 layers at the full shape, relative to a layer's largest entry.

    In float32 the two may differ by 1e-5: a dot product of length n <= 3,072 loses about
    sqrt(n) 2^-24 = 3.3e-6 of the products' root mean square where roundings have random signs
    (Higham and Mary 2019), and layer norms keep the sizes.
    """
    torch.manual_seed(0)
    model, layers, rows = build()
    if rows is not None:
        layer_norm = model.embeddings.LayerNorm
        torch.nn.init.ones_(layer_norm.weight), torch.nn.init.zeros_(layer_norm.bias)
    states = model(IDS, output_hidden_states=True).hidden_states
    start = model.word_embedding(IDS[0]) if rows is None else stacks.embed(*rows)
    X = Tokens.of(start)
    assert len(states) == 13
    for state, layer in zip(states, [None, *layers], strict=True):
        X = X if layer is None else deviations.apply(layer, X)
        error = (X.values - state[0]).abs().max() / state.abs().max()
        assert error <= 1e-5
        assert X.values.dtype == torch.float32


@pytest.mark.parametrize("parts", [Parts(), Parts(skip=True), deviations.FULL])
@torch.no_grad()
def test_agrees_with_the_trained_network(parts):
    """The trained encoder's layers, parts switched off, against the plain forward pass.

    Both round each of about 6 * 2,700 operations of a chain to 2^-53, 1.8e-12 in all if every
    rounding had one sign and none were amplified.
    """
    encoder = Encoder.bundled()
    net = encoder.network if parts == deviations.FULL else encoder.attention_stack(parts.skip)
    X = encoder.embed("The path decomposition splits a transformer into paths.")
    tokens = Tokens.of(X)
    for layer, state in zip(stacks.trained_layers(encoder), net.hidden(X)[1:], strict=True):
        tokens = deviations.apply(layer, tokens, parts)
        assert (tokens.values - state).abs().max() <= 1.8e-12 * state.abs().max()


def test_random_stacks():
    """Functions of the seed alone; one layer for ALBERT; words alone enter XLNet."""
    small = replace(stacks.BERT, width=24, heads=3, hidden=8, depth=3, embedding=24)
    first, again = (list(stacks.random_layers(small, 4)) for _ in range(2))
    assert all(torch.equal(a.W_1, b.W_1) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].W_Q, first[1].W_Q)
    shared = list(stacks.random_layers(replace(small, shared=True), 4))
    assert len(shared) == 3 and shared[0] is shared[2]
    big = stacks.random_layer(stacks.BERT, 1)
    # the standard deviation of n draws of deviation s is off by s / sqrt(2 n); five of those
    assert abs(big.W_1.std() / 0.02 - 1) <= 5 / (2 * big.W_1.numel()) ** 0.5
    X = stacks.random_embedding(stacks.XLNET, [5, 9, 5], 0)
    assert torch.equal(X[0], X[2]) and not torch.equal(X[0], X[1])
    assert stacks.random_embedding(stacks.ALBERT, [5, 9, 5], 0).shape == (3, 768)
    for bad, message in (({"ids": []}, "^ids: got none"), ({"seed": -1}, "^seed: got -1")):
        with pytest.raises(InputError, match=message):
            stacks.random_embedding(stacks.BERT, **{"ids": [1], "seed": 0, **bad})
