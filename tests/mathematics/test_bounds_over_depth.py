"""The bounds over depth: what their hypotheses refuse, and how near they are to the networks."""

from attnverify.chapters import composite_layers as layers
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.chapters.lookup import checks_of
from attnverify.checking.ball_comparison import compare
from attnverify.mathematics import collapse, norms

VERSION_2 = checks_of("collapse.single-head")["depth"]
NETWORK, *_, WITHOUT_SCORES = (make() for make in VERSION_2.extremal)


def test_a_negative_gamma_is_refused_where_no_layer_bounds_it():
    """L = 1, beta = 1 and E = 0: with gamma = -1 the bound would be -4, below the residual 0."""
    negative = {**WITHOUT_SCORES, "gamma": -WITHOUT_SCORES["gamma"]}
    refused = compare(VERSION_2, negative)
    assert refused.hypotheses == "fail" and refused.outcome == "unknown"
    assert compare(VERSION_2, WITHOUT_SCORES).outcome == "pass"
    (twin,) = [t for t in VERSION_2.twins if "any sign" in t.title]
    assert compare(twin.check, negative).outcome == "fail"


def test_gamma_and_beta_below_a_layers_own_are_refused():
    assert compare(VERSION_2, NETWORK).outcome == "pass"
    for name in ("beta", "gamma"):
        small = {**NETWORK, name: NETWORK[name] * 0.99}
        assert compare(VERSION_2, small).hypotheses == "fail"


def test_residual_over_depth_is_that_of_the_network():
    network = layers.two_layers(heads=2)
    network["X"] = network["X"] * 2.0**8
    batch = {k: v[None] for k, v in network.items()}
    known = norms.composite(norms.residual(collapse.network(**batch, key_width=KEY_WIDTH)))
    # the linear programs leave 1e-9 of a sum
    found, _ = layers.over_depth(collapse.best_constant, collapse.iterate, **batch)
    assert abs(found / known - 1) < 1e-8
