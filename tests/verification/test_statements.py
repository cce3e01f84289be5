"""Claims as fences of chapters state them."""

import pytest

from attnverify import InputError, Source
from attnverify.verification import statements
from attnverify.verification.claim import Reading

CLAIM = """\
Prose.

```{claim} mine.squares
:title: Squares of sums
:kind: lemma
:source: dong2021, Theorem 2.2
:related: bao2024, section 4, remark
:related: near2020, abstract
:here: a proof that goes
    on in a second line
:uses: norms.diameter, mine.sums
:asserts: fails
:because: One instance.
:corrected-by: mine.right
:sharpens: mine.loose
:reads: mine.false

For all real $x$: $x^2 \\ge 0$.

:not a field: $x$
```

```{code-cell}
"```{claim} mine.in-a-cell"
```
"""
READING = """\
```{reading} mine.squares
:near: dong2021
:instance: The number $1$.
:check: main
:twin: squares are at least 1
:holds: mine.right

Squares
are large.
```
"""


def test_a_fence_has_every_field_of_a_claim():
    (claim,) = statements.read(CLAIM + READING, "norms")
    assert (claim.id, claim.title, claim.kind) == ("mine.squares", "Squares of sums", "lemma")
    assert claim.statement.startswith("For all") and claim.statement.endswith("field: $x$")
    places = [("bao2024", "section 4, remark"), ("near2020", "abstract")]
    related = [Source(*place, related=True) for place in places]
    assert claim.sources == (Source("dong2021", "Theorem 2.2"), *related)
    assert claim.here == "a proof that goes on in a second line"
    assert claim.uses == ("norms.diameter", "mine.sums") and claim.notebook == "norms"
    assert (claim.asserts, claim.fails_because) == ("fails", "One instance.")
    relations = (claim.corrected_by, claim.sharpens, claim.reads)
    assert relations == ("mine.right", "mine.loose", "mine.false")
    words = ("Squares are large.", "dong2021", "The number $1$.", "main", "mine.right")
    assert claim.refutes == (Reading(*words, twin="squares are at least 1"),)


def test_what_is_read_can_be_read_alone():
    only = statements.only(CLAIM + READING)
    assert "Prose" not in only and "code-cell" not in only
    assert statements.read(only, "n") == statements.read(CLAIM + READING, "n")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (":title:", ":titel:", "line 3: claim mine.squares: got :titel:, expected .*mean 'title'"),
        (":kind: lemma\n", "", "claim mine.squares: got no :kind:"),
        ("lemma", "lema", "kind: got 'lema', expected one of theorem, lemma"),
        (": fails", ": no", "asserts: got 'no', expected one of holds, fails"),
        (", Theorem 2.2", "", "source: got 'dong2021', expected .*Theorem"),
        (":here:", ":title:", "got :title: 2 times, expected one :title:"),
        (":check: main\n", "", "line 26: reading mine.squares: got no :check:"),
        ("{reading} mine.squares", "{reading} mine.square", "expected the id .*'mine.squares'"),
        ("\nSquares\nare large.\n", "", "reading mine.squares: got no text"),
        ("large.\n```", "large.", "{reading} mine.squares in line 26 without end"),
    ],
)
def test_a_mistake_is_told_with_its_line(before, after, message):
    text = CLAIM + READING
    assert before in text
    with pytest.raises(InputError, match=message):
        statements.read(text.replace(before, after, 1), "norms")
