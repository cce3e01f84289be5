"""Whole layers at initialization: the series of an activation, and the recursion by hand."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import initialization as init


def test_the_series_of_a_cubic_is_its_two_terms():
    """x^3 = sqrt(6) h_3 + 3 h_1 in orthonormal Hermite polynomials; deviation 2 scales it by 8."""
    series = init.activation_series(lambda x: x**3, 2.0)
    expected = torch.zeros(init.TERMS, dtype=torch.float64)
    expected[1], expected[3] = 9 * 64, 6 * 64
    # A coefficient is a sum of 120 products whose sizes add up to at most 100: 2e-16 * 120 * 100.
    # Squared, at most 24 of it: twice 24 times that error.
    assert (series - expected).abs().max() < 2 * 24 * 2.4e-12


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.4, 0.8])
def test_the_error_function_has_its_known_kernel(correlation):
    """E erf(u) erf(v) = (2/pi) arcsin(2 s^2 r / (1 + 2 s^2)) for deviation s, Williams 1997.

    At s = 1/2 the terms fall at least like (2 s^2 / (1 + 2 s^2))^k = 3^-k: below 1e-18 after 40.
    """
    series = init.activation_series(torch.erf, 0.5)
    r = torch.tensor([correlation], dtype=torch.float64)
    exact = 2 / math.pi * math.asin(correlation / 3)
    assert float(init.correlation_series(series, r)) == pytest.approx(exact, abs=1e-12)


def test_a_smooth_activation_loses_nothing():
    """The series of GELU adds up to the mean square, by quadrature with another weight."""
    series = init.activation_series(torch.nn.functional.gelu, 0.7)
    x = torch.linspace(-12, 12, 24_001, dtype=torch.float64)  # trapezoids: spectral for such sums
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    square = float((torch.nn.functional.gelu(0.7 * x).square() * density).sum() * 1e-3)
    assert float(series.sum()) == pytest.approx(square, rel=1e-9)


def stack(**changes) -> init.Stack:
    """Four layers with a linear MLP."""
    sizes = {"layers": 4, "width": 8, "hidden": 16, "deviation": 0.3, "output_deviation": 0.5}
    start = {"token_variance": 1.0, "shared_variance": 0.0, "activation": lambda x: x}
    form = {"gated": False, "causal": False, "norm_first": True}
    return init.Stack(**{**sizes, **start, **form, **changes})


def by_hand(s: init.Stack, tokens: int, mlp: bool) -> list[float]:
    """Equal tokens' inner products a (with itself) and b, uniform attention over all."""
    a, b, found = s.width * (s.token_variance + s.shared_variance), s.width * s.shared_variance, []
    for _ in range(s.layers + 1):
        found.append(b / a)
        for sublayer in ("attention", "mlp") if mlp else ("attention",):
            cosine = b / a
            if not s.norm_first:
                a, b = s.width, s.width * cosine
            if sublayer == "attention":
                mean = (1 + (tokens - 1) * cosine) / tokens
                size = (s.deviation * s.output_deviation) ** 2 * s.width**3
                a, b = a + size * mean, b + size * mean
            else:
                size = s.output_deviation**2 * s.deviation**2 * s.width**2 * s.hidden
                gate = s.deviation**2 * s.width if s.gated else 1.0
                a = a + size * gate
                b = b + size * gate * cosine * (cosine if s.gated else 1.0)
    return found


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("mlp", [True, False])
def test_uniform_attention_over_all_tokens_by_hand(norm_first, gated, mlp):
    """Some 50 roundings in each of 4 layers, relative to a cosine of at least 0.01."""
    s = stack(norm_first=norm_first, gated=gated, shared_variance=0.1)
    found = init.expected_cosines(s, 5, mlp, scores=False)
    assert found == pytest.approx(by_hand(s, 5, mlp), rel=1e-11)
    assert len(found) == 5 and all(x < y for x, y in zip(found, found[1:], strict=False))


def test_under_a_causal_mask_the_second_token_sees_the_first():
    """Two tokens, one layer: G = I + w U U', U = ((1, 0), (1/2, 1/2))."""
    s = stack(layers=1, causal=True)
    w = (s.deviation * s.output_deviation) ** 2 * s.width**3 / s.width
    expected = 0.5 * w / math.sqrt((1 + w) * (1 + w / 2))
    found = init.expected_cosines(s, 2, mlp=False, scores=False)
    assert found[1] == pytest.approx(expected, rel=1e-12)


def averaged(C: torch.Tensor, variance: float, seen) -> torch.Tensor:
    """The quotient of the two sums, term by term."""
    n = len(C)
    found = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for k in range(n):
            keys = C[: seen(i), : seen(k)]
            weights = torch.exp(variance * C[i, k] * keys)
            found[i, k] = (weights * keys).sum() / weights.sum()
    return found


@pytest.mark.parametrize("variance", [0.0, 0.3, 7.2])
@pytest.mark.parametrize("causal", [True, False])
def test_attended_cosines_are_the_quotient_of_the_sums(variance, causal):
    """Sums of 36 terms of size exp(7.2) at most and a series: 1e-16 * 36 * 1340 * 40."""
    X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    C = init.cosines(X @ X.mT)
    expected = averaged(C, variance, (lambda i: i + 1) if causal else (lambda i: 6))
    found = init.attended_cosines(C, variance, causal)
    assert (found - expected).abs().max() < 2e-10


def test_one_token_has_no_other():
    with pytest.raises(InputError, match="tokens: got 1, expected an integer >= 2"):
        init.expected_cosines(stack(), 1)
