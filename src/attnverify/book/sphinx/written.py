"""Which pages are written again: those that were read, or all if anything that pages share changed.

A written page follows from its own parsed page, from what Sphinx and its extensions keep of all
pages (titles, numbers, labels, citations), from styles and scripts, whose digests are in its head,
and from settings and programs; with others of these nothing of an earlier build is left
(tools/build_book.py). So where what is shared is as it was, only the pages that were read are
written. It is compared as a whole: what is left out (:data:`OWN`) is of one page or of the build,
and what cannot be compared counts as changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.sphinx.previews import FOLDER
from attnverify.support.files import write_text

#: Of one page (its times, sources, pictures, outputs), or what the build was started with.
OWN = {"all_docs", "dependencies", "included", "images", "dlfiles", "nb_metadata"}
OWN |= {"project", "doctreedir", "srcdir", "config", "settings", "myst_config"}
OWN |= {"mystnb_config", "sd_config", "external_site_map", "nb_new_exec_data"}
OWN |= {"attnverify_keys", "attnverify_shared"}
STATIC, PICTURES, INDEX = "_static", "_images", "searchindex.js"
DESIGN = "_sphinx_design_static"  # is there before pages are read
ENTRIES = "index-entries.json"  # beside the parsed pages: the names that each defines
#: Of the last build, beside the pages, where what they share is as it was.
KEPT = {"_sources", PICTURES, INDEX, FOLDER}


def shared(app: Sphinx, env: BuildEnvironment) -> str:
    """Digest of what pages share."""
    state = env.__getstate__()  # what Sphinx keeps of a build, without what it holds for itself
    kept: dict[str, Any] = {name: value for name, value in state.items() if name not in OWN}
    # Of a page's metadata others use where its headings are, not in which lines.
    slugs = {page: of.get("myst_slugs", {}) for page, of in env.metadata.items()}
    kept["metadata"] = {p: {k: v[1:] for k, v in of.items()} for p, of in slugs.items()}
    kept["domaindata"] = domains = dict(env.domaindata)
    domains["cite"] = cite = dict(env.domaindata["cite"])
    # The line of a citation, and that those of the page read last come last, nobody shows.
    cite["citation_refs"] = {r._replace(line=None) for r in map(_frozen, cite["citation_refs"])}
    outputs = Path(env.doctreedir).parent / "jupyter_execute"
    kept["glue"] = {str(p): p.read_text("utf-8") for p in outputs.rglob("*.glue.json")}
    kept["static"] = [_files(Path(app.confdir, top)) for top in app.config.html_static_path]
    return hashlib.sha256(json.dumps(plain(kept)).encode()).hexdigest()


def _files(top: Path) -> dict[str, str]:
    """Digest of each file below a folder."""
    files = (path for path in top.rglob("*") if path.is_file())
    return {str(p.relative_to(top)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _frozen(reference: Any) -> Any:
    return reference._replace(targets=tuple(reference.targets))


def plain(value: Any) -> Any:
    """A value as JSON that is equal for equal values, and for no others."""
    if isinstance(value, nodes.Node):
        return value.pformat()
    if isinstance(value, ast.AST):
        return ast.dump(value)
    if isinstance(value, Mapping):
        return sorted(([plain(k), plain(v)] for k, v in value.items()), key=json.dumps)
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if type(value).__repr__ is object.__repr__:
        return plain(vars(value))
    return value if isinstance(value, str | int | float | None) else repr(value)


def to_write(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Pages to write beside those that were read: the first (so that Sphinx ends what it does once
    for a book), or all.

    Numbers of sections and theorems are given by now. What is written again whatever happens is
    removed, or a page's head would have the digest of what the last build left.
    """
    if app.builder.name != "html":
        return []
    former, found = getattr(env, "attnverify_shared", None), shared(app, env)
    env.attnverify_shared = found  # type: ignore
    same, top = former == found, Path(app.outdir)
    kept = {STATIC, DESIGN}
    if same:
        kept |= KEPT | {part for d in env.found_docs for part in (d.partition("/")[0], f"{d}.html")}
    for path in [*top.glob("*"), *(top / STATIC).glob("*")]:
        if path.name not in kept:
            remove(path)
    return [app.config.root_doc] if same else env.found_docs


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def forget_index(app: Sphinx, *page: Any) -> None:
    """Sphinx has read its index back when it comes to the first page, which loads the next one."""
    Path(app.outdir, INDEX).unlink(missing_ok=True)


def complete_index(app: Sphinx) -> list:
    """Search as in a fresh build: Sphinx does not read back which names pages define, and leaves
    words that no page has any more."""
    if app.builder.name != "html":
        return []
    file, entries = Path(app.doctreedir, ENTRIES), app.env._search_index_index_entries
    whole = (json.loads(file.read_text("utf-8")) if file.is_file() else {}) | entries
    entries.clear()
    entries.update({page: whole[page] for page in sorted(whole) if page in app.env.found_docs})
    write_text(file, json.dumps(entries))
    indexer: Any = app.builder
    for words in (indexer.indexer._mapping, indexer.indexer._title_mapping):
        for word in [word for word, pages in words.items() if not pages]:
            del words[word]
    return []


def drop_pictures(app: Sphinx, exception: Exception | None) -> None:
    """Remove the pictures that no page shows any more."""
    if exception is None and app.builder.name == "html":
        shown = {name for _, name in app.env.images.values()}
        for path in Path(app.outdir, PICTURES).glob("*"):
            if path.name not in shown:
                path.unlink()


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("env-get-updated", to_write, priority=900)  # after numbers are given
    app.connect("html-page-context", forget_index)
    app.connect("html-collect-pages", complete_index)  # before the index is written
    app.connect("build-finished", drop_pictures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
