"""Sphinx extension: the registry's claims and their evidence in the pages of the book.

Directives ``{claim} ID``, ``{reading} ID``, ``{evidence} ID...`` and ``{verdict}``; roles
``{claim}`` (a link to the box of a claim), ``{formal}`` (to its formal statement) and ``{status}``
(its badge). What they print comes from the registry and from the evidence file named by the
configuration value ``attnverify_evidence`` (relative to the source folder). Unknown ids and a
missing or broken evidence file are warnings, so that a strict build fails.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx_proof.proof_type import PROOF_TYPES

from attnverify.book.pages.common import anchor, escape
from attnverify.book.pages.status import machine_checked
from attnverify.book.sphinx import evidence as evidence_boxes
from attnverify.book.sphinx import formal_statement
from attnverify.book.sphinx.links import (
    ALL,
    ClaimRole,
    StatusRole,
    evidence_of,
    resolve,
    show,
    status_badge,
)
from attnverify.book.sphinx.private_interfaces import boxes
from attnverify.chapters import Claim, registry
from attnverify.support.errors import InputError
from attnverify.support.typeset import scripts, symbols
from attnverify.support.vocabulary import STATUSES

LOG = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"
#: sphinx-proof lacks these; they are shown as an example under their own name.
PROOF_TYPE = {"counterexample": "example", "experiment": "example"}


#: Extensions of their own.
PARTS = ("sphinx.citing", "sphinx.search_page", "sphinx.folding", "sphinx.previews")
PARTS += ("inpage.buttons",)


class ClaimDirective(SphinxDirective):
    """``{claim} ID``: the box of a claim, numbered as a theorem, with its status and its links.

    Its fields and its statement are the registry's, which has read them from the same fence.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        try:
            claim = registry[self.arguments[0]]
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return []
        show(self.env, claim.id, *(id for ids in self._relations(claim).values() for id in ids))
        kind = PROOF_TYPE.get(claim.kind, claim.kind)
        label = anchor(claim.id)
        false = ["attnverify-false"] * (claim.label == "False Statement")
        options = {"label": label, "class": ["attnverify-claim", *false]}
        content = StringList(claim.statement.strip().splitlines(), source=f"claim {claim.id}")
        proof = PROOF_TYPES[kind](
            f"prf:{kind}",
            [escape(claim.title)],
            options,
            content,
            self.lineno,
            self.content_offset,
            self.block_text,
            self.state,
            self.state_machine,
        )
        box = proof.run()[0]
        proofs = boxes(self.env)
        box["realtype"] = proofs[label]["realtype"] = claim.label.lower()
        section = box[1]
        section["ids"] = [f"{label}-content"]  # sphinx-proof gives every box the same id
        section += self._footer(claim)
        return [box]

    def _footer(self, claim: Claim) -> nodes.container:
        """The foot of a box: status, source, what the claim rests on, links."""
        footer = nodes.container(classes=["attnverify-footer"], claim=claim.id)
        content = StringList([self._origin(claim)], source=f"claim {claim.id}")
        self.state.nested_parse(content, self.content_offset, footer)
        evidence = evidence_of(self.env)
        first = nodes.paragraph()
        first += [status_badge(evidence.status(claim.id)), nodes.Text(" ")]
        first += formal_statement.link(claim, evidence, self.env.docname)
        for parsed in footer.findall(nodes.paragraph):
            first += parsed.children
        last = nodes.paragraph()
        for words, ids in self._relations(claim).items():
            last += nodes.Text(f"{words} ")
            for k, id in enumerate(ids):
                last += [nodes.Text(", " * (k > 0)), self._link("claim", id, "")]
            last += nodes.Text(". ")
        last += [self._link("claim-evidence", claim.id, "evidence"), nodes.Text(" · ")]
        last += nodes.literal("", claim.id)
        footer.children = []
        footer += [first, last, *formal_statement.folded(claim, evidence)]
        return footer

    @staticmethod
    def _relations(claim: Claim) -> dict[str, list[str]]:
        """Ids of the claims that this one rests on, is corrected by, and corrects."""
        related = {
            "Rests on": list(claim.uses),
            "Corrected by": [claim.corrected_by] if claim.corrected_by else [],
            "Corrects": [c.id for c in registry.values() if c.corrected_by == claim.id],
        }
        return {words: ids for words, ids in related.items() if ids}

    @staticmethod
    def _origin(claim: Claim) -> str:
        text = ""
        for word, related in (("Source", False), ("Related", True)):
            places = [
                f"{{cite}}`{s.key}`, {escape(s.locator)}"
                for s in claim.sources
                if s.related is related
            ]
            text += f"{word}: {'; '.join(places)}. " if places else ""
        if claim.published and not claim.derived:
            text += "The criterion, and the reading of the source, are this book's. "
        done = f"{claim.done.capitalize()} here"
        return text + (f"{done}: {escape(claim.here)}." if claim.here else "")

    def _link(self, kind: str, id: str, text: str) -> addnodes.pending_xref:
        """A link with a text; without one, a link to a box shows its kind and number."""
        link = addnodes.pending_xref(
            "",
            refdomain="",
            reftype=kind,
            reftarget=id,
            refdoc=self.env.docname,
            refexplicit=bool(text),
        )
        link += nodes.inline("", text or registry[id].title)
        self.set_source_info(link)
        return link


