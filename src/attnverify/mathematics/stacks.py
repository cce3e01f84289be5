"""Randomly initialized stacks of the shapes of BERT-base, ALBERT-base and XLNet-base.

Twelve layers, twelve heads, width 768, MLP width 3072, initialized as the released models are:
normal with standard deviation 0.02, biases 0, layer norms 1 and 0 (Devlin et al. 2019; Lan et al.
2020; Yang et al. 2019). Weights are drawn layer by layer, so that a stack needs the memory of one
layer, and are a function of (seed, layer). Nothing is downloaded.

Word embeddings are drawn for the words that occur: rows of a random table are independent, so which
row a word gets does not matter, only which words are equal.

>>> import attnverify as av
>>> X = av.stacks.random_embedding(av.stacks.BERT, [7, 7, 9], seed=0)
>>> X.shape, X.dtype
(torch.Size([3, 768]), torch.float64)
>>> [shape.name for shape in av.stacks.SHAPES]
['BERT-base', 'ALBERT-base', 'XLNet-base']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.mathematics.deviations import Layer, Relative
from attnverify.mathematics.encoder import Encoder
from attnverify.mathematics.weights import normalize
from attnverify.support.errors import require

INITIAL = 0.02  # standard deviation of the released models' weights


@dataclass(frozen=True)
class Shape:
    """What distinguishes the three architectures.

    embedding: width of the word embeddings, mapped to ``width`` by a matrix where it differs;
    normalized: word, position and type embeddings are added and pass a layer norm (otherwise
    words alone enter); shared: one layer for all depths; relative: attention by position.
    """

    name: str
    embedding: int = 768
    normalized: bool = True
    shared: bool = False
    relative: bool = False
    activation: Literal["gelu", "gelu_new"] = "gelu"
    width: int = 768
    heads: int = 12
    depth: int = 12
    hidden: int = 3072


BERT = Shape("BERT-base")
ALBERT = Shape("ALBERT-base", embedding=128, shared=True, activation="gelu_new")
XLNET = Shape("XLNet-base", normalized=False, relative=True)
SHAPES = (BERT, ALBERT, XLNET)


class Draw:
    """Normal float64 numbers from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, deviation: float) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64) * deviation


def random_layer(shape: Shape, seed: int, deviation: float = INITIAL) -> Layer:
    """One layer with weights of standard deviation ``deviation``, float64."""
    draw = Draw(seed)
    H, d, k, m = shape.heads, shape.width, shape.width // shape.heads, shape.hidden
    zeros = partial(torch.zeros, dtype=torch.float64)
    W_Q, W_K, W_V = (draw(H, d, k, deviation=deviation) for _ in range(3))
    relative = None
    if shape.relative:
        relative = Relative(draw(H, d, k, deviation=deviation), draw(H, k, deviation=deviation))
    return Layer(
        W_Q=W_Q,
        W_K=W_K,
        W_V=W_V,
        W_O=draw(H, k, d, deviation=deviation),
        b_Q=draw(H, k, deviation=deviation) if shape.relative else zeros(H, k),
        b_V=zeros(H, k),
        b_O=zeros(d),
        W_1=draw(d, m, deviation=deviation),
        b_1=zeros(m),
        W_2=draw(m, d, deviation=deviation),
        b_2=zeros(d),
        scale=torch.ones(2, d, dtype=torch.float64),
        shift=zeros(2, d),
        activation=shape.activation,
        relative=relative,
    )


def random_layers(shape: Shape, seed: int, deviation: float = INITIAL) -> Iterator[Layer]:
    """The layers from first to last; a shared layer is drawn once and repeated."""
    layer = None
    for index in range(shape.depth):
        if layer is None or not shape.shared:
            layer = random_layer(shape, _seed(seed, index + 1), deviation)
        yield layer


def _seed(seed: int, part: int) -> int:
    require(seed >= 0, "seed", seed, "a whole number >= 0")
    return 1000 * seed + part  # part < 1000: the embeddings are part 0, layer i is part i


def trained_layers(encoder: Encoder) -> Iterator[Layer]:
    """The layers of a trained encoder, first to last."""
    for index in range(encoder.network.depth):
        yield Layer.of(encoder.network, index)


def random_embedding(
    shape: Shape, ids: list[int], seed: int, deviation: float = INITIAL
) -> Float[Tensor, "tokens {shape.width}"]:
    """Input of the first layer for tokens with these ids (equal ids are equal words), float64."""
    require(len(ids) >= 1, "ids", "none", "at least one token id")
    draw, e = Draw(_seed(seed, 0)), shape.embedding
    distinct = {id: row for row, id in enumerate(dict.fromkeys(ids))}
    word = draw(len(distinct), e, deviation=deviation)[[distinct[id] for id in ids]]
    if not shape.normalized:
        return word
    position, type = draw(len(ids), e, deviation=deviation), draw(e, deviation=deviation)
    matrix = None if e == shape.width else draw(e, shape.width, deviation=deviation)
    return embed(word, position, type, matrix)


def embed(
    word: Float[Tensor, "tokens embedding"],
    position: Float[Tensor, "tokens embedding"],
    type: Float[Tensor, " embedding"],
    matrix: Float[Tensor, "embedding width"] | None,
    epsilon: float = 1e-12,
) -> Float[Tensor, "tokens width"]:
    """Layer norm (scale 1, shift 0) of word + position + type, then the map to the full width."""
    total = word + position + type
    out = normalize(total, torch.ones_like(type), torch.zeros_like(type), epsilon)
    return out if matrix is None else out @ matrix
