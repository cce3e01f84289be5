"""Signal propagation probability: against simulation, against balls, and what bad input gets."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from flint import arb

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.chapters.simulation_cases import CASES
from attnverify.mathematics import chisquare, localization, walk
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


POINTS = [-40.0, -1.0, 0.0, 3.0, 200.0]  # far below, near and far above every mean
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


@pytest.mark.parametrize("accuracy", [0.5, 1e-2, 1e-4, 1e-6, 1e-8, 1e-9])
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


def test_the_error_is_the_sum_of_three_bounds_that_leave_room_for_rounding(monkeypatch):
    """A quarter of the error for the step, 2 e^-level, a half for the truncation, and rounding.

    What is asked for is less by 2^-20 of it, to which the logarithm adds 2^-40: half is asserted.
    """
    seen, room = {}, 1 - chisquare.MARGIN / 2

    def watch(name, what):
        original = getattr(chisquare, name)

        def watched(*given):
            found = original(*given)
            seen[name] = what(given, found)
            return found

        monkeypatch.setattr(chisquare, name, watched)

    watch("reach", lambda given, found: 2 * math.exp(-given[1]))
    watch("_terms", lambda given, found: given[2])
    watch("_rounding", lambda given, found: found)
    rows = CASES["spread"].weights
    for together in (1, 2):
        _, error = chisquare.distribution(rows, rows.new_zeros(8, 1), 1e-6, together)
        each = 1e-6 / together
        assert 0 < seen["reach"] <= each / 4 * room
        assert 0 < seen["_terms"] <= each / 2 * room
        assert 0 < sum(seen.values()) <= error <= each


def test_equal_weights_have_a_closed_form():
    """Equal weights: Q/mu is chi-square with m degrees of freedom."""
    x = torch.linspace(0.5, 12, 24, dtype=torch.float64)[None]
    for m in (6, 10, 20):
        found, error = chisquare.distribution(x.new_full((1, m), 1.5), x, 1e-8)
        known = torch.special.gammainc(x.new_tensor(m / 2), x / 3)
        assert (found - known).abs().max() <= error + 64 * torch.finfo(x.dtype).eps


def test_covariance_is_a_change_of_coordinates():
    """Steps R e with R R' = S and W are unit steps with R'WR, whatever the root R is."""
    case = CASES["not symmetric"]
    root = torch.linalg.cholesky(case.covariance)
    moved = localization.probability(root.mT @ case.W @ root, case.tokens, case.temperature)
    assert (moved - exact(case)).abs().max() <= 2e-8
    without = localization.probability(case.W, case.tokens, case.temperature)
    assert (moved - without).abs().max() > 0.01


def test_scale_of_scores_does_not_matter():
    """W and the temperature times a power of two: the same numbers to the last bit."""
    case = CASES["sign-mixed"]
    first = localization.probability(case.W, 8, case.temperature)
    second = localization.probability(2.0**40 * case.W, 8, 2.0**40 * case.temperature)
    assert torch.equal(first, second)


def test_normal_approximation_has_the_moments_of_the_exact_law():
    """sum mu = mean, 2 sum mu^2 = variance; 2 d weights a token.

    Eigenvalues of the 2d x 2d matrix B from a backward stable solver are those of B + E with
    ||E|| at most 2d * 32 u ||B||, and sum mu^2 = ||B||_F^2.
    """
    for case in CASES.values():
        i, T = walk.indices(case.tokens, case.W), case.tokens
        trace, frobenius, square = walk.traces(case.W, case.covariance)
        variance = walk.score_variance(i, T, frobenius, square)
        room = 8 * 8 * 32 * 2.0**-53
        mean_off = case.weights.sum(-1) - walk.score_mean(i, T, trace)
        assert (mean_off.abs() <= room * variance.sqrt()).all()
        assert ((2 * case.weights.square().sum(-1) - variance).abs() <= room * variance).all()


@pytest.mark.parametrize("method", localization.METHODS)
def test_two_runs_agree_to_the_last_bit(method):
    run = lambda: localization.probability(  # noqa: E731
        CASES["spread"].W, 8, 2.0, method, covariance=CASES["spread"].covariance, samples=2000
    )
    assert torch.equal(run(), run())


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


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-7])
def test_accuracy_of_the_probability(accuracy):
    """Against the same computed to 1e-9, so off by at most the sum of both."""
    for case in CASES.values():
        assert (exact(case, accuracy) - exact(case, 1e-9)).abs().max() <= accuracy + 1e-9


ANY = {"w_qk": IDENTITY, "tokens": 8, "temperature": 2.0}
NAN = torch.tensor([[1.0, math.nan], [0.0, 1.0]], dtype=torch.float64)
BAD = {
    "NaN in W": ({"w_qk": NAN}, "w_qk: got 1 NaN or infinite entries, expected finite entries"),
    "W = 0": (
        {"w_qk": 0 * IDENTITY},
        "w_qk: got tr(WSW'S) = 0, expected a matrix that is not zero",
    ),
    "W = 0 in a simulation": (
        {"w_qk": 0 * IDENTITY, "method": "simulation"},
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
    "singular covariance": (
        {"covariance": torch.diag(IDENTITY.new_tensor([1, 1, 1, 0]))},
        "covariance: got smallest eigenvalue 0, expected a symmetric positive definite matrix",
    ),
    "temperature 0": ({"temperature": 0.0}, "temperature: got 0.0, expected a positive number"),
    "temperature < 0": ({"temperature": -1.0}, "temperature: got -1.0, expected a positive number"),
    "temperature NaN": (
        {"temperature": math.nan},
        "temperature: got nan, expected a positive number",
    ),
    "one token": ({"tokens": 1}, "tokens: got 1, expected an integer >= 2"),
    "accuracy 0": ({"accuracy": 0.0}, "accuracy: got 0.0, expected a number in [1e-11, 1)"),
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


SHAPES = """
import torch, attnverify as av
for w, S in ((torch.ones(2, 3), None), (torch.ones(3), None), (torch.ones(2, 2, 2), None),
             (torch.ones(2, 2, dtype=torch.int64), None), (torch.eye(2), torch.eye(3)),
             (torch.eye(2), torch.ones(2, 3))):
    try:
        av.localization.probability(w, 8, 2.0, covariance=S)
    except av.InputError as error:
        print(error)
