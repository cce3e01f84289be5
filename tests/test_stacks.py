"""Encoder layers against the reference implementation, and deviations against exact arithmetic."""

import os
from dataclasses import replace

os.environ["HF_HUB_OFFLINE"] = "1"

import mpmath
import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    XLNetConfig,
    XLNetModel,
)

from attnverify import deviations, stacks
from attnverify.deviations import Layer, Parts, Relative, Tokens
from attnverify.encoder import Encoder
from attnverify.errors import InputError

SIZES = {"initializer_range": 0.02, "hidden_size": 768, "num_attention_heads": 12,
         "num_hidden_layers": 12, "intermediate_size": 3072, "vocab_size": 50}  # fmt: skip
IDS = torch.tensor([[3, 17, 4, 4, 29, 8, 41, 17, 2, 11]])


def linear(module):
    return module.weight.detach().mT, module.bias.detach()


def heads_of(matrix, bias, heads=12):
    """(width, width) and (width,) as (heads, width, key_width) and (heads, key_width)."""
    by_head = matrix.reshape(matrix.shape[0], heads, -1).transpose(0, 1)
    return by_head, bias.reshape(heads, -1)


def norms_of(*modules):
    pairs = [(m.weight.detach(), m.bias.detach()) for m in modules]
    return {
        "scale": torch.stack([p[0] for p in pairs]),
        "shift": torch.stack([p[1] for p in pairs]),
    }


def from_bert(block, activation="gelu"):
    own, out = block.attention.self, block.attention.output
    (W_Q, b_Q), (W_K, _), (W_V, b_V) = (
        heads_of(*linear(m)) for m in (own.query, own.key, own.value)
    )
    W_O, b_O = linear(out.dense)
    (W_1, b_1), (W_2, b_2) = linear(block.intermediate.dense), linear(block.output.dense)
    return Layer(W_Q, b_Q, W_K, W_V, b_V, W_O.reshape(12, -1, 768), b_O, W_1, b_1, W_2, b_2,
                 **norms_of(out.LayerNorm, block.output.LayerNorm), activation=activation)  # fmt: skip


def from_albert(block):
    own = block.attention
    (W_Q, b_Q), (W_K, _), (W_V, b_V) = (
        heads_of(*linear(m)) for m in (own.query, own.key, own.value)
    )
    W_O, b_O = linear(own.dense)
    (W_1, b_1), (W_2, b_2) = linear(block.ffn), linear(block.ffn_output)
    return Layer(W_Q, b_Q, W_K, W_V, b_V, W_O.reshape(12, -1, 768), b_O, W_1, b_1, W_2, b_2,
                 **norms_of(own.LayerNorm, block.full_layer_layer_norm),
                 activation="gelu_new")  # fmt: skip


def from_xlnet(block):
    own, ff = block.rel_attn, block.ff
    W_Q, W_K, W_V, W_R = (getattr(own, name).detach().transpose(0, 1) for name in "qkvr")
    W_O = own.o.detach().permute(1, 2, 0)
    (W_1, b_1), (W_2, b_2) = linear(ff.layer_1), linear(ff.layer_2)
    zero = torch.zeros_like(b_2)
    return Layer(W_Q, own.r_w_bias.detach(), W_K, W_V, zero.reshape(12, -1), W_O, zero,
                 W_1, b_1, W_2, b_2, **norms_of(own.layer_norm, ff.layer_norm),
                 relative=Relative(W_R, own.r_r_bias.detach()))  # fmt: skip


def perturb(model):
    """Biases and norms start at 0 and 1, which would hide mistakes."""
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim == 1:
                value += 0.1 * torch.randn(value.shape)
    return model.eval()


def bert():
    model = perturb(BertModel(BertConfig(**SIZES), add_pooling_layer=False))
    table = model.embeddings
    rows = (table.word_embeddings(IDS[0]), table.position_embeddings.weight[: IDS.shape[1]],
            table.token_type_embeddings.weight[0])  # fmt: skip
    return model, [from_bert(block) for block in model.encoder.layer], (*rows, None)


