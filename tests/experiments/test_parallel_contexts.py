"""Contexts encoded serially or in parallel: the network, its masks, the bound, the criterion."""

from __future__ import annotations

import pytest
import torch

from attnverify.experiments import committed
from attnverify.experiments.engine import weights
from attnverify.experiments.trained_models import decoder, parallel, training
from attnverify.mathematics import blocks, entropy


def test_the_network_is_the_decoder():
    """Read serially: the layers' states of the library's module, which works in float32."""
    given, words = weights.committed(decoder.NAME), parallel.words(0)
    module = decoder.model()
    module.load_state_dict(given, strict=False)  # the embedding is the output map, too
    wide = {name: value.double() for name, value in given.items()}
    with torch.no_grad():
        theirs = module.model(words[None], output_hidden_states=True).hidden_states
        ours = parallel.network(wide, parallel.mask("serial")).hidden(
            wide["model.embed_tokens.weight"][words]
        )
    for mine, other in zip(ours[:-1], theirs[:-1], strict=True):  # the last one is normalized
        off = (mine - other[0]).abs().max()
        assert off <= training.roundings() * torch.finfo(torch.float32).eps * mine.abs().max()


def test_in_parallel_a_context_sees_itself_and_the_question_sees_all():
    keep, n = parallel.mask("parallel"), parallel.LENGTH
    assert keep[n, 0 : n + 1].tolist() == [False] * n + [True]
    assert keep[4 * n].tolist() == [True] * (4 * n + 1) + [False] * (n - 1)
    assert bool((parallel.mask("serial") == torch.ones_like(keep).tril()).all())


@pytest.mark.parametrize("seed", range(3))
def test_the_identity_holds_within_its_bound_and_half_a_choice_does_not(seed):
    random = torch.Generator().manual_seed(seed)
    Z = 8 * torch.randn(4, 24, dtype=torch.float64, generator=random)
    H, choice = blocks.together(Z), entropy.entropy(blocks.sizes(Z))
    assert (H - choice - blocks.inside(Z)).abs() <= parallel.rounding(Z) < 2**-38
    assert (H - choice / 2 - blocks.inside(Z)).abs() > 2**20 * parallel.rounding(Z)


def rows(later=0.25, first=0.0, choice=0.5, off=1.0):
    found = []
    for layer in range(1, 5):
        for reading in parallel.READINGS:
            more = (first if layer == 1 else later) * (reading == "parallel")
            lists = {"entropy": [more, 0.0], "choice": [choice, 1.0]}
            found.append({"layer": layer, "reading": reading, "off": off, **lists})
    return found


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"later": -0.26}, False),
        ({"first": 2e-5}, False),
        ({"choice": 0.49}, False),
        ({"off": 1.01}, False),
        ({"off": None}, None),
    ],
)
def test_at_the_limits(changed, holds):
    assert parallel.judge(rows(**changed)).holds is holds


def test_half_a_table_decides_nothing():
    assert parallel.judge(rows()[:-1]).holds is None and parallel.judge([]).holds is None


def test_the_parts_of_the_table_add_up():
    """As far as six digits tell."""
    for row in committed("parallel-contexts").rows:
        for H, choice, inside in zip(*(row[key] for key in parallel.KEYS[:3]), strict=True):
            assert H == pytest.approx(choice + inside, abs=1.5e-5)
