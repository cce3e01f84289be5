"""Numbers on the landing page, the generated pages and in the README are computed here."""

import math
import re
import tomllib
from collections.abc import Callable

import pytest
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.book.pages import errata, findings
from attnverify.chapters import distinct_layers, registry
from attnverify.experiments import committed
from attnverify.experiments.trained_models import looked
from attnverify.mathematics import heads, signed_columns
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.support.typeset import RAISED
from attnverify.verification import formal
from places import ROOT

PAGES = [*(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").glob("*.md"), ROOT / "README.md"]


@pytest.fixture(autouse=True)
def many_bits():
    with ops.precision(256):
        yield


def last(holds: Callable[[int], bool], high: int = 2**17) -> int:
    """The largest whole number at which a property holds that is lost for good, by bisection."""
    low = 1
    assert holds(low) and not holds(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def true_at(factor: Callable[[arb], arb]) -> Callable[[int], bool]:
    """Whether a factor is certainly at most 4; it must be certain."""

    def holds(size: int) -> bool:
        value = factor(arb(size))
        assert value <= 4 or value > 4, size
        return bool(value <= 4)

    return holds


def limit(entries: arb) -> arb:
    """Four times the family's limit with gamma: the factor at n d / 2."""
    return heads.gamma_factor(entries / 2)


def widths() -> list[int]:
    """Up to and from where the printed bound holds or fails, without gamma and then with it."""
    wide = last(true_at(lambda d: signed_columns.width_factor(critical_oscillation(), d)))
    first = next(d for d in range(14_300, 14_400) if distinct_layers.large(d)[0] > 1)
    family = last(true_at(limit)) + 1
    # the largest n d of the family at width d: n even, n <= d
    narrowest = next(d for d in range(4, 1000) if (d - d % 2) * d >= family)
    return [wide, first, family, narrowest]


def formal_counts() -> list[int]:
    """Machine-checked claims, all, and those exactly as registered."""
    proved = [formal.theorems_of(id) for id in registry if formal.theorems_of(id)]
    return [len(proved), len(registry), sum(any(t.exact for t in own) for own in proved)]


def pinned() -> list[str]:
    """Versions: the least Python, and torch."""
    body = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = (ROOT / "constraints.txt").read_text()
    (torch_pin,) = re.findall(r"^torch==([\d.]+)", pins, re.M)
    return [body["requires-python"].removeprefix(">="), torch_pin]


def shrinking() -> str:
    """The least power of 10 by which attention alone shrinks the residual, in superscripts."""
    found = []
    for model in ("BERT-base", "ALBERT-base", "XLNet-base"):
        rows = [r for r in committed("architectures").rows if r["variant"] == "attention"]
        values = [row["mean"] for row in rows if row["model"] == model]
        found += [a / b for a, b in zip(values[0], values[-1], strict=True) if b]
    return "10" + str(math.floor(math.log10(min(found)))).translate(RAISED)


def long_paths() -> int:
    """The least percentage that the net share of long paths stays below, in every text."""
    rows = [r for r in committed("three-models").rows if r["kind"] == "text"]
    return math.ceil(100 * max(abs(looked.long_paths(row)[0]) for row in rows))


def agreeing() -> list[int]:
    """Percentages of rows of the small decoder in which rollout names the largest part."""
    rows = [r for r in committed("three-models").rows if r["kind"] == "text"]
    found = [100 * r["same_top"] for r in rows if r["model"] == "decoder"]
    return [round(min(found)), round(max(found))]


def locater_rows() -> list[str]:
    """Perplexities on text with MLPs, without and with the penalties."""
    rows = [r for r in committed("locater").rows if r["source"] == "text"]
    by = {(r["rate"], r["strength"], r["target"]): r for r in rows if "with" in r["architecture"]}
    best = min(row["perplexity"] for key, row in by.items() if key[0] == 0.03)
    values = [by[0.03, 0.0, 0.0]["perplexity"], best, by[0.01, 0.0, 0.0]["perplexity"]]
    values += [by[0.01, 0.001, 0.0]["perplexity"]]
    return [f"{value:.1f}" for value in values]


def residuals() -> list[str]:
    """Of the three small models in every layer but the last, and of the network of the start."""
    layers = [r for r in committed("three-models").rows if r["kind"] == "layer"]
    found = [value for row in layers for value in row["residual"]]
    X = torch.randn(16, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net = SelfAttentionNetwork.random(depth=12, heads=4, width=32, skip=True, seed=0)
    out = net(X)
    rest = float((out - out.mean(0)).norm() / out.norm())
    return [f"{v:.2f}" for v in (min(found), max(found), rest)] + [str(net.depth)]


def initial_widths() -> list[str]:
    """The widths at which default initializations were compared."""
    found = {row["width"] for row in committed("default-initialization").rows}
    return [f"{min(found):,}", f"{max(found):,}"]


def example() -> int:
    """Lines of the shortest file that states a claim."""
    return len((ROOT / "book" / "examples" / "lipschitz.py").read_text().splitlines())


#: What computes the numbers of each page, in its order, each once; and the few that nothing here
#: computes, with the reason.
COMPUTED = {
    "README.md": [lambda: widths()[3], long_paths, lambda: formal_counts()[1::-1], pinned, example],
    "book/index.md": [shrinking, lambda: pinned()[0]],
    "book/results.inc": [lambda: [*widths()[:2], widths()[3]]],
    "book/practice.inc": [residuals, initial_widths, locater_rows, agreeing],
    "errata": [lambda: f"{float(critical_oscillation()):.4f}"],
    "findings": [
        lambda: [findings.STARTS[-1], widths()[3], widths()[1]],
        lambda: [f"{findings.HEADS + 1}{str(findings.DEPTH).translate(RAISED)}", findings.DEPTH],
        long_paths,
    ],
}
NOT_COMPUTED = {
    ("README.md", "5.9"): "gigabytes that an index of packages sends, measured once",
    ("README.md", "4.0"): "the version of a license",
    ("book/practice.inc", "32"): "symbols in a piece, which is also the width",
}
NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,]*\d)?(?:\.\d+)*[⁰¹²³⁴⁵⁶⁷⁸⁹]*(?![\da-zA-Z_])")
#: Works, places in works, addresses, code and the ids of claims hold numbers that are names. Of a
#: claim's role the words are kept.
CLAIM = re.compile(r"\{claim\}`([^`<]*)[^`]*`")
NAMES = re.compile(
    r"```.*?```|^    .*?$|`[^`]*`|<[\w./-]+>|arXiv \d{4}\.\d{5}|Theorem [\d.]+\d", re.M | re.S
)


def numbers(page: str) -> list[str]:
    """The numbers of a page that have two significant digits or more, or a power."""
    written = {"findings": str(findings.FINDINGS), "errata": errata.INTRO}
    text = written.get(page) or (ROOT / page).read_text("utf-8")
    found = dict.fromkeys(NUMBER.findall(NAMES.sub(" ", CLAIM.sub(r"\1", text))))
    return [n for n in found if len(re.sub(r"^[0.]*|,", "", n).rstrip("0" * n.isdecimal())) > 1]


@pytest.mark.parametrize("page", COMPUTED)
def test_a_number_in_prose_is_computed(page):
    told = [n for n in numbers(page) if (page, n) not in NOT_COMPUTED]
    found = [n for find in COMPUTED[page] for n in as_list(find())]
    assert told == [f"{n:,}" if isinstance(n, int) else str(n) for n in found]


def as_list(found) -> list:
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(("page", "number"), NOT_COMPUTED)
def test_what_is_not_computed_is_there(page, number):
    assert number in numbers(page)


def test_pages_name_the_computed_sizes():
    wide, first, family, narrowest = widths()
    before = last(true_at(lambda d: heads.dimension_factor(critical_oscillation(), d)))
    small = last(true_at(lambda d: heads.dimension_factor(arb(2) ** -40, d)))
    true = last(true_at(heads.gamma_factor))
    assert (wide, before, small, true) == (13_884, 5206, 15_873, 15_873)
    assert (family, narrowest) == (31_748, 179)
    text = " ".join((ROOT / "book" / "results.inc").read_text().split())
    assert f"up to width {wide:,} <collapse.multi-head-width>" in text
    assert f"false for some layers from {first:,} on" in text
    assert f"known to violate it has width {narrowest}." in text
    card = findings.text()
    assert f"version 2, from width {{claim}}`{narrowest} <collapse.multi-head-gamma>`" in card
    assert f"from width {{claim}}`{first:,} <collapse.multi-head-small-width>`" in card
    table = (ROOT / "notebooks" / "collapse-width.md").read_text().replace("\\,", ",")
    open_row = f"$d$ from {wide + 1:,} to {first - 1:,}"
    assert f"| $d \\le {wide:,}$ | {open_row} | $d \\ge {first:,}$ |" in table
    assert f"| without γ, small scores | $d \\le {small:,}$ | | $d \\ge {small + 1:,}$ |" in table
    assert f"| $nd \\le {true:,}$ | all others | $nd \\ge {family:,}$ with even" in table
    assert f"so from width {narrowest} on; $d \\ge {small + 1:,}$ with many tokens |" in table


def test_the_threshold_of_two_tokens_is_named_where_that_family_is():
    """64,514 is a number of one family; no other page may give it as the width of failure."""
    forms = ("64,514", r"64\,514", "64514")
    named = {p.name for p in PAGES if any(f in p.read_text() for f in forms)}
    assert named == {"collapse-heads.md", "collapse-width.md"}
    sentences = (ROOT / "notebooks" / "collapse-heads.md").read_text().split("\n")
    said = [s for s in sentences if "64,514" in s and '"64,514":' not in s]
    assert said and all("this family" in s for s in said)