try:
    av.localization.probability(torch.eye(2), 8, 2.0, "normal")
except av.InputError as error:
    print(error)
"""


def test_bad_shapes_are_named():
    """In a process of its own: the shape checks of the test run would speak first."""
    done = subprocess.run(
        [sys.executable, "-c", SHAPES], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "w_qk: got shape (2, 3), expected a square matrix (..., d, d)",
        "w_qk: got shape (3,), expected a square matrix (..., d, d)",
        "w_qk: got shape (2, 2, 2), expected one square matrix (d, d)",
        "w_qk: got dtype torch.int64, expected a floating dtype",
        "covariance: got shape (3, 3), expected shape (2, 2)",
        "covariance: got shape (2, 3), expected a square matrix (..., d, d)",
        f"method: got 'normal', expected one of {localization.METHODS}",
    ]


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


def test_public_names():
    assert av.localization is localization and "exact" in localization.METHODS


def test_the_bound_for_symmetric_laws_holds_in_closed_form():
    """Two equal pairs: a Laplace law, P(Q <= x) = 1 - exp(-x/2)/2 for x >= 0 with variance 8."""
    weights = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    x = torch.linspace(0, 12, 1201, dtype=torch.float64)
    gap = (1 - (-x / 2).exp() / 2 - ops.normal_cdf(x / 8**0.5)).abs().max()
    bound = chisquare.symmetric_bound(weights)  # r = 4: Euler's constant over 2 pi
    assert float(bound) == pytest.approx(0.5772156649015329 / (2 * math.pi), rel=1e-14)
    assert 0.6 * bound < gap <= bound


def test_the_law_of_the_middle_token_is_symmetric_for_any_w():
    """Weights +-h/2 times the singular values of W; two eigensolvers, 1e-13 relative allowed."""
    W = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = localization.weights(W, 7)[3].sort().values
    half = 2 * torch.linalg.svdvals(W) / 2  # h = sqrt((7^2 - 1)/12) = 2
    expected = torch.cat([half, -half]).sort().values
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
