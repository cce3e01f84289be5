"""Execute every notebook of the book, as many at a time as there are cores, into a fresh cache.

The page builder executes notebooks one after the other. Here they are executed in parallel and
put into an empty jupyter-cache, which the builder then reads in place of executing them. The
cache lives for one build: its key ignores the package, so an older one would hide changes there.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

TIMEOUT = 600  # seconds a cell
#: Or each kernel warns that its socket, which is local, is not encrypted.
QUIET = ["--IPKernelApp.log_level=ERROR"]


def execute(path: Path) -> tuple[Path, object, float, str]:
    """Execute one notebook in its own folder: (path, notebook, seconds, traceback or "")."""
    from jupyter_cache.executors.utils import single_nb_execution
    from myst_nb.core.read import read_myst_markdown_notebook

    notebook = read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=path)
    done = single_nb_execution(
        notebook, cwd=str(path.parent), timeout=TIMEOUT, allow_errors=False, extra_arguments=QUIET
    )
    return path, notebook, done.time or 0.0, done.exc_string or ""


def fill(folder: Path, cache: Path, jobs: int | None = None) -> list[str]:
    """Execute ``folder``'s notebooks into ``cache``; the tracebacks of those that failed.

    One of them that failed is not in the cache.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    store, failed = get_cache(str(cache)), []
    paths = sorted(folder.glob("*.md"))
    with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        running = [pool.submit(execute, path) for path in paths]
        for task in as_completed(running):
            path, notebook, seconds, error = task.result()
            print(f"    {path.stem}: {seconds:.1f} s{' FAILED' if error else ''}", flush=True)
            if error:
                failed.append(f"{path.name}:\n{error}")
                continue
            bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
            store.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return failed
