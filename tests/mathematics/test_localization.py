"""Signal propagation probability: against simulation, against balls, and what bad input gets."""

import math

import numpy as np
import pytest
import torch
from flint import arb

from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.chapters.simulation_cases import CASES
from attnverify.mathematics import chisquare, localization
from attnverify.mathematics.quadrature import reference

WALKS, BATCH = 10_000_000, 100_000
IDENTITY = torch.eye(4, dtype=torch.float64)
SKEWED = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)


def exact(case, accuracy=1e-8):
    return localization.probability(
        case.W, case.tokens, case.temperature, covariance=case.covariance, accuracy=accuracy
    )


def passing(case, walks: np.ndarray) -> np.ndarray:
    """How many of the walks with unit steps, (T, d, n), pass at each token; (T,)."""
    root = np.linalg.cholesky(case.covariance.numpy())  # any root of S gives steps with law N(0, S)
    x = root @ walks
    scores = (x * (case.W.numpy() @ x[-1])).sum(1)
    scores -= scores.mean(0)
    low, high = case.thresholds
    return ((scores > low) & (scores < high)).sum(-1)


@pytest.fixture(scope="module")
def simulated() -> dict[str, np.ndarray]:
    """Share of passing walks at each token and case.

    By numpy, apart from the package's own simulation. Every case sees the same unit steps: its
    walks are independent of one another, which is what a standard error needs.
    """
    random = np.random.default_rng(0)
    counts = {name: np.zeros(8, dtype=np.int64) for name in CASES}
    for _ in range(WALKS // BATCH):
        walks = random.standard_normal((8, 4, BATCH)).cumsum(0)
        for name, case in CASES.items():
            counts[name] += passing(case, walks)
    return {name: count / WALKS for name, count in counts.items()}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_exact_probability_against_ten_million_walks(name, simulated):
    """Within 4 standard errors at every token; of 40 values a right law misses with 0.3 percent."""
    case = CASES[name]
    assert (case.tokens, len(case.W)) == (8, 4)
    p = exact(case).numpy()
    error = np.sqrt(p * (1 - p) / WALKS)
    assert (np.abs(simulated[name] - p) <= 4 * error + 1e-8).all()


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_ten_million_walks_tell_a_wrong_law(name, simulated):
    """The same comparison refuses weights that are one percent too large."""
    case = CASES[name]
    p = localization.between(1.01 * case.weights, *case.thresholds, 1e-8).numpy()
    error = np.sqrt(p * (1 - p) / WALKS)
    assert (np.abs(simulated[name] - p) > 4 * error + 1e-8).any()


@pytest.mark.parametrize("name", CASES)
def test_exact_probability_against_balls(name):
    """A quadrature that shares no formula with the inversion, at every token and threshold."""
    case = CASES[name]
    low, high = (arb(x) for x in case.thresholds)
    for row, found in zip(case.weights, exact(case), strict=True):
        with ops.precision(128):
            weights = [arb(float(v)) for v in row]
            known = reference(weights, high) - reference(weights, low)
            assert abs(arb(float(found)) - known) <= arb(1e-8)


POINTS = [-40.0, 0.0, 3.0]  # far below, near and above every mean
TOKENS = [0, 3, 7]


@pytest.fixture(scope="module")
def known() -> dict[str, list[list[arb]]]:
    """P(Q <= x) by quadrature in balls, to 1e-12, at POINTS for TOKENS of every case."""
    with ops.precision(128):
        return {
            name: [
                [reference([arb(float(v)) for v in row], arb(x), 1e-12) for x in POINTS]
                for row in case.weights[TOKENS]
            ]
            for name, case in CASES.items()
        }


@pytest.mark.parametrize("accuracy", [0.5, 1e-4, 1e-9])
def test_the_returned_error_bound_is_honored(accuracy, known):
    for name, case in CASES.items():
        rows = case.weights[TOKENS]
        x = rows.new_tensor(POINTS).expand(len(TOKENS), len(POINTS))
        values, error = chisquare.distribution(rows, x, accuracy)
        assert 0 < error <= accuracy
        for found, balls in zip(values.flatten(), sum(known[name], []), strict=True):
            assert abs(arb(float(found)) - balls) <= arb(error)


def test_the_bound_is_for_each_value_of_a_sum():
    rows = CASES["spread"].weights
    x = rows.new_tensor([-1.0, 1.0]).expand(8, 2)
    _, single = chisquare.distribution(rows, x, 1e-6)
    _, double = chisquare.distribution(rows, x, 1e-6, together=2)
    assert 2 * double <= 1e-6 and double < single


def test_covariance_is_a_change_of_coordinates():
    """Steps R e with R R' = S and W are unit steps with R'WR, whatever the root R is."""
    case = CASES["not symmetric"]
    root = torch.linalg.cholesky(case.covariance)
    moved = localization.probability(root.mT @ case.W @ root, case.tokens, case.temperature)
    assert (moved - exact(case)).abs().max() <= 2e-8
    without = localization.probability(case.W, case.tokens, case.temperature)
    assert (moved - without).abs().max() > 0.01


def test_the_seed_of_a_simulation_is_used():
    run = lambda seed: localization.probability(  # noqa: E731
        IDENTITY, 8, 2.0, "simulation", samples=2000, seed=seed
    )
    assert torch.equal(run(3), run(3)) and not torch.equal(run(3), run(4))


def test_the_packages_simulation_counts_the_last_batch(monkeypatch):
    """1,000 walks in batches of 32 walks: all of them count, and no more."""
    monkeypatch.setattr(localization, "SIMULATED", 1024)
    share = localization.probability(IDENTITY, 8, 2.0, "simulation", samples=1000)
    assert torch.equal((1000 * share).round(), 1000 * share)
    known = localization.probability(IDENTITY, 8, 2.0)
    assert ((share - known).abs() <= 4 * (known * (1 - known) / 1000).sqrt()).all()


ANY = {"w_qk": IDENTITY, "tokens": 8, "temperature": 2.0}
NAN = torch.tensor([[1.0, math.nan], [0.0, 1.0]], dtype=torch.float64)
BAD = {
    "NaN in W": ({"w_qk": NAN}, "w_qk: got 1 NaN or infinite entries, expected finite entries"),
    "W = 0": (
        {"w_qk": 0 * IDENTITY},
        "w_qk: got tr(WSW'S) = 0, expected a matrix that is not zero",
    ),
    "asymmetric W": (
        {"w_qk": SKEWED, "method": "limit"},
        "w_qk: got an asymmetric matrix (off by 2), expected a symmetric one; "
        'for any matrix use method="limit-general"',
    ),
    "asymmetric covariance": (
        {"w_qk": SKEWED, "covariance": SKEWED},
        "covariance: got an asymmetric matrix (off by 2), "
        "expected a symmetric positive definite matrix",
    ),
    "indefinite covariance": (
        {"covariance": torch.diag(IDENTITY.new_tensor([1, 1, 1, -0.5]))},
        "covariance: got smallest eigenvalue -0.5, expected a symmetric positive definite matrix",
    ),
    "temperature 0": ({"temperature": 0.0}, "temperature: got 0.0, expected a positive number"),
    "temperature NaN": (
        {"temperature": math.nan},
        "temperature: got nan, expected a positive number",
    ),
    "one token": ({"tokens": 1}, "tokens: got 1, expected an integer >= 2"),
    "accuracy 1": ({"accuracy": 1.0}, "accuracy: got 1.0, expected a number in [1e-11, 1)"),
    "accuracy below float64": (
        {"accuracy": 1e-12},
        "accuracy: got 1e-12, expected a number in [1e-11, 1)",
    ),
    "one weight that matters": (
        {"w_qk": IDENTITY[:1, :1], "accuracy": 1e-9},
        "accuracy: got 1e-09, expected one that 4194304 terms reach: too few weights matter",
    ),
    "no walks": (
        {"method": "simulation", "samples": 0},
        "samples: got 0, expected an integer >= 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    """Argument, what was given, what was expected; whole message."""
    changes, message = BAD[name]
    with pytest.raises(InputError) as error:
        localization.probability(**{**ANY, **changes})
    assert str(error.value) == message


def test_an_accuracy_that_rounding_forbids_is_refused():
    """Never a silently worse number: the message says what these weights allow, and it works."""
    rows = IDENTITY.new_ones(1, 6)
    x = rows.new_tensor([[5.0]])
    refused = r"^accuracy: got 1e-11, expected at least .* for these weights$"
    with pytest.raises(InputError, match=refused) as error:
        chisquare.distribution(rows, x, 1e-11)
    possible = float(str(error.value).split("at least ")[1].split()[0])
    assert chisquare.distribution(rows, x, possible)[1] <= possible


def test_single_precision_weights_get_the_bound_of_float64():
    """The same float32 numbers in float64 give the same result: they are exact in both."""
    rows = CASES["spread"].weights.float()
    x = rows.new_tensor([-1.0, 1.0]).expand(8, 2)
    single, double = (
        chisquare.distribution(rows.to(t), x.to(t), 1e-9) for t in (torch.float32, torch.float64)
    )
    assert single[0].dtype == torch.float64
    assert torch.equal(single[0], double[0]) and single[1] == double[1]


@pytest.mark.parametrize("factor", [2.0**530, 2.0**-560])
@pytest.mark.parametrize("method", localization.METHODS)
def test_entries_whose_squares_overflow_or_vanish(method, factor):
    """W and the temperature times a power of two: the same numbers to the last bit."""
    found, known = (
        localization.probability(s * IDENTITY, 8, 2.0 * s, method, samples=2000)
        for s in (factor, 1.0)
    )
    assert torch.equal(found, known)


def test_scale_of_a_law_does_not_matter():
    rows = CASES["sign-mixed"].weights
    x = rows.new_tensor([-1.0, math.inf, -math.inf]).expand(8, 3)
    known, _ = chisquare.distribution(rows, x, 1e-7)
    for factor in (2.0**530, 2.0**-560):
        assert torch.equal(chisquare.distribution(factor * rows, factor * x, 1e-7)[0], known)
    assert (known[:, 1] >= 1 - 1e-7).all() and (known[:, 2] <= 1e-7).all()


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="^x: got NaN, expected a number$"):
        chisquare.distribution(IDENTITY[:1] + 1, IDENTITY[:1] * math.nan)


def test_few_weights_still_work_at_a_modest_accuracy():
    """d = 1 decays like 1/s: 1e-3 can be met, and the law is that of a product of two normals."""
    found = localization.probability(IDENTITY[:1, :1], 3, 1.0, accuracy=1e-3)
    walks = np.random.default_rng(1).standard_normal((3, 1, 1_000_000)).cumsum(0)[:, 0]
    scores = walks * walks[-1]
    scores -= scores.mean(0)
    share = ((scores > -1) & (scores < 2)).mean(-1)
    assert np.abs(share - found.numpy()).max() <= 4 * 0.0005 + 1e-3


def test_zero_weights_are_refused():
    with pytest.raises(InputError, match="^weights: got a row of zeros, expected a weight that"):
        chisquare.distribution(IDENTITY[:1] * 0, IDENTITY[:1])
