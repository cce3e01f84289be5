"""Statistics of a query-key matrix; their formulas are checked as claims."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import eigenspectrum as spectrum

UNIT = 2.0**-53  # unit roundoff of float64
ROOT2 = math.sqrt(2)


def matrix(rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=random)


# small integers: sums and products are exact, a root and a quotient round once each
@pytest.mark.parametrize(
    ("w", "xi", "rank"),
    [
        ([[1, 0], [0, 1]], ROOT2, 2.0),
        ([[-3, 0], [0, -3]], -ROOT2, 2.0),
        ([[1, 0], [0, 0]], 1.0, 1.0),
        ([[0, 1], [1, 0]], 0.0, 2.0),  # eigenvalues 1 and -1
        ([[2, 1], [1, 2]], 4 / math.sqrt(10), 100 / 82),  # eigenvalues 1 and 3
    ],
)
def test_values_of_small_matrices(w, xi, rank):
    w = matrix(w)
    assert float(spectrum.xi(w)) == pytest.approx(xi, rel=16 * UNIT, abs=0)
    assert float(spectrum.xi_general(w)) == pytest.approx(xi, rel=16 * UNIT, abs=0)
    assert float(spectrum.asymmetry(w)) == 1
    assert float(spectrum.effective_rank(w)) == pytest.approx(rank, rel=16 * UNIT, abs=0)


def test_xi_of_any_matrix_is_over_its_norm():
    """tr W / ||W||_F = 1/sqrt(2), where tr(W^2) would give 1."""
    found = float(spectrum.xi_general(matrix([[1, 1], [0, 0]])))
    assert found == pytest.approx(1 / ROOT2, rel=16 * UNIT)


def test_asymmetry_from_skew_to_symmetric():
    assert float(spectrum.asymmetry(matrix([[0, 1], [-1, 0]]))) == -1
    assert float(spectrum.asymmetry(matrix([[0, 1], [0, 0]]))) == 0  # as much skew as symmetric
    A = gaussian(3, 6, 6)
    s, k = (spectrum.squared_norm(part) for part in ((A + A.mT) / 2, (A - A.mT) / 2))
    # sums of 36 products on either side, all terms of s + k positive
    assert ((spectrum.asymmetry(A) - (s - k) / (s + k)).abs() <= 200 * UNIT).all()


@pytest.mark.parametrize("name", ["xi", "xi_general", "asymmetry", "effective_rank"])
def test_statistics_are_batched(name):
    A = gaussian(4, 3, 5, 5)
    A = A + A.mT
    whole = getattr(spectrum, name)(A)
    assert whole.shape == (4, 3) and whole.dtype == torch.float64
    for index in ((0, 0), (3, 2)):
        one = getattr(spectrum, name)(A[index])
        # the same sums in another order: at most 5 * 25 roundings of positive terms; the trace of
        # 5 terms has them relative to sum |A_kk|, hence the absolute part
        assert float(one) == pytest.approx(float(whole[index]), rel=500 * UNIT, abs=50 * UNIT)


def test_eigenvalues_are_those_of_the_full_matrix():
    query, key = gaussian(2, 7, 3), gaussian(2, 7, 3, seed=1)
    small = spectrum.eigenvalues(query, key)
    assert small.shape == (2, 3) and small.is_complex()
    for number in range(2):
        full = torch.linalg.eigvals(query[number] @ key[number].mT)
        full = full[full.abs().argsort(descending=True)]
        # the other four are 0 up to the square root of the rounding of a 7 x 7 matrix
        size = float(full[0].abs())
        assert (full[3:].abs() <= 100 * math.sqrt(UNIT) * size).all()
        # power sums determine the eigenvalues; each is a trace of products of such matrices
        for power in (1, 2, 3):
            both = (small[number] ** power).sum(), (full[:3] ** power).sum()
            norm = float(query[number].norm() * key[number].norm())
            assert abs(both[0] - both[1]) <= 7 * 100 * UNIT * power * norm**power


@pytest.mark.parametrize(("width", "keys"), [(4, 2), (16, 8), (64, 16)])
@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1e25), (torch.float64, 1e200)])
def test_eigenvalues_of_a_product_that_overflows_are_refused(width, keys, dtype, scale):
    """Finite matrices; LAPACK ends the process on some products with infinite entries."""
    query, key = ((gaussian(width, keys, seed=i) * scale).to(dtype) for i in (0, 1))
    with pytest.raises(InputError, match=f"^query: got a product key' query with .* {dtype}, "):
        spectrum.eigenvalues(query, key)
    wide = spectrum.eigenvalues(query.double() / scale, key.double() / scale)
    assert torch.isfinite(wide).all()


def test_covariance_root_squares_to_the_covariance():
    A = gaussian(4, 4)
    covariance = A @ A.mT + torch.eye(4, dtype=torch.float64)
    covariance = (covariance + covariance.mT) / 2
    root = spectrum.covariance_root(covariance, 4)
    assert torch.equal(spectrum.covariance_root(None, 3), torch.eye(3, dtype=torch.float64))
    # an eigendecomposition is backward stable: a modest multiple of d u ||S||
    assert (root @ root - covariance).norm() <= 100 * 4 * UNIT * covariance.norm()
    assert (root - root.mT).norm() <= 100 * 4 * UNIT * root.norm()


ASYMMETRIC = matrix([[1, 2], [0, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: spectrum.xi(ASYMMETRIC),
            r"w: got an asymmetric matrix \(off by 2\), expected a symmetric one; "
            r"for any matrix use spectrum.xi_general",
        ),
        (
            lambda: spectrum.effective_rank(1e200 * ASYMMETRIC),
            r"w: got an asymmetric matrix \(off by 2e\+200\), .* use the singular values of w",
        ),
        (
            lambda: spectrum.xi(torch.zeros(2, 2)),
            r"w: got tr\(WW'\) = 0, expected a matrix that is not zero",
        ),
        (
            lambda: spectrum.require_square("w", torch.zeros(2, 3)),
            r"w: got shape \(2, 3\), expected a square matrix \(..., d, d\)",
        ),
        (
            lambda: spectrum.xi_general(matrix([[1, math.nan], [math.inf, 1]])),
            r"w: got 2 NaN or infinite entries, expected finite entries",
        ),
        (
            lambda: spectrum.require_square("w", torch.eye(2, dtype=torch.int64)),
            r"w: got dtype torch.int64, expected a floating dtype",
        ),
        (
            lambda: spectrum.covariance_root(matrix([[1, 0], [0, -1]]), 2),
            r"covariance: got smallest eigenvalue -1, expected a symmetric positive definite",
        ),
        (
            lambda: spectrum.covariance_root(torch.eye(3, dtype=torch.float64), 2),
            r"covariance: got shape \(3, 3\), expected shape \(2, 2\)",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_symmetry_is_judged_relative_to_the_matrix():
    """The rounding of Q diag(w) Q' passes, a relative change of 1e-12 does not, at any scale."""
    Q = torch.linalg.qr(gaussian(16, 16)).Q
    w = Q * torch.linspace(-1, 1, 16, dtype=torch.float64) @ Q.mT
    changed = w.clone()
    changed[0, 1] += 1e-12
    for scale in (1e-250, 1.0, 1e250):
        spectrum.xi(scale * w)
        with pytest.raises(InputError, match="asymmetric"):
            spectrum.xi(scale * changed)
