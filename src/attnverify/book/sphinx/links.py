"""Roles and links of the Sphinx extension: claims, statuses, API entries, the evidence file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.nodes import make_refnode

from attnverify.book.pages.common import Evidence, anchor, badge, read_evidence
from attnverify.book.sphinx.private_interfaces import boxes
from attnverify.chapters import Claim, registry
from attnverify.support.errors import InputError

LOG = logging.getLogger(__name__)
#: The pages that a claim's box links to.
PAGES = {"status": "book/generated/status", "formal": "book/formal"}

#: Where a claim's evidence is printed: the line of its chapter, or the table of its twins. The
#: status page stands in where the chapter does not print it.
EVIDENCE = {"claim-evidence": "evidence", "claim-twins": "twins"}


#: Stands for every claim among those that a page shows something of.
ALL = "*"


def shown(env: BuildEnvironment) -> dict[str, set[str]]:
    """The ids of the claims that each page shows something of (:mod:`incremental`)."""
    if not hasattr(env, "attnverify_shown"):
        env.attnverify_shown = {}  # type: ignore
    return env.attnverify_shown  # type: ignore


def show(env: BuildEnvironment, *ids: str) -> None:
    """Note that the page which is read shows something of these claims."""
    shown(env).setdefault(env.docname, set()).update(ids)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Evidence:
    return read_evidence(path)


def evidence_of(env: BuildEnvironment) -> Evidence:
    """The evidence file of the build; a warning, and nothing checked, if it cannot be used.

    Pages that show something of it are read again by content (:mod:`incremental`), not by its
    time: every verification writes it.
    """
    path = Path(env.srcdir, env.config.attnverify_evidence)
    try:
        return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)
    except InputError as error:
        LOG.warning("%s", error, type="attnverify", subtype="evidence", once=True)
        return Evidence()


def status_badge(status: str) -> nodes.raw:
    """The badge of a status; see the badge of :mod:`attnverify.book.pages.common`."""
    return nodes.raw("", badge(status), format="html")


class ClaimRole(SphinxRole):
    """{claim}`ID` or {claim}`text <ID>`: a link to the box of a claim, or to its ``kind``."""

    def __init__(self, kind: str = "claim") -> None:
        self.kind = kind

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        text, target = _split(self.text)
        try:
            claim = registry[target]
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return [nodes.literal("", self.text)], []
        show(self.env, claim.id)
        link = addnodes.pending_xref(
            "",
            refdomain="",
            reftype=self.kind,
            reftarget=claim.id,
            refdoc=self.env.docname,
            refexplicit=bool(text),
        )
        link += nodes.inline("", text or claim.title)
        self.set_source_info(link)
        return [link], []


class StatusRole(SphinxRole):
    """{status}`ID`: the badge of a claim's status, for prose that must not state it by hand."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            claim = registry[self.text.strip()]
        except InputError as error:
            LOG.error("%s", error, location=self.get_location(), type="attnverify", subtype="id")
            return [nodes.literal("", self.text)], []
        show(self.env, claim.id)
        return [status_badge(evidence_of(self.env).status(claim.id))], []


def _split(text: str) -> tuple[str, str]:
    """("text", "target") of ``text <target>``, ("", "target") of ``target``."""
    if text.endswith(">") and "<" in text:
        title, _, target = text[:-1].rpartition("<")
        return title.strip(), target.strip()
    return "", text.strip()


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element):
    """Turn the links of this extension into references; None for those of others."""
    kind, target = node.get("reftype", ""), node.get("reftarget")
    if kind == "claim":
        return _to_box(app, env, node, registry[target], text)
    if kind in EVIDENCE:
        printed = env.domains["std"].anonlabels.get(anchor(target, "evidence"))
        if printed:
            place = anchor(target, EVIDENCE[kind])
            return make_refnode(app.builder, node["refdoc"], printed[0], place, text)
        kind = "claim-status"
    page = PAGES.get(kind.removeprefix("claim-")) if kind.startswith("claim-") else None
    if page is None:
        return None
    if page not in env.all_docs:
        LOG.warning(
            "no page %s (run python -m attnverify.book.pages)",
            page,
            type="attnverify",
            subtype="page",
            once=True,
        )
        return text
    place = anchor(target, kind.removeprefix("claim-"))
    return make_refnode(app.builder, node["refdoc"], page, place, text)


def box_of(env: BuildEnvironment, claim: Claim) -> tuple[str, str] | None:
    """The page that prints a claim's box, and its name there ("Theorem 9.1"), if one does."""
    box = boxes(env).get(anchor(claim.id))
    if box is None:
        return None
    numbers = env.toc_fignumbers.get(box["docname"], {}).get(box["countertype"], {})
    number = ".".join(map(str, numbers.get(anchor(claim.id), ())))
    return box["docname"], f"{claim.label} {number}".strip()


def _to_box(app: Sphinx, env: BuildEnvironment, node, claim: Claim, text: nodes.Element):
    box = box_of(env, claim)
    if box is None:
        LOG.warning(
            "claim %s has no box: no page prints it with the claim directive",
            claim.id,
            location=node,
            type="attnverify",
            subtype="box",
        )
        return text
    page, name = box
    if name[-1].isdigit() and not node["refexplicit"]:
        text = nodes.inline("", name)  # the title is on hover
    return make_refnode(app.builder, node["refdoc"], page, anchor(claim.id), text, claim.title)
