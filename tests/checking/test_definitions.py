"""The comparison of formulas with their definitions: what it accepts, and what errors it sees."""

import numpy as np
import pytest
from flint import arb

from attnverify.arithmetic import ops
from attnverify.chapters import registry
from attnverify.checking.check import Decision
from attnverify.checking.definition_agreement import agree, drawn, within
from attnverify.mathematics import attention as network
from attnverify.mathematics import eigenspectrum, norms, softmax
from attnverify.mathematics.paths import FixedAttention

CHECKS = {id: registry.checks_of(id) for id in registry}


def comparison(left, right):
    return agree(lambda: [("one", left, right)]).holds


def test_equal_balls_agree_and_others_do_not():
    assert comparison([arb(1), arb(2)], [arb(1), arb(2)]) is True
    assert comparison([arb(1), arb(2)], [arb(1), arb(2) + arb(2) ** -50]) is False


def test_shapes_must_be_equal():
    """Broadcasting would let one number agree with many."""
    assert comparison(arb(1), [arb(1), arb(1)]) is False


def test_wide_balls_show_nothing():
    assert comparison([arb(1, 2.0**-30)], [arb(1)]) is None
    assert comparison([arb(float("nan"))], [arb(1)]) is None


def test_within_is_certain():
    assert within(0.5, arb(1), arb(1.25)) == 0
    assert within(0.5, arb(1), arb(2)) == 1
    assert not within(0.5, arb(1, 0.5), arb(1.25)) == 0  # may be further apart


def test_drawn_entries_are_never_zero():
    (X,) = drawn(0, (50, 50))
    assert all(x != 0 for x in X.flat)


def test_every_comparison_has_a_twin():
    found = [
        check
        for checks in CHECKS.values()
        for check in checks.values()
        if isinstance(check, Decision) and getattr(check.run, "func", None) is agree
    ]
    assert len(found) >= 25
    assert all(check.twins for check in found)


def reversed_term(self, X, path, term=FixedAttention.term):
    return term(self, X, path[::-1])


def turned_round(tokens, like, window=None):
    return np.tri(tokens).T > 0


def largest_difference(p, q):
    return ops.amax(abs(p - q), -1)


def in_chapter(id, name="entry by entry"):
    return CHECKS[id][name].run.args[0]


SIZES, DISTANCES = map(in_chapter, ("norms.submultiplicative", "norms.diameter"))
ROWS, ROOT = in_chapter("softmax.linearization"), in_chapter("localization.exact", "root")


MASKED = in_chapter("collapse.causal-mask", "token by token")
SKIP = in_chapter("paths.skip-decomposition", "token by token")
CONSTANTS = in_chapter("collapse.single-layer", "constants")
#: (owner of a formula, its name, a wrong formula, the comparison that must see it)
ERRORS = {
    "the closing bias": (network, "layer_bias", lambda b_V, W_O, b_O: b_O, SKIP),
    "the order of layers in a path": (FixedAttention, "term", reversed_term, SKIP),
    "the mask turned round": (ops, "causal", turned_round, MASKED),
    "no total variation": (norms, "total_variation", largest_difference, DISTANCES),
    "no root": (eigenspectrum, "covariance_root", lambda S, width: S, ROOT),
    "columns for rows": (
        norms,
        "max_row_sum",
        norms.max_column_sum,
        SIZES,
    ),
    "the key width": (ops, "root", lambda value, like: value, CONSTANTS),
    "no clipping": (softmax, "piecewise_linear", softmax.linearized, ROWS),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_that_both_sides_of_a_claim_would_share(name, monkeypatch):
    owner, formula, wrong, pairs = ERRORS[name]
    assert agree(pairs).holds is True
    monkeypatch.setattr(owner, formula, wrong)
    assert agree(pairs).holds is False
