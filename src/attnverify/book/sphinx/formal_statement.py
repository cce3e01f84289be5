"""In the box of a claim: the mark "machine-checked", and the formal statement, folded."""

from __future__ import annotations

from html import escape

from docutils import nodes
from sphinx import addnodes

from attnverify.book.pages.common import Evidence
from attnverify.chapters import Claim
from attnverify.verification import formal
from attnverify.verification.formal import Theorem, checked

SIGN = "\N{RIGHT TACK}"
COLOR = "#0072B2"  # of the same eight as the statuses' colors, and none of theirs
SUMMARY = "The statement as the proof assistant checked it"


def mark(words: str) -> nodes.raw:
    """The mark as HTML; the word is told apart from a status by its sign and color."""
    html = (
        f'<span class="attnverify-badge attnverify-checked" style="--attnverify-color: {COLOR}">'
        f'<span aria-hidden="true">{SIGN}</span> {escape(words)}</span>'
    )
    return nodes.raw("", html, format="html")


def link(claim: Claim, evidence: Evidence, docname: str) -> list[nodes.Node]:
    """The mark, leading to the page on formal proofs; nothing for a claim that has none."""
    words = checked(evidence.records(claim.id))
    if not words:
        return []
    found = addnodes.pending_xref(
        "",
        refdomain="",
        reftype="claim-formal",
        reftarget=claim.id,
        refdoc=docname,
        refexplicit=True,
    )
    found += nodes.inline("", "", mark(words))
    return [found, nodes.Text(" ")]


def folded(claim: Claim, evidence: Evidence) -> list[nodes.Node]:
    """The formal statements of a claim below a line that opens them."""
    theorems = formal.theorems_of(claim.id) if checked(evidence.records(claim.id)) else []
    if not theorems:
        return []
    start = f'<details class="attnverify-formal"><summary>{SUMMARY}</summary>'
    return [
        nodes.raw("", start, format="html"),
        *(node for theorem in theorems for node in _statement(theorem)),
        nodes.raw("", "</details>", format="html"),
    ]


def _statement(theorem: Theorem) -> list[nodes.Node]:
    text = formal.statement(theorem.name)
    words = nodes.paragraph()
    words += [nodes.literal("", theorem.name), nodes.Text(f", {formal.prover()}. {theorem.says}")]
    return [words, nodes.literal_block(text, text, language="text")]
