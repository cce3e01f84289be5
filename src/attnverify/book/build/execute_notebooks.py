"""Execute the notebooks of the book, as many at a time as there are cores, into a cache.

The page builder would execute them one after the other, in kernels that import everything anew.
Here they run in parallel in forks of one warm process, and only if something that they depend on
has changed: the outputs are kept under a key of the code cells, the reached modules, the versions
and the machine (:mod:`attnverify.verification.cache_keys`). All outputs go into a jupyter-cache,
which the builder then reads in place of executing. That cache lives for one build: its own key
ignores the package, so an older one would hide changes there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attnverify.book.build.forked_kernels import CAN_FORK, ForkingKernelManager, context
from attnverify.checking.live_table import BUILDING
from attnverify.derivation.notebook_sources import TAG
from attnverify.runtime.source_dependencies import Sources
from attnverify.runtime.workers import end_with_parent
from attnverify.support.files import write_text

TIMEOUT = 600  # seconds a cell
#: Or each kernel warns that its socket, which is local, is not encrypted.
QUIET = ["--IPKernelApp.log_level=ERROR"]

#: Beside the cache: digest of every notebook's outputs; a page is read again when its own changes.
OUTPUTS = "outputs.json"
#: Beside the cache: digest of the keys of all that is in it. It is whole if this is there.
WHOLE = "whole.json"


@dataclass(frozen=True)
class Executed:
    """A notebook with outputs; seconds as first measured; error: a traceback, or "" if none."""

    path: Path
    notebook: NotebookNode
    seconds: float
    error: str


class Unedited:
    """Tells whether the package and the notebooks are as they were when this was made.

    It is made before the keys are: after an edit nobody knows which text outputs are of.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._sources, self._written = Sources(), {path: _written(path) for path in paths}

    def __call__(self, *paths: Path) -> bool:
        """Whether neither the package nor one of these notebooks was written since."""
        same = all(_written(path) == self._written[path] for path in paths)
        return same and self._sources.unchanged()


def _written(path: Path) -> int | None:
    """When a file was written, in nanoseconds; None if it is gone."""
    return path.stat().st_mtime_ns if path.is_file() else None


def read(path: Path) -> NotebookNode:
    """Read a MyST file as a Jupyter notebook."""
    from myst_nb.core.read import read_myst_markdown_notebook

    return read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=path)


