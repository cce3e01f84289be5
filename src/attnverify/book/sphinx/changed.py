"""Which pages are read again: those whose text, outputs, claims or evidence are not as they were.

Sphinx compares times of files; here contents count. A page's key holds its source and what it takes
in, the outputs of its notebook, and the claims it names with all that the registry and the evidence
say of them. What is written again follows from that (:mod:`written`). The folder of parsed pages is
kept only after a build without a warning (tools/build_book.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.sphinx.links import evidence_of, exists
from attnverify.topics import registry
from attnverify.verification import formal

ID = re.compile(r"[a-z]+(?:\.[a-z0-9-]+)+")
#: Pages that show something of every claim, or of a pattern of ids.
ALL = re.compile(r"\{verdict\}|\{evidence\}[^\n]*[*?\[]")

#: What is searched for ids, roles and directives.
TEXTS = {".md", ".inc"}
START = time.time()

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


def inputs(env: BuildEnvironment, docname: str) -> list[Path]:
    """The files that a page is made of: its source and, once it was read, what it took in.

    Not the pictures of its outputs, which are written while it is read.
    """
    own = Path(env.doctreedir).parent
    taken = (Path(env.srcdir, name) for name in sorted(env.dependencies.get(docname, ())))
    return [Path(env.doc2path(docname)), *(p for p in taken if not p.is_relative_to(own))]


def key(env: BuildEnvironment, docname: str, outputs: dict[str, str]) -> str:
    """Digest of all that reading a page depends on, beside the settings of the whole build."""
    files = {path: path.read_bytes() for path in inputs(env, docname) if path.is_file()}
    texts = (text.decode("utf-8") for path, text in files.items() if path.suffix in TEXTS)
    source = "\n".join(texts)
    evidence = evidence_of(env)
    shown: list[Any] = [
        (repr(registry[id]), evidence.claims.get(id), _formal(id))
        for id in sorted(claims_of(source))
    ]
    if ALL.search(source):
        shown += [dict(evidence.environment), dict(evidence.settings)]
    names = {name: exists(name) for name in API.findall(source)}
    contents = [hashlib.sha256(text).hexdigest() for text in files.values()]
    parts = [contents, shown, names, outputs.get(Path(docname).name, "")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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


def forget(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Forget all pages that will be read before the first is: a box may move from one to another.

    Sphinx forgets each just before it reads it, and says that the box is there twice.
    """
    for docname in docnames:
        app.emit("env-purge-doc", env, docname)
        env.clear_doc(docname)


def note(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write down the keys; from here on several processes may write pages.

    Nobody knows what was read of a file that was written on the way: its page is read again.
    """
    found = outputs(env)
    settled = [d for d in env.found_docs if all(map(is_settled, inputs(env, d)))]
    env.attnverify_keys = {d: key(env, d, found) for d in settled}  # type: ignore
    app.parallel = os.cpu_count() or 1
    return []


def is_settled(path: Path) -> bool:
    """Whether a file was not written since this process began."""
    return path.is_file() and path.stat().st_mtime < START


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("env-get-outdated", outdated)
    app.connect("env-before-read-docs", forget)
    app.connect("env-updated", note)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
