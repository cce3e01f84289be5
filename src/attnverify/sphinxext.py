"""Sphinx extension: the registry's claims and their evidence in the pages of the book.

Directives ``{claim} ID``, ``{evidence} ID...`` and ``{verdict}``; roles ``{claim}`` (a link to the
box of a claim) and ``{api}`` (a link to an entry of the API reference, if there is one). What they
print comes from the registry and from the evidence file named by the configuration value
``attnverify_evidence`` (relative to the source folder). Unknown ids and a missing or broken
evidence file are warnings, so that a strict build fails.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode
from sphinx_proof.proof_type import PROOF_TYPES

from attnverify.claims import Claim, registry
from attnverify.errors import InputError
from attnverify.evidence.records import KINDS
from attnverify.figures import COLORS
from attnverify.pages import tables
from attnverify.pages.common import (
    STATUSES,
    UNCHECKED,
    Evidence,
    anchor,
    badge,
    escape,
    read_evidence,
)

LOG = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "book_static"
#: The generated pages that a claim's box links to.
PAGES = {"status": "book/generated/status", "code": "book/generated/code"}
#: sphinx-proof has no counterexample; it is shown as an example under its own name.
PROOF_TYPE = {"counterexample": "example"}


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Evidence:
    return read_evidence(path)


def evidence_of(env: BuildEnvironment) -> Evidence:
    """The evidence file of the build; a warning, and nothing checked, if it cannot be used."""
    path = Path(env.srcdir, env.config.attnverify_evidence)
    env.note_dependency(str(path))
    try:
        return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)
    except InputError as error:
        LOG.warning("%s", error, type="attnverify", subtype="evidence", once=True)
        return Evidence()


def status_badge(status: str) -> nodes.raw:
    """The badge of a status; see the badge of :mod:`attnverify.pages.common`."""
    color = COLORS.get(status, COLORS["reference"])
    return nodes.raw("", badge(status, color), format="html")


class ClaimDirective(SphinxDirective):
    """``{claim} ID``: the box of a claim, numbered as a theorem, with its status and its links."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        try:
            claim = registry[self.arguments[0]]
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return []
        kind = PROOF_TYPE.get(claim.kind, claim.kind)
        label = anchor(claim.id)
        content = StringList(claim.statement.strip().splitlines(), source=f"claim {claim.id}")
        proof = PROOF_TYPES[kind](
            f"prf:{kind}", [escape(claim.title)], {"label": label}, content, self.lineno,
            self.content_offset, self.block_text, self.state, self.state_machine,
        )  # fmt: skip
        box = proof.run()[0]
        box["realtype"] = self.env.proof_list[label]["realtype"] = claim.kind
        section = box[1]
        section["ids"] = [f"{label}-content"]  # sphinx-proof gives every box the same id
        section += self._footer(claim)
        return [box]

    def _footer(self, claim: Claim) -> nodes.container:
        footer = nodes.container(classes=["attnverify-footer"])
        lines = [self._origin(claim), ""]
        if claim.uses:
            lines += [f"Rests on {', '.join(f'{{claim}}`{used}`' for used in claim.uses)}.", ""]
        if claim.corrected_by:
            lines += [f"Corrected by {{claim}}`{claim.corrected_by}`.", ""]
        lines += [f"Corrects {{claim}}`{c.id}`." for c in registry.values() if c.corrected_by == claim.id]
        self.state.nested_parse(StringList(lines, source=f"claim {claim.id}"), self.content_offset, footer)
        status = evidence_of(self.env).status(claim.id)
        last = nodes.paragraph()
        last += [status_badge(status), nodes.Text(" "),
                 self._link("status", claim, "evidence"), nodes.Text(" · "),
                 self._link("code", claim, "code of its checks"), nodes.Text(" · "),
                 nodes.literal("", claim.id)]  # fmt: skip
        footer += last
        return footer

    @staticmethod
    def _origin(claim: Claim) -> str:
        sources = [f"{{cite}}`{s.key}`, {escape(s.locator)}" for s in claim.sources]
        text = f"Source: {'; '.join(sources)}. " if sources else ""
        return text + (f"Proved here: {escape(claim.here)}." if claim.here else "")

    def _link(self, page: str, claim: Claim, text: str) -> addnodes.pending_xref:
        link = addnodes.pending_xref("", refdomain="", reftype=f"claim-{page}", reftarget=claim.id,
                                     refdoc=self.env.docname, refexplicit=True)  # fmt: skip
        link += nodes.inline("", text)
        self.set_source_info(link)
        return link


class ClaimRole(SphinxRole):
    """{claim}`ID` or {claim}`text <ID>`: a link to the box of a claim."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        text, target = _split(self.text)
        try:
            claim = registry[target]
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return [nodes.literal("", self.text)], []
        link = addnodes.pending_xref("", refdomain="", reftype="claim", reftarget=claim.id,
                                     refdoc=self.env.docname, refexplicit=bool(text))  # fmt: skip
        link += nodes.inline("", text or claim.title)
        self.set_source_info(link)
        return [link], []


class ApiRole(SphinxRole):
    """{api}`NAME`: a name of the package, linked if the API reference has an entry for it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if not _exists(self.text):
            LOG.error("api: got %r, expected a name of the package", self.text,
                      location=self.get_location(), type="attnverify", subtype="api")  # fmt: skip
        link = addnodes.pending_xref("", refdomain="", reftype="claim-api", reftarget=self.text,
                                     refdoc=self.env.docname, refexplicit=True)  # fmt: skip
        link += nodes.literal("", self.text.removeprefix("attnverify."))
        return [link], []


