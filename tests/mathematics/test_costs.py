"""What a call may cost: distances in pieces, the optimal center, one layer's matrices at a time."""

import pytest
import torch

import attnverify as av
from attnverify import InputError
from attnverify.mathematics import norms, paths
from attnverify.mathematics.held import Held
from attnverify.support import memory
from benchmarks.memory import peak_bytes


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- distances


@pytest.mark.parametrize("chunk", [1, 20, 1 << 18])
@pytest.mark.parametrize("shape", [(1, 3), (7, 4), (2, 3, 5, 4)])
def test_distances_in_pieces_are_those_of_the_definition(monkeypatch, chunk, shape):
    """A sum of m terms, each with at most 3 roundings, and a root: (m + 4) u on either side."""
    monkeypatch.setattr(norms, "DISTANCES_HELD", chunk)
    X = rows(*shape)
    difference = X[..., :, None, :] - X[..., None, :, :]
    expected = {1: difference.abs().sum(-1), 2: difference.square().sum(-1).sqrt()}
    for power, each in expected.items():
        found, largest = norms.largest_distance(X, power), each.amax((-2, -1))
        assert found.shape == shape[:-2]
        assert ((found - largest).abs() <= 2 * (shape[-1] + 4) * 2.0**-53 * largest).all()


def test_gradients_at_coinciding_tokens_are_finite():
    """Equal rows: distance 0, where the root has no slope; and two equal rows beside another."""
    for X in (torch.ones(4, 3), torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])):
        X = X.double().requires_grad_()
        norms.diameter(X).backward()
        assert X.grad is not None and X.grad.isfinite().all()
    assert torch.allclose(X.grad[2], torch.tensor([0.6, 0.8]).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bit_floats_have_distances(dtype):
    X = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype)
    assert norms.diameter(X) == 5 and norms.diameter(X).dtype == dtype
    assert norms.contraction(X) == 3.5


def test_distances_take_little_memory():
    """2 MiB of distances and a copy of the rows, where all differences would take 1 GiB."""
    X = rows(2048, 32)
    size = X.numel() * X.element_size()
    for formula in (norms.diameter, norms.contraction):
        assert (
            peak_bytes(lambda formula=formula: formula(X))
            <= 2 * 8 * norms.DISTANCES_HELD + 2 * size
        )


# ---------------------------------------------------------------- the optimal center


def test_an_input_whose_center_takes_too_long_is_refused():
    X = torch.zeros(512, 129, dtype=torch.float64)
    with pytest.raises(InputError, match="^X: got 512 x 129 entries.*at most 65,536.*bounds"):
        norms.residual(X)
    assert norms.residual(X, "mean").shape == X.shape


# ---------------------------------------------------------------- attention matrices


@pytest.mark.parametrize("options", [{}, {"mlp_width": 8, "norm": True}])
def test_sums_by_length_hold_one_layer_of_matrices(options):
    """Twice the depth adds its sums and not one attention matrix."""
    peaks = []
    for depth in (4, 8):
        net = av.SelfAttentionNetwork.random(depth, 2, 4, skip=True, **options)
        X = rows(128, 4)
        peaks.append(peak_bytes(lambda net=net, X=X: paths.by_length(net, X)))
    layer = 2 * 128 * 128 * 8
    assert peaks[1] - peaks[0] < layer / 2 < peaks[0]


def test_matrices_beyond_memory_are_refused_before_they_are_made(monkeypatch):
    net, X = av.SelfAttentionNetwork.random(3, 2, 4, skip=True), rows(64, 4)
    needed = 3 * 2 * 64 * 64 * 8
    message = (
        r"^X: got 0.188 MiB of attention matrices, shape \(3, 2, 64, 64\), torch.float64, "
        r"expected at most the .* free \(fewer tokens or inputs, or one layer at a time"
    )
    monkeypatch.setattr(memory, "available", lambda device: needed - 1.0)
    for call in (net.attention, lambda X: paths.FixedAttention.of(net, X)):
        with pytest.raises(InputError, match=message):
            call(X)
    with pytest.raises(InputError, match=message):
        Held.of(net, X)
    paths.by_length(net, X)  # one layer at a time
    monkeypatch.setattr(memory, "available", lambda device: float(needed))
    assert net.attention(X).shape == (3, 2, 64, 64)


def test_free_memory_is_read_where_the_system_tells(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available(torch.device("cpu")) == 600
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 7 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.available(torch.device("cpu")) == 7 * 1024
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert memory.available(torch.device("cpu")) > 7 * 1024  # what the machine has


# ---------------------------------------------------------------- what cannot be bounded


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bound_that_rounding_makes_meaningless_is_refused(dtype):
    net = av.SelfAttentionNetwork.random(4, 2, 64, skip=True, dtype=dtype)
    X = rows(16, 64).to(dtype)
    fixed = paths.FixedAttention.of(net, X)
    with pytest.raises(InputError, match=f"^X: got {dtype}"):
        fixed.rounding_bound(X, 81)


def test_the_bound_holds_where_bfloat16_has_one():
    """One layer of width 2: 2 m u < 1 with u = 2^-8."""
    net = av.SelfAttentionNetwork.random(1, 1, 2, skip=True, dtype=torch.bfloat16)
    X = rows(2, 2).to(torch.bfloat16)
    fixed = paths.FixedAttention.of(net, X)
    bound = fixed.rounding_bound(X, 2)
    found = fixed.term(X, (0,)).double() + fixed.term(X, (1,)).double() + paths.bias(net, X)
    assert bound.isfinite().all() and (bound > 0).all()
    assert ((found - net(X).double()).abs() <= bound).all()


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        (torch.full((4, 2), torch.nan), torch.full((5, 3), torch.nan), "^key: got shape"),
        (torch.full((4, 2), torch.nan), torch.zeros(4, 2), "^query: got 8 NaN or infinite"),
        (torch.zeros(4, 2), torch.full((4, 2), torch.inf), "^key: got 8 NaN or infinite"),
    ],
)
def test_eigenvalues_check_their_matrices(query, key, message):
    # the suite's shape checks may come first
    with pytest.raises((InputError, TypeError), match=f"{message}|Type-check error"):
        av.spectrum.eigenvalues(query.double(), key.double())
