"""The sizes at which the printed many-heads bound holds or fails, computed, and what pages say."""

from collections.abc import Callable

import pytest
from flint import arb

from attnverify.arithmetic import ops
from attnverify.book.pages import findings
from attnverify.mathematics import heads, signed_columns
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.topics.collapse.checks import distinct_entries
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


def test_landing_page_and_table_name_the_computed_sizes():
    wide = last(true_at(lambda d: signed_columns.width_factor(critical_oscillation(), d)))
    before = last(true_at(lambda d: heads.dimension_factor(critical_oscillation(), d)))
    small = last(true_at(lambda d: heads.dimension_factor(arb(2) ** -40, d)))
    true, family = last(true_at(heads.gamma_factor)), last(true_at(limit)) + 1
    # the largest n d of the family at width d: n even, n <= d
    narrowest = next(d for d in range(4, 1000) if (d - d % 2) * d >= family)
    assert (wide, before, small, true) == (13_884, 5206, 15_873, 15_873)
    assert (family, narrowest) == (31_748, 179)
    first = next(d for d in range(14_300, 14_400) if distinct_entries.large(d)[0] > 1)
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
    said = [s for s in sentences if "64,514" in s]
    assert said and all("this family" in s for s in said)