def albert():
    model = perturb(AlbertModel(AlbertConfig(**SIZES, embedding_size=128), add_pooling_layer=False))
    block = model.encoder.albert_layer_groups[0].albert_layers[0]
    table, matrix = model.embeddings, model.encoder.embedding_hidden_mapping_in
    torch.nn.init.zeros_(matrix.bias)
    rows = (table.word_embeddings(IDS[0]), table.position_embeddings.weight[: IDS.shape[1]],
            table.token_type_embeddings.weight[0])  # fmt: skip
    return model, [from_albert(block)] * 12, (*rows, matrix.weight.mT)


def xlnet():
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


def test_positions_matter_in_xlnet():
    """Without its position term the XLNet layer is another function."""
    torch.manual_seed(0)
    layer = from_xlnet(XLNetModel(XLNetConfig(d_model=768, n_head=12, n_layer=1, vocab_size=5))
                       .eval().layer[0])  # fmt: skip
    X = Tokens.of(torch.randn(6, 768))
    without = deviations.attention(replace(layer, relative=None), X)
    assert (without.values - deviations.attention(layer, X).values).abs().max() > 1e-4


# ---------------------------------------------------------------- digits of tiny deviations

ERF = mpmath.erf
ACTIVATIONS = {
    "gelu": lambda z: z * (1 + ERF(z / mpmath.sqrt(2))) / 2,
    "gelu_new": lambda z: z / 2 * (1 + mpmath.tanh(
        mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf(0.044715) * z**3))),
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "tanh": mpmath.tanh,
}  # fmt: skip


def small_layer(activation, relative, width=6, heads=2, hidden=5):
    g = torch.Generator().manual_seed(7)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64) / 2
    k = width // heads
    position = Relative(draw(heads, width, k), draw(heads, k)) if relative else None
    return Layer(draw(heads, width, k), draw(heads, k), draw(heads, width, k), draw(heads, width, k),
                 draw(heads, k), draw(heads, k, width), draw(width), draw(width, hidden),
                 draw(hidden), draw(hidden, width), draw(width), draw(2, width), draw(2, width),
                 activation=activation, relative=position)  # fmt: skip


def exact(x):
    return mpmath.matrix(x.tolist())


def plain_layer(layer, X, parts):
    """The definition of the layer on mpmath rows, without any splitting."""
    n, d = X.rows, X.cols
    heads, _, k = layer.W_Q.shape
    Y = mpmath.matrix(n, d)
    for h in range(heads):
        Q, K, V = (X * exact(W[h]) for W in (layer.W_Q, layer.W_K, layer.W_V))
        R = None
        if layer.relative is not None:
            R = exact(deviations.offsets(n, d)) * exact(layer.relative.W_R[h])
        for i in range(n):
            scores = []
            for j in range(n):
                s = sum((Q[i, a] + mpmath.mpf(layer.b_Q[h, a].item())) * K[j, a] for a in range(k))
                if R is not None:
                    bias = layer.relative.bias[h]
                    s += sum((Q[i, a] + mpmath.mpf(bias[a].item())) * R[n - 1 - (i - j), a]
                             for a in range(k))  # fmt: skip
                scores.append(mpmath.exp(s / mpmath.sqrt(k)))
            row = mpmath.matrix([[sum(p * V[j, a] for j, p in enumerate(scores)) / sum(scores)
                                  + mpmath.mpf(layer.b_V[h, a].item()) for a in range(k)]])  # fmt: skip
            Y[i, :] += row * exact(layer.W_O[h])
    Y = rowwise(Y, lambda i, j, v: v + mpmath.mpf(layer.b_O[j].item()))
    Y = ending(layer, 0, X, Y, parts)
    if not parts.mlp:
        return Y
    Z = rowwise(Y * exact(layer.W_1), lambda i, j, v: ACTIVATIONS[layer.activation](
        v + mpmath.mpf(layer.b_1[j].item()))) * exact(layer.W_2)  # fmt: skip
    Z = rowwise(Z, lambda i, j, v: v + mpmath.mpf(layer.b_2[j].item()))
    return ending(layer, 1, Y, Z, parts)