def cells(notebook: NotebookNode) -> list[tuple[str, list[str]]]:
    """Source and tags of each code cell, which is all that execution sees."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [(cell.source, sorted(cell.metadata.get("tags", ()))) for cell in code]


def execute(path: Path) -> Executed:
    """Execute one notebook in its own folder."""
    from jupyter_cache.executors.utils import single_nb_execution

    notebook = read(path)
    manager: dict[str, Any] = {"kernel_manager_class": ForkingKernelManager} if CAN_FORK else {}
    done = single_nb_execution(
        notebook,
        cwd=str(path.parent),
        timeout=TIMEOUT,
        allow_errors=False,
        extra_arguments=QUIET,
        # A print that comes in two pieces is one: where it is cut is a matter of time.
        coalesce_streams=True,
        **manager,
    )
    # What the kernel says of its language is not kept either: pages are equal, executed or reused.
    notebook.metadata.pop("language_info", None)
    return Executed(path, notebook, done.time or 0.0, done.exc_string or "")


def fill(
    folder: Path,
    cache: Path,
    jobs: int | None = None,
    store: Any = None,
    package: Callable[[], str] | None = None,
) -> list[str]:
    """Execute the notebooks of ``folder`` into ``cache`` and return the tracebacks of failed ones.

    store: an :class:`attnverify.runtime.cache.Store` for what need not be executed again. One
    that failed is in neither. A cache that has these outputs already stays; another one is emptied.
    package: gives the digest of all but its cells that a notebook's key follows from, by which keys
    are kept, too; without it they are made anew. What an edit overtakes is not kept.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    paths = sorted(folder.glob("*.md"))
    unedited = Unedited(paths)
    # No process is started before something is to be done.
    with ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=context(), initializer=start_executing
    ) as pool:
        known = _keys(paths, pool, store, package) if store else {}
        whole = _digest({path.stem: [key, read(path).metadata] for path, key in known.items()})
        if store and _text(cache / WHOLE) == whole:
            print("    all are unchanged", flush=True)
            return []
        shutil.rmtree(cache, ignore_errors=True)
        bundles, failed, digests = get_cache(str(cache)), [], {}
        for done in _all(paths, known, pool, store, unedited):
            if done.error:
                failed.append(f"{done.path.name}:\n{done.error}")
                continue
            digests[done.path.stem] = _digest(_outputs(done.notebook))
            bundle = CacheBundleIn(
                done.notebook, str(done.path), data={"execution_seconds": done.seconds}
            )
            bundles.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    write_text(cache / OUTPUTS, json.dumps(digests))
    if store and not failed and unedited(*paths):
        write_text(cache / WHOLE, whole)
    return failed


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _text(path: Path) -> str:
    """What a file holds; "" if there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


#: What the numerical libraries read when they start.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def start_executing() -> None:
    """Prepare a process for its first notebook, and let it end when the build is killed.

    The thread that waits for the end of the build holds nothing that a forked kernel could lack.
    """
    end_with_parent()
    one_thread()
    os.environ[BUILDING] = "1"


def one_thread() -> None:
    """Kernels forked from here use one thread, whatever the build's environment says.

    With more, those of all cores would wait for one another, and a kernel would wait for ever for
    the threads that the warm process has started and a fork does not have. Other parts of the build
    keep the environment.
    """
    import torch

    torch.set_num_threads(1)
    for name in THREADS:
        os.environ[name] = "1"  # for what a notebook starts


def _all(
    paths: list[Path],
    known: dict[Path, dict[str, Any]],
    pool: Executor,
    store: Any,
    unedited: Unedited,
) -> Iterator[Executed]:
    """Yield every notebook, from the store by its key or executed (then stored, unless edited)."""
    missing = []
    for path in paths:
        kept = store.get(known[path]) if store else None
        if kept is None:
            missing.append(path)
        else:
            yield Executed(path, _with_outputs(path, kept["outputs"]), kept["seconds"], "")
    print(f"    {len(paths) - len(missing)} of {len(paths)} are unchanged", flush=True)
    running = [pool.submit(execute, path) for path in sorted(missing, key=_longest_first)]
    for task in as_completed(running):
        done = task.result()
        mark = " FAILED" if done.error else ""
        print(f"    {done.path.stem}: {done.seconds:.1f} s{mark}", flush=True)
        if store and not done.error and unedited(done.path):
            value = {"outputs": _outputs(done.notebook), "seconds": done.seconds}
            store.put(known[done.path], value)
        yield done


def _longest_first(path: Path) -> tuple[bool, int]:
    """Chapters without derivations, which measure networks, then those with most code.

    They take longest, so none of them is left to run alone at the end.
    """
    code = cells(read(path))
    derives = any(TAG in tags for _, tags in code)
    return derives, -sum(len(source) for source, _ in code)


def _keys(
    paths: list[Path], pool: Executor, store: Any, package: Callable[[], str] | None
) -> dict[Path, dict[str, Any]]:
    """The key of each notebook, from the store where the package has not changed."""
    digest = package() if package else ""
    asked = {
        path: {"what": "key", "notebook": path.stem, "cells": cells(read(path)), "package": digest}
        for path in paths
    }
    kept = {path: store.get(question) for path, question in asked.items()} if package else {}
    known = {path: key for path, key in kept.items() if key is not None}
    made = {
        path: pool.submit(_key, path.stem, question["cells"])
        for path, question in asked.items()
        if path not in known
    }
    known |= {path: task.result() for path, task in made.items()}
    if made and package and package() == digest:  # or nobody knows which text they are of
        for path in made:
            store.put(asked[path], known[path])
    return known


def _key(notebook: str, code: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """The key of a notebook; runs in a process that has imported the checks."""
    from attnverify.chapters import registry
    from attnverify.verification import cache_keys

    return cache_keys.of_chapter(notebook, code, _sources(), registry)


@functools.cache
def _sources() -> Any:
    """The sources of the package as they were when this process began to make keys."""
    from attnverify.runtime.source_dependencies import Sources

    return Sources()


def _outputs(notebook: NotebookNode) -> list[dict[str, Any]]:
    """The number and the outputs that execution gave to each code cell."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [{"execution_count": c.execution_count, "outputs": c.outputs} for c in code]


def _with_outputs(path: Path, outputs: list[dict[str, Any]]) -> NotebookNode:
    """The notebook as it is now with the outputs of its (equal) code cells."""
    notebook = read(path)
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    for cell, kept in zip(code, outputs, strict=True):
        cell.update(nbformat.from_dict(kept))
    return notebook
