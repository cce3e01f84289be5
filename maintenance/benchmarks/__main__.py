"""Path sums against enumeration and the forward pass; exact probability against simulation; the
optimal center and the diameter against their plain forms; a model of 24 layers against its own
forward pass; commands, builds of the book and the tests against the second edition.

    python -m benchmarks                          (all; about an hour and a half)
    python -m benchmarks package scale commands builds suites    (any of these)

Both sides of a ratio run in turn on this machine: those of the package in this process, in float64
on the CPU, as medians; the others in processes of their own, from two checkouts.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

import attnverify as av
from attnverify.mathematics.center import Program
from benchmarks import builds, commands, scale, suites
from benchmarks.center import full_program
from benchmarks.memory import peak_bytes
from benchmarks.result import Result, show
from benchmarks.trees import trees


def instance(depth: int, heads: int, tokens: int, width: int) -> tuple[Any, torch.Tensor]:
    """A random network with skip connections and an input."""
    net = av.SelfAttentionNetwork.random(depth, heads, width, skip=True, seed=0)
    generator = torch.Generator().manual_seed(1)
    return net, torch.randn(tokens, width, generator=generator, dtype=torch.float64)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(
    first: Callable[[], Any], second: Callable[[], Any], rounds: int, repeat: int, label: str
) -> tuple[float, float]:
    """Median seconds of a call of each; every round runs ``first`` once, ``second`` repeatedly."""
    first_times, second_times = [], []
    for _ in range(repeat):
        second()  # warm up
    for _ in track(range(rounds), label, console=Console(stderr=True), transient=True):
        first_times.append(seconds(first))
        second_times += [seconds(second) for _ in range(repeat)]
    return median(first_times), median(second_times)


@torch.no_grad()
def against_enumeration(rounds: int = 5) -> Result:
    """(1 + 4)^6 = 15,625 paths, one by one and by the recursion.

    Both start from the attention matrices, which either needs; what they add to the recursion when
    ``by_length`` computes them itself is printed beside it.
    """
    net, X = instance(depth=6, heads=4, tokens=32, width=64)
    fixed = av.paths.FixedAttention.of(net, X)
    slow, fast = medians(
        lambda: sum(term for _, term in av.paths.terms(net, X)),
        lambda: fixed.by_length(X),
        rounds,
        repeat=50,
        label="enumeration of 15,625 paths",
    )
    forward = median(seconds(lambda: net.attention(X)) for _ in range(50))
    ratio = slow / fast
    measured = (
        f"{ratio:,.0f} times faster ({slow:.2f} s, {1e3 * fast:.2f} ms; "
        f"attention matrices {1e3 * forward:.2f} ms more)"
    )
    return Result("sums by length against enumeration", measured, ">= 1,000", ratio >= 1000)


@torch.no_grad()
def against_forward(rounds: int = 9) -> Result:
    """By operation count 4.25: depth (depth + 1) / 2 products with all heads' W_V, W_O and P, and
    the attention matrices, against depth of each."""
    net, X = instance(depth=12, heads=12, tokens=128, width=768)
    net(X)
    sums, forward = medians(
        lambda: av.paths.by_length(net, X), lambda: net(X), rounds, repeat=1, label="depth 12"
    )
    ratio = sums / forward
    measured = f"{ratio:.2f} times the time ({1e3 * sums:.0f} ms, {1e3 * forward:.0f} ms)"
    return Result("sums by length against the forward pass", measured, "<= 5", ratio <= 5)


def memory(depth: int = 12, heads: int = 12, tokens: int = 128, width: int = 768) -> Result:
    """Peak of what by_length allocates, result included, in arrays of the size of X.

    The bar: depth + 1 sums; of the layer in flight its input, queries, keys, the product before a
    bias is added and one more; three times one layer's attention matrices (those of the layer
    before, the logits, the probabilities).
    """
    net, X = instance(depth, heads, tokens, width)
    matrices = heads * tokens**2 / X.numel()
    peak = peak_bytes(lambda: av.paths.by_length(net, X)) / (X.numel() * X.element_size())
    bar = depth + 1 + 5 + 3 * matrices
    measured = f"{peak:.2f} activations (attention matrices of one layer: {matrices:.1f})"
    return Result("peak memory of sums by length", measured, f"<= {bar:.1f}", peak <= bar)


def center(tokens: int = 64, width: int = 64, rounds: int = 3) -> Result:
    """One linear program of the optimal center, by a few kinks a coordinate and written out."""
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(tokens, width, generator=generator, dtype=torch.float64).numpy()
    slow, fast = medians(
        lambda: full_program(X, 0.1, 0.9),
        lambda: Program(X).minimize(0.1, 0.9),
        rounds,
        repeat=3,
        label="linear programs",
    )
    measured = f"{slow / fast:.1f} times faster ({1e3 * slow:.0f} ms, {1e3 * fast:.0f} ms)"
    return Result("optimal center by a few kinks", measured, ">= 2", slow >= 2 * fast)


@torch.no_grad()
def distances(tokens: int = 512, width: int = 256, rounds: int = 3) -> Result:
    """The diameter against the largest of all differences, taken a token at a time."""
    generator = torch.Generator().manual_seed(4)
    X = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    slow, fast = medians(
        lambda: max(float((X - row).square().sum(-1).max()) for row in X) ** 0.5,
        lambda: av.norms.diameter(X),
        rounds,
        repeat=3,
        label="distances",
    )
    measured = f"{slow / fast:.1f} times faster ({1e3 * slow:.0f} ms, {1e3 * fast:.0f} ms)"
    return Result("diameter against differences", measured, ">= 1.5", slow >= 1.5 * fast)


@torch.no_grad()
def against_simulation(symmetric: bool, walks: int = 1000, rounds: int = 3) -> Result:
    """rho_i of 256 tokens of width 64 to 1e-6, exactly and by 250,000 walks (standard error 1e-3).

    A round runs ``walks`` walks; the time of 250,000 is 250,000/walks times as long, as walks come
    in batches of 256 and nothing is shared between batches. Both sides run on one thread:
    on a busy machine threads that wait for one another slow down many small eigenproblems most.
    """
    generator = torch.Generator().manual_seed(2)
    W = torch.randn(64, 64, generator=generator, dtype=torch.float64) / 8
    W = 0.25 * torch.eye(64, dtype=torch.float64) + ((W + W.mT) / 2 if symmetric else W)
    probability = functools.partial(av.localization.probability, W, 256, 1000.0)
    name = "symmetric W" if symmetric else "any W"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        slow, fast = medians(
            lambda: probability("simulation", samples=walks),
            lambda: probability("exact", accuracy=1e-6),
            rounds,
            repeat=3,
            label=f"simulation, {name}",
        )
    finally:
        torch.set_num_threads(threads)
    slow *= 250_000 / walks
    ratio = slow / fast
    measured = f"{ratio:,.0f} times faster ({slow:.0f} s by {walks:,} walks, {fast:.2f} s)"
    return Result(f"exact probability against simulation, {name}", measured, ">= 200", ratio >= 200)


def package() -> list[Result]:
    """The benchmarks of the package."""
    return [
        against_enumeration(),
        against_forward(),
        memory(),
        against_simulation(True),
        against_simulation(False),
        center(),
        distances(),
    ]


AGAINST_BEFORE = {"commands": commands.results, "builds": builds.results, "suites": suites.results}


def main(arguments: Sequence[str] = ()) -> int:
    """Run what is named, everything by default; exit code 0 if every bar is met."""
    known = ("package", "scale", *AGAINST_BEFORE)
    if unknown := [name for name in arguments if name not in known]:
        raise SystemExit(f"benchmarks: got {unknown[0]}, expected some of {', '.join(known)}")
    wanted = arguments or known
    found = package() if "package" in wanted else []
    found += scale.results() + scale.watched() if "scale" in wanted else []
    compared = [run for name, run in AGAINST_BEFORE.items() if name in wanted]
    if compared:
        with trees() as both:
            found += [line for run in compared for line in run(both)]
    return show(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
