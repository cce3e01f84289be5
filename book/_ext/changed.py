"""Which pages are read again: those whose text, outputs, claims or evidence are not as they were.

Sphinx compares times of files; here contents count. A page's key holds its source, the outputs of
its notebook, and the claims it names with all that the registry and the evidence say of them. What
is written again follows from that (:mod:`written`). The folder of parsed pages is kept only after
a build without a warning (tools/build_book.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.links import evidence_of, exists
from attnverify.claims import registry
from attnverify.evidence import formal

ID = re.compile(r"[a-z]+(?:\.[a-z0-9-]+)+")
#: Pages that show something of every claim, or of a pattern of ids.
ALL = re.compile(r"\{verdict\}|\{evidence\}[^\n]*[*?\[]")

#: Names of the package: a role that names nothing is a warning when the page is read.
API = re.compile(r"\{api\}`(?:[^`<]*<)?([\w.]+)")


def claims_of(text: str) -> set[str]:
    """Ids of the claims that a page shows something of: those it names and their relations."""
    if ALL.search(text):
        return set(registry)
    found: set[str] = set()
    pending = set(ID.findall(text)) & set(registry)
    named = set(pending)
    for id in named:
        claim = registry[id]
        pending |= {*claim.uses, *filter(None, [claim.corrected_by, claim.sharpens])}
        pending |= {c.id for c in registry.values() if id in (c.corrected_by, c.sharpens)}
    for id in pending:
        found |= {id} | set(ID.findall(registry[id].statement)) & set(registry)
    return found


def key(env: BuildEnvironment, docname: str, outputs: dict[str, str]) -> str:
    """Digest of all that reading a page depends on, beside the settings of the whole build."""
    source = Path(env.doc2path(docname)).read_bytes()
    evidence = evidence_of(env)
    shown: list[Any] = [
        (repr(registry[id]), evidence.claims.get(id), _formal(id))
        for id in sorted(claims_of(source.decode("utf-8")))
    ]
    if ALL.search(source.decode("utf-8")):
        shown += [dict(evidence.environment), dict(evidence.settings)]
    names = {name: exists(name) for name in API.findall(source.decode("utf-8"))}
    text = json.dumps([shown, names, outputs.get(Path(docname).name, "")], sort_keys=True)
    return hashlib.sha256(source + b"\0" + text.encode()).hexdigest()


def _formal(id: str) -> list[str]:
    """The formal statements of a claim, which its box shows."""
    return [formal.prover(), *(formal.statement(t.name) for t in formal.theorems_of(id))]


def outputs(env: BuildEnvironment) -> dict[str, str]:
    """Digest of the outputs of every executed notebook, by its name: written beside the cache."""
    cache = env.config.nb_execution_cache_path
    listing = Path(cache, "outputs.json") if cache else None
    return json.loads(listing.read_text()) if listing and listing.is_file() else {}


def outdated(
    app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set
) -> Iterable[str]:
    """The pages whose keys are not those under which they were read."""
    known, found = getattr(env, "attnverify_keys", {}), outputs(env)
    return [d for d in env.found_docs if known.get(d) != key(env, d, found)]


def note(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write down the keys; from here on several processes may write pages."""
    found = outputs(env)
    env.attnverify_keys = {d: key(env, d, found) for d in env.found_docs}  # type: ignore
    app.parallel = os.cpu_count() or 1
    return []


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("env-get-outdated", outdated)
    app.connect("env-updated", note)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
