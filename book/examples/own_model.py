from types import SimpleNamespace

import torch
from torch import nn

import attnverify as av
from attninspect.architecture import (
    MLP,
    Architecture,
    Attention,
    Block,
    layer_norm,
    linear,
)


class SelfAttention(nn.Module):  # two heads; it returns its matrices beside its output
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        P = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
        return self.o((P @ v).transpose(1, 2).flatten(2)), P


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = SelfAttention(width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))[0]
        return x + self.down(torch.relu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.config = SimpleNamespace(model_type="own", vocab_size=23)
        self.embedding, self.end = nn.Embedding(23, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.end(x)


@av.adapter("own")
def own(model):
    def blocks(layer):
        a = layer.attention
        maps = (linear(part) for part in (a.q, a.k, a.v, a.o))
        attention = Attention(a, *maps, heads=2, key_heads=2, scale=4**-0.5)
        mlp = MLP(linear(layer.up), linear(layer.down))
        return [  # what is added to the stream, each behind its norm, and where the sum is seen
            Block([(layer_norm(layer.first), attention)], total=(layer.second, "input")),
            Block([(layer_norm(layer.second), mlp)], total=(layer, "output")),
        ]

    return Architecture([*model.layers], blocks, final=layer_norm(model.end))


report = av.inspect(Model(), [3, 4, 5])
