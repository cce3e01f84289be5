"""How a chapter opens: its result, a picture, an example by hand whose numbers are right."""

import math
import re
from math import cosh, e, exp, log, sinh, sqrt, tanh
from statistics import NormalDist

import pytest

from attnverify.chapters import registry
from places import ROOT

FILES = sorted((ROOT / "notebooks").glob("*.md"))
FIGURES = {name for p in FILES for name in re.findall(r"^ +name: (fig-\S+)$", p.read_text(), re.M)}
PHI = NormalDist().cdf


def opening(name: str) -> str:
    """What a reader sees before the first section."""
    return section(chapter(name))


def chapter(name: str) -> str:
    """The source of a chapter."""
    return (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")


def section(text: str) -> str:
    """What stands before the next section."""
    return re.split(r"^## ", text, maxsplit=1, flags=re.M)[0]


@pytest.mark.parametrize("name", [path.stem for path in FILES if path.stem != "start"])
def test_a_chapter_opens_with_question_or_result_picture_and_example(name):
    """The first page, which explains the words, comes to its example later."""
    text = opening(name)
    leads = [lead for lead in ("**The question.**", "**The result.**") if lead in text]
    first = text.index(leads[0])
    assert text[:first].splitlines()[-2].startswith("# "), "the question or the result comes first"
    assert "**The result.**" in leads and "**By hand.**" in text
    shown = re.findall(r"\{numref\}`(fig-[^`]+)`", text)
    assert shown or re.search(r"^ +name: fig-", text, re.M), "no picture"
    assert set(shown) <= FIGURES


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_a_chapter_says_its_idea_and_what_to_remember(name):
    """The idea stands before the proof of a theorem; experiments have none. Then what to do."""
    text = chapter(name)
    proved = [c for c in registry.values() if c.notebook == name and c.derived]
    assert "**Idea.**" in text or not proved
    ending = (
        r"^\*\*To remember\.\*\* [^\n]+\n\n\*\*For practice\.\*\* [^\n]+\n\n## What this does not"
    )
    assert re.search(ending, text, re.M)


def layer(d: float, v: float = 1.0) -> float:
    """The distance of two tokens after a layer with norms 1 and v; before it, d."""
    return v * d * tanh(d * d / 4)


def orbit(step, start, layers: int) -> list:
    """start, step(start), ..."""
    found = [start]
    for _ in range(layers):
        found.append(step(found[-1]))
    return found


def weights(*logits: float) -> list[float]:
    """Softmax."""
    parts = [exp(z) for z in logits]
    return [part / sum(parts) for part in parts]


def entropy(*logits: float) -> float:
    """Entropy of the softmax of logits."""
    return -sum(p * log(p) for p in weights(*logits))


def triangle(layers: int) -> list[float]:
    """Sizes of the triangle of three tokens, layer by layer."""
    sizes = [1.0]
    for _ in range(layers):
        own, other, _ = weights(sizes[-1] ** 2, -(sizes[-1] ** 2) / 2, -(sizes[-1] ** 2) / 2)
        sizes.append(sizes[-1] * (own - other))
    return sizes


def ends(xi: float, eta: float, t: float) -> float:
    """The limit of many tokens."""
    return PHI((eta + (t - 0.5) * xi) / sqrt(2 * t * t - 2 * t + 7 / 12))


def width(d: float) -> float:
    """The factor of many heads at small scores."""
    return (d**0.25 + d**-0.25) / (2 * sqrt(2))


def signs(d: float) -> float:
    """The factor of many heads at the largest scores, with values of both signs."""
    root = (d / 2) ** 0.25
    return sqrt(3) / 4 * (root + 1 / root)


MASK = orbit(lambda x: x / (1 + exp(-x * x)), 1.0, 4)
PAIR = -0.6 * log(0.6) - 0.4 * log(0.4)
CIRCLE = orbit(lambda r: r * tanh(r * r) / tanh(1), 0.9, 5)
OWN = (weights(4, 2)[0], weights(2, 1)[0])  # two tokens 2 and 1: softmax over the keys
TWICE = (OWN[0] / sum(OWN), (1 - OWN[0]) / (2 - sum(OWN)))  # and over the queries first
A2 = 2 / (1 - exp(-2))

#: What the example of a chapter says, and the same computed here.
NUMBERS = {
    "attention": ("0.119 0.881 0.269", [weights(0, 2)[0], weights(6, 8)[1], weights(0, 1)[0]]),
    "path-theorem": (
        "2 6 4.5 5.5 9 11 3 5 14 18",
        [
            (1 + 3) / 2,
            3 + (1 + 3) / 2 + 1,
            (3 * 4 + 6) / 4,
            (4 + 3 * 6) / 4,
            (3 * 4 + 6) / 2,
            (4 + 3 * 6) / 2,
            (3 * 1 + 3) / 2,
            (1 + 3 * 3) / 2,
            1 + 2 + (3 * 1 + 3) / 2 + 2 * 2 + 1 * (1 + 2) + 1,  # the paths and the biases
            3 + 2 + (1 + 3 * 3) / 2 + 2 * 2 + 1 * (1 + 2) + 1,
        ],
    ),
    "path-lengths": ("936", [12 * sum(range(13))]),
    "collapse-composite": (
        "0.354 0.245 0.173 1.414 0.177 0.0221",
        [
            0.5**1.5,
            tanh(0.25),
            tanh(0.25) / sqrt(2),
            4 * 0.5**1.5,
            0.5 * 0.5**1.5,
            layer(0.5) / sqrt(2),
        ],
    ),
    "collapse-width": (
        "0.884 3.57 3.99994 4.000000004 11.2246 15\\,873.99994",
        [
            width(16),
            width(1e4),
            width(15873),
            width(15874),
            4 * sqrt(2) + sqrt(31),
            (4 * sqrt(2) + sqrt(31)) ** 4,
        ],
    ),
    "collapse-signs": (
        "0.0997 1.414 1.061 1.5 9.1279 3.99994 4.000008",
        [
            tanh(0.1),
            sqrt(2),
            3 / 4 * sqrt(2),
            3 / 4 * 2,
            (13884 / 2) ** 0.25,
            signs(13884),
            signs(13885),
        ],
    ),
    "collapse-relative": (
        "0.691 0.537 0.082 0.00028 0.153",
        [
            weights(1, -0.5, -0.5)[0],
            triangle(1)[1],
            triangle(2)[2],
            triangle(3)[3],
            triangle(2)[2] / triangle(1)[1],
        ],
    ),
    "collapse-masks": ("0.461 0.255 0.132 0.631", [MASK[2], MASK[3], MASK[4], MASK[2] / MASK[1]]),
    "collapse-summary": ("0.354 0.245 0.84 0.71", [0.5**1.5, tanh(0.25), 2**-0.25, sqrt(0.5)]),
    "heads-depth": ("0.454 0.908 1.020", [tanh(0.49), 2 * tanh(0.49), 2 * tanh(0.5625)]),
    "piecewise-softmax": (
        "0.534 0.072 0.092 1.10",
        [weights(1, 0, 0, -1)[0], weights(1, 0, 0, -1)[3], 1 / (4 * e), (e**2 - 3) / 4],
    ),
    "edgeworth": (
        "0.0665 0.5665",
        [
            1 / (6 * sqrt(2 * math.pi)),
            1 - exp(-4) * sum(4**k / math.factorial(k) for k in range(4)),
        ],
    ),
    "localization-limit": (
        "0.635 0.997 0.006 0.552",
        [ends(4, 0.1, 0.5), ends(4, 0.1, 1), ends(4, 0.1, 0), ends(0, 0.1, 1)],
    ),
    "eigenspectrum": ("1.886 1.886 0.894", [8 / sqrt(18), sqrt(4 / 1.125), 4 / sqrt(20)]),
    "both-collapses": (
        "0.993 0.0997 0.999 0.004 0.76 0.53",
        [
            entropy(0.1, -0.1) / log(2),
            tanh(0.1),
            tanh(4),
            entropy(4, -4) / log(2),
            tanh(1),
            entropy(1, -1) / log(2),
        ],
    ),
    "softmax-row": (
        "0.381 0.152 0.462",
        [weights(*(0.4 * i for i in range(1, 6)))[4], A2 - 3 + log(A2), (cosh(1) - 1) / sinh(1)],
    ),
    "query-key-gradient": (
        "0.325 0.09 2.25 6.25 0.0625 0.0623 0.693 0.017 0.00249",
        [
            entropy(log(9), 0),
            0.9 * 0.1,
            0.09 * 25,
            25 / 4,
            0.5**2 / 4,
            0.9975 * 0.0025 * 25,
            log(2),
            entropy(log(0.9975 / 0.0025), 0),
            0.9975 * 0.0025,
        ],
    ),
    "parallel-contexts": (
        "4.605 6.685 2.079 0.673 3.436",
        [log(100), log(800), log(8), PAIR, PAIR + 0.6 * log(100)],
    ),
    "rollout": (
        "0.5625 1.5625 0.64 0.36 0.25 0.75",
        [9 / 16, 25 / 16, 16 / 25, 9 / 25, 1 / 4, 3 / 4],
    ),
    "circle": ("0.791 0.577 0.243 0.000009", [CIRCLE[1], CIRCLE[2], CIRCLE[3], CIRCLE[5]]),
    "doubly-normalized": (
        "0.881 0.731 0.388 0.546 0.307 1.146 0.854 0.824 0.150 0.239 0.245",
        [
            OWN[0],
            OWN[1],
            2 - sum(OWN),
            TWICE[0],
            TWICE[1],
            2 - sum(TWICE),
            sum(TWICE),
            (1 + 1 / cosh(1)) / 2,
            OWN[0] - OWN[1],
            TWICE[0] - TWICE[1],
            tanh(1 / 4),
        ],
    ),
}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_the_numbers_of_an_example_are_right(name):
    """To half a unit of the last digit shown."""
    example = section(chapter(name).split("**By hand.**")[1])
    texts, values = NUMBERS[name]
    for shown, value in zip(texts.split(), values, strict=True):
        assert re.search(rf"(?<![\d.]){re.escape(shown)}(?!\d)", example), shown
        digits = shown.replace("\\,", "")
        unit = 10.0 ** -len(digits.partition(".")[2])
        assert abs(float(digits) - value) <= 0.5 * unit * (1 + 1e-9), (shown, value)
