"""Several networks of one shape at once: their weights are stacked along a leading axis.

One batched product then serves all of them, so five seeds train in little more time than one.
Adam works entry by entry, so the networks do not influence each other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.errors import require

Weights = dict[str, Tensor]


class _Layers(nn.Module):
    """The layers of a network one after the other, without the checks of its input.

    The checks branch on the data, which ``vmap`` cannot.
    """

    def __init__(self, network: SelfAttentionNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, X: Tensor) -> Tensor:
        for layer in range(self.network.depth):
            X = self.network.layer(layer, X)
        return X


class Ensemble:
    """Networks of one shape with stacked weights, each weight (networks, ...).

    Raises InputError if there are none or their options differ.
    """

    def __init__(self, networks: Sequence[SelfAttentionNetwork]) -> None:
        require(len(networks) >= 1, "networks", "none", "at least one network")
        shapes = [{name: p.shape for name, p in net.named_parameters()} for net in networks]
        parts = [[part and part.options for part in (net.mlp, net.norm)] for net in networks]
        options = [(net.skip, net.mask, *own) for net, own in zip(networks, parts, strict=True)]
        alike = all(s == shapes[0] for s in shapes) and all(o == options[0] for o in options)
        require(alike, "networks", "different shapes or options", "the same for all networks")
        self._template = _Layers(networks[0])
        stacked, _ = stack_module_state([_Layers(net) for net in networks])
        self.initial: Weights = {
            name.removeprefix("network."): value.detach() for name, value in stacked.items()
        }

    def outputs(
        self, weights: Weights, X: Float[Tensor, "networks *batch tokens width"]
    ) -> Float[Tensor, "networks *batch tokens width"]:
        """The output of every network at its own X; weights that are not given are the first's."""

        def one(weights: Weights, X: Tensor) -> Tensor:
            named = {f"network.{name}": value for name, value in weights.items()}
            return functional_call(self._template, named, (X,))

        return vmap(one)(weights, X)

    def network(self, weights: Weights, index: int) -> SelfAttentionNetwork:
        """One of the networks with these weights, in float64 on the CPU."""
        net = copy.deepcopy(self._template.network).cpu().double()
        with torch.no_grad():
            for name, value in weights.items():
                net.get_parameter(name).copy_(value[index])
        return net