def rowwise(A, f):
    return mpmath.matrix([[f(i, j, A[i, j]) for j in range(A.cols)] for i in range(A.rows)])


def ending(layer, sublayer, before, after, parts):
    X = before + after if parts.skip else after
    if not parts.norm:
        return X
    out = []
    for i in range(X.rows):
        row = [X[i, j] for j in range(X.cols)]
        mean = sum(row) / len(row)
        s = mpmath.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + mpmath.mpf(layer.epsilon))
        out.append([(v - mean) / s * mpmath.mpf(layer.scale[sublayer, j].item())
                    + mpmath.mpf(layer.shift[sublayer, j].item()) for j, v in enumerate(row)])  # fmt: skip
    return mpmath.matrix(out)


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-9, 1e-60])
@pytest.mark.parametrize(("activation", "relative", "parts"), [
    ("gelu", False, Parts()), ("gelu", False, deviations.FULL), ("gelu", True, Parts(norm=True)),
    ("gelu_new", False, Parts(mlp=True)), ("relu", False, Parts(mlp=True, skip=True)),
    ("tanh", False, deviations.FULL), ("gelu", False, Parts(mlp=True)),
])  # fmt: skip
def test_deviations_keep_their_digits(size, activation, relative, parts):
    """Deviations of any size come out right, where a difference of rows would be noise.

    Sums of at most 12 products and six maps in a row lose 12 * 6 roundings of 2^-53, an activation
    3e-11 of its argument's change (see deviations._gelu_change). Weights of size 1/2 and layer
    norms amplify an error by no more than 30, so 1e-9 relative to the largest deviation.
    """
    layer = small_layer(activation, relative)
    g = torch.Generator().manual_seed(3)
    center = torch.randn(6, generator=g, dtype=torch.float64)
    X = Tokens(center, size * torch.randn(4, 6, generator=g, dtype=torch.float64)).recentered()
    found = deviations.apply(layer, X, parts).deviations
    with mpmath.workdps(200):
        start = rowwise(exact(X.deviations), lambda i, j, v: v + mpmath.mpf(X.center[j].item()))
        Y = plain_layer(layer, start, parts)
        means = [sum(Y[i, j] for i in range(4)) / 4 for j in range(6)]
        expected = torch.tensor([[float(Y[i, j] - means[j]) for j in range(6)] for i in range(4)],
                                dtype=torch.float64)  # fmt: skip
    assert expected.abs().max() > 0
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()


def test_large_logits_do_not_overflow():
    """Logits of size 1e5 give hard attention, not nan."""
    layer = small_layer("gelu", False)
    X = Tokens.of(
        400 * torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    )
    out = deviations.attention(layer, X)
    scores = (X.values @ layer.W_Q + layer.b_Q[:, None]) @ (X.values @ layer.W_K).mT / 3**0.5
    assert scores.abs().max() > 1e4
    P = torch.softmax(scores, -1)
    expected = (P @ (X.values @ layer.W_V + layer.b_V[:, None]) @ layer.W_O).sum(0) + layer.b_O
    # scores of size s carry s 2^-53 roundings, which softmax passes on to its weights
    tolerance = 100 * 2.0**-53 * float(scores.abs().max())
    assert (out.values - expected).abs().max() <= tolerance * expected.abs().max()


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


def test_bad_tokens():
    for X, message in (
        (torch.zeros(0, 4), "^X: got shape"),
        (torch.full((2, 3), torch.nan), "^X: got"),
    ):
        with pytest.raises(InputError, match=message):
            Tokens.of(X)
    bare = Encoder.bundled().attention_stack()
    with pytest.raises(InputError, match="^net: got a network without them"):
        Layer.of(bare, 0)
