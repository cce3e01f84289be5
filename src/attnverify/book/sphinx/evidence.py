"""Directive ``{evidence} ID...``, one line a claim and its details folded, and roles to link it."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from attnverify.book.pages import evidence_line, tables
from attnverify.book.pages.common import Evidence, anchor
from attnverify.book.sphinx.links import ALL, ClaimRole, evidence_of, show, status_badge
from attnverify.chapters import Claim, registry
from attnverify.support.errors import InputError

LOG = logging.getLogger(__name__)
#: The page that says what no evidence of a kind shows.
GUIDE = "book/evidence"


class EvidenceDirective(SphinxDirective):
    """``{evidence} ID...``: what was found for each claim in one line, its tables folded below."""

    required_arguments = 1
    optional_arguments = 1000

    def run(self) -> list[nodes.Node]:
        try:
            claims = registry.select(self.arguments)
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return []
        evidence = evidence_of(self.env)
        pattern = any(set(argument) & set("*?[") for argument in self.arguments)
        show(self.env, *(c.id for c in claims), *([ALL] if pattern else []))
        return [node for claim in claims for node in self._of(claim, evidence)]

    def _of(self, claim: Claim, evidence: Evidence) -> list[nodes.Node]:
        if self.env.docname == f"notebooks/{claim.notebook}":  # where links to it lead
            place = anchor(claim.id, "evidence")
            self.env.domains["std"].note_hyperlink_target(  # pyright: ignore
                place, self.env.docname, place, claim.title
            )
        line = self._line(claim, evidence)
        if not evidence.records(claim.id) and not evidence.twins(claim.id):
            return [line]
        start = '<details class="attnverify-details"><summary>Every check and twin</summary>'
        return [
            line,
            nodes.raw("", start, format="html"),
            *tables.records(claim, evidence),
            *tables.twins(claim, evidence),
            *self._limits(claim, evidence),
            nodes.raw("", "</details>", format="html"),
        ]

    def _line(self, claim: Claim, evidence: Evidence) -> nodes.paragraph:
        line = nodes.paragraph(classes=["attnverify-evidence"])
        line["ids"] = [anchor(claim.id, "evidence")]
        box = self._link("", "claim", claim.id, claim.title)
        found = evidence_line.text(claim, evidence)
        line += [box, nodes.Text(" "), status_badge(evidence.status(claim.id))]
        line += [nodes.Text(f" {found}.")]
        return line

    def _limits(self, claim: Claim, evidence: Evidence) -> list[nodes.Node]:
        """The limits of this claim's evidence, each once, and a link to the general ones."""
        note = nodes.paragraph(classes=["attnverify-limits"])
        note += nodes.strong("", "Limits. ")
        for who, limit in tables.limits(claim, evidence):
            mark = "," if limit.startswith("given") else ":"
            note += [nodes.emphasis("", who), *tables.typeset(f"{mark} {limit.rstrip('.')}. ")]
        guide = self._link("std", "doc", f"/{GUIDE}", "What no evidence of a kind shows")
        note += [guide, nodes.Text(".")]
        return [note]

    def _link(self, domain: str, kind: str, target: str, text: str) -> addnodes.pending_xref:
        link = addnodes.pending_xref(
            "",
            refdomain=domain,
            reftype=kind,
            reftarget=target,
            refdoc=self.env.docname,
            refexplicit=bool(domain),
        )
        link += nodes.inline("", text)
        self.set_source_info(link)
        return link


def setup(app: Sphinx) -> None:
    """Register the directive, the roles {evidence} and {twins}, and the caption of tables."""
    app.add_directive("evidence", EvidenceDirective)
    app.add_role("evidence", ClaimRole("claim-evidence"))
    app.add_role("twins", ClaimRole("claim-twins"))
    app.add_node(tables.Caption, html=(tables.visit_caption, tables.depart_caption))