def _split(text: str) -> tuple[str, str]:
    """("text", "target") of ``text <target>``, ("", "target") of ``target``."""
    if text.endswith(">") and "<" in text:
        title, _, target = text[:-1].rpartition("<")
        return title.strip(), target.strip()
    return "", text.strip()


def _exists(name: str) -> bool:
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:size]))
        except ImportError:
            continue
        for part in parts[size:]:
            value = getattr(value, part, None)
        return value is not None
    return False


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element):
    """Turn the links of this extension into references; None for those of others."""
    kind, target = node.get("reftype", ""), node.get("reftarget")
    if kind == "claim":
        return _to_box(app, env, node, registry[target], text)
    if kind == "claim-api":
        entry = env.domains["py"].objects.get(target)
        return text if entry is None else make_refnode(
            app.builder, node["refdoc"], entry.docname, entry.node_id, text, target)  # fmt: skip
    page = PAGES.get(kind.removeprefix("claim-")) if kind.startswith("claim-") else None
    if page is None:
        return None
    if page not in env.all_docs:
        LOG.warning("no page %s (run python -m attnverify.pages)", page, type="attnverify",
                    subtype="page", once=True)  # fmt: skip
        return text
    place = anchor(target, kind.removeprefix("claim-"))
    return make_refnode(app.builder, node["refdoc"], page, place, text)


def _to_box(app: Sphinx, env: BuildEnvironment, node, claim: Claim, text: nodes.Element):
    box = getattr(env, "proof_list", {}).get(anchor(claim.id))
    if box is None:
        LOG.warning("claim %s has no box: no page prints it with the claim directive", claim.id,
                    location=node, type="attnverify", subtype="box")  # fmt: skip
        return text
    numbers = env.toc_fignumbers.get(box["docname"], {}).get(box["countertype"], {})
    number = ".".join(map(str, numbers.get(anchor(claim.id), ())))
    if number and not node["refexplicit"]:
        text = nodes.inline("", f"{claim.kind.capitalize()} {number} ({claim.title})")
    return make_refnode(app.builder, node["refdoc"], box["docname"], anchor(claim.id), text, claim.title)


class EvidenceDirective(SphinxDirective):
    """``{evidence} ID...``: what was found for these claims, and how their twins were rejected."""

    required_arguments = 1
    optional_arguments = 1000

    def run(self) -> list[nodes.Node]:
        try:
            claims = registry.select(self.arguments)
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return []
        evidence = evidence_of(self.env)
        return [*tables.records(claims, evidence), *tables.twins(claims, evidence)]


class VerdictDirective(SphinxDirective):
    """``{verdict}``: how many claims have which status, and what the evidence is made of."""

    def run(self) -> list[nodes.Node]:
        evidence = evidence_of(self.env)
        box = nodes.container(classes=["attnverify-verdict"])
        box += [self._statuses(evidence), nodes.paragraph("", _pieces(evidence))]
        return [box]

    @staticmethod
    def _statuses(evidence: Evidence) -> nodes.paragraph:
        counts = Counter(evidence.status(id) for id in registry)
        line = nodes.paragraph()
        line += [nodes.strong("", f"{len(registry)} claims"), nodes.Text(": ")]
        for status in (s for s in (*STATUSES, UNCHECKED) if counts[s]):
            line += [nodes.Text(f"{counts[status]} "), status_badge(status), nodes.Text(" ")]
        return line


def _pieces(evidence: Evidence) -> str:
    """The evidence and the twins in words."""
    records = [r for id in registry for r in evidence.records(id)]
    twins = [t for id in registry for t in evidence.twins(id)]
    kinds = Counter(r["kind"] for r in records)
    passed = sum(r["outcome"] == "pass" for r in records)
    made_of = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    rejected = sum(t["rejected"] for t in twins)
    return (f"{passed} of {len(records)} pieces of evidence pass ({made_of or 'none'}). "
            f"{rejected} of {len(twins)} must-fail twins are rejected.")  # fmt: skip


def _one_counter(app: Sphinx, config) -> None:
    """Theorems, lemmas and the rest count together, so that 1.3 comes after 1.2."""
    if not config.prf_realtyp_to_countertyp:
        kinds: Sequence[str] = ("lemma", "proposition", "example")
        config.prf_realtyp_to_countertyp = {kind: "theorem" for kind in kinds}


def _static(app: Sphinx) -> None:
    app.config.html_static_path.append(str(STATIC))


def setup(app: Sphinx) -> dict:
    """Register the directives, the roles, the style sheet and the configuration value."""
    app.setup_extension("sphinx_proof")
    app.setup_extension("sphinxcontrib.bibtex")
    app.add_config_value("attnverify_evidence", "_build/evidence.json", "env")
    app.add_directive("claim", ClaimDirective)
    app.add_directive("evidence", EvidenceDirective)
    app.add_directive("verdict", VerdictDirective)
    app.add_role("claim", ClaimRole())
    app.add_role("api", ApiRole())
    app.connect("config-inited", _one_counter)
    app.connect("missing-reference", resolve)
    app.connect("builder-inited", _static)
    app.add_css_file("attnverify.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