class ReadingDirective(SphinxDirective):
    """``{reading} ID``: a common reading that a claim refutes; the page of errata shows it."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        return []


class VerdictDirective(SphinxDirective):
    """``{verdict}``: how many claims have which status, in one line."""

    def run(self) -> list[nodes.Node]:
        show(self.env, ALL)
        evidence = evidence_of(self.env)
        counts = Counter(evidence.status(id) for id in registry)
        line = nodes.paragraph(classes=["attnverify-verdict"])
        line += [nodes.strong("", f"{len(registry)} claims"), nodes.Text(": ")]
        for k, status in enumerate(s for s in STATUSES if counts[s]):
            line += [nodes.Text(f"{', ' * (k > 0)}{counts[status]} "), status_badge(status)]
        proved, exact = machine_checked(evidence)
        line += nodes.Text(f"; {proved} machine-checked, {exact} of them exactly as stated.")
        return [line]


def typeset_docstring(app: object, what: str, name: str, of, options, lines: list[str]) -> None:
    """Mathematics of a docstring as a page shows it; examples and literals stay as they are.

    Absolute values are written with bars, which reST would take for substitutions.
    """
    up, down, example = r"\ :sup:`{}`\ ", r"\ :sub:`{}`\ ", False
    for k, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = re.split(r"(``.*?``|`[^`]*`|\"[^\"]*\")", line)  # every second one is a literal
            bars = (symbols(part).replace("|", r"\|") for part in parts[::2])
            parts[::2] = [scripts(part, up, down) for part in bars]
            lines[k] = "".join(parts)


def _one_counter(app: Sphinx, config) -> None:
    """Theorems, lemmas and the rest count together, so that 1.3 comes after 1.2."""
    if not config.prf_realtyp_to_countertyp:
        kinds = ("lemma", "proposition", "example")
        config.prf_realtyp_to_countertyp = dict.fromkeys(kinds, "theorem")


def _static(app: Sphinx) -> None:
    app.config.html_static_path.append(str(STATIC))


def setup(app: Sphinx) -> dict:
    """Register the directives, the roles, the style sheet and the configuration value."""
    app.setup_extension("sphinx_proof")
    app.setup_extension("sphinxcontrib.bibtex")
    for part in PARTS:
        app.setup_extension(f"attnverify.book.{part}")
    app.add_config_value("attnverify_evidence", "_build/evidence.json", "env")
    app.add_directive("claim", ClaimDirective)
    app.add_directive("reading", ReadingDirective)
    app.add_directive("verdict", VerdictDirective)
    app.add_role("claim", ClaimRole())
    app.add_role("status", StatusRole())
    app.add_role("formal", ClaimRole("claim-formal"))
    app.connect("config-inited", _one_counter)
    app.connect("missing-reference", resolve)
    app.connect("builder-inited", _static)
    if "sphinx.ext.autodoc" in app.extensions:
        app.connect("autodoc-process-docstring", typeset_docstring)
    app.add_css_file("attnverify.css")
    evidence_boxes.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
