"""Pages are read and written again after an edit of what they show, beside what Sphinx finds.

A page is read again if a claim that it shows, the evidence for it or the output of its notebook is
not as it was. All pages are written again if anything changed that one page takes from another: a
title, a number, a label, a citation. Otherwise Sphinx writes the pages that it read. With other
settings, programs or styles nothing of an earlier build is left (tools/build_book.py), and the
folder of parsed pages is kept only after a build without a warning.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.sphinx.links import ALL, evidence_of, shown
from attnverify.book.sphinx.private_interfaces import boxes, citations
from attnverify.chapters import registry
from attnverify.verification import formal


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def _told(env: BuildEnvironment, id: str) -> list[Any]:
    """All that a page can tell of a claim: its statement, relations, evidence and formal proof."""
    related = [c.id for c in registry.values() if id in (c.corrected_by, c.sharpens)]
    claim = registry[id] if id in registry else None
    proofs = [formal.statement(theorem.name) for theorem in formal.theorems_of(id)]
    return [repr(claim), related, evidence_of(env).claims.get(id), formal.prover(), proofs]


def _keys(env: BuildEnvironment) -> dict[str, str]:
    """For each page the digest of the claims, the evidence and the outputs that it shows."""
    evidence, found = evidence_of(env), {}
    told = {id: _told(env, id) for id in registry}
    cache = env.config.nb_execution_cache_path
    listing = Path(cache, "outputs.json") if cache else None
    outputs = json.loads(listing.read_text()) if listing and listing.is_file() else {}
    for page in env.found_docs:
        ids = shown(env).get(page, set())
        parts = [told.get(id) for id in sorted(ids - {ALL})]
        if ALL in ids:
            parts += [told, dict(evidence.environment), dict(evidence.settings)]
        found[page] = _digest([parts, outputs.get(Path(page).name, "")])
    return found


def outdated(
    app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set
) -> Iterable[str]:
    """The pages that show something of a claim or a notebook that is not as it was."""
    known = getattr(env, "attnverify_keys", {})
    return [page for page, key in _keys(env).items() if known.get(page) != key]


def forget(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Forget all pages that will be read before the first is: a box may move from one to another.

    Sphinx forgets each page just before it reads it, and would say that the box is there twice.
    """
    for page in docnames:
        app.emit("env-purge-doc", env, page)
        env.clear_doc(page)


def note(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write down the keys; then one process a core writes pages, as Sphinx takes one fewer."""
    env.attnverify_keys = _keys(env)  # type: ignore
    app.parallel = (os.cpu_count() or 1) + 1
    return []


def shared(env: BuildEnvironment) -> str:
    """The digest of what pages take from one another."""
    domains = ("std", "py", "math", "prf")
    data: dict[str, Any] = {name: dict(env.domaindata.get(name, {})) for name in domains}
    data["cite"] = citations(env)
    titles = {page: title.astext() for page, title in env.titles.items()}
    slugs = {page: sorted(of.get("myst_slugs", ())) for page, of in env.metadata.items()}
    numbers = [env.toc_secnumbers, env.toc_fignumbers]
    return _digest([titles, slugs, numbers, boxes(env), _plain(data)])


def _plain(value: Any) -> Any:
    """A value with its keys as text and in order, whatever page was read first."""
    if isinstance(value, dict):
        return sorted((repr(key), _plain(each)) for key, each in value.items())
    return sorted(map(repr, value)) if isinstance(value, list | tuple | set) else repr(value)


def to_write(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Pages to write beside those that were read: the first, or all if what they share changed.

    Without any page to write Sphinx would not do what it does once for a book.
    """
    former, env.attnverify_shared = getattr(env, "attnverify_shared", None), shared(env)  # type: ignore
    return [app.config.root_doc] if former == env.attnverify_shared else env.found_docs  # type: ignore


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("env-get-outdated", outdated)
    app.connect("env-before-read-docs", forget)
    app.connect("env-purge-doc", lambda app, env, page: shown(env).pop(page, None))
    app.connect("env-updated", note)
    app.connect("env-get-updated", to_write, priority=900)  # after numbers are given
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
