"""Execute the notebooks of the book, as many at a time as there are cores, into a cache.

The page builder would execute them one after the other, in kernels that import everything anew.
Here they run in parallel in forks of one warm process, and only if something that they depend on
has changed: the outputs are kept under a key of the code cells, the versions and the machine
(:mod:`attnverify.verification.cache_keys`) with the files that the kernel has read
(:mod:`attnverify.runtime.kept`), of which its last cell tells. All outputs go into a jupyter-cache,
which the builder then reads in place of executing. That cache lives for one build: its own key
ignores the package, so an older one would hide changes there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attnverify.book.build.forked_kernels import CAN_FORK, ForkingKernelManager, context
from attnverify.checking.live_table import BUILDING
from attnverify.derivation.notebook_sources import TAG
from attnverify.runtime.cache import Store, digest
from attnverify.runtime.kept import Kept
from attnverify.runtime.workers import end_with_parent
from attnverify.support.files import write_text
from attnverify.verification import cache_keys

TIMEOUT = 600  # seconds a cell
#: Or each kernel warns that its socket, which is local, is not encrypted.
QUIET = ["--IPKernelApp.log_level=ERROR"]

#: Beside the cache: digest of every notebook's outputs; a page is read again when its own changes.
OUTPUTS = "outputs.json"
#: Beside the cache: the files that all that is in it follows from, and the digest of these and of
#: the keys. It is whole if this is there.
WHOLE = "whole.json"
#: The last cell of a notebook, which is taken off again.
READ = "import json\nfrom attnverify.runtime import recording\nprint(json.dumps(recording.files()))"


@dataclass(frozen=True)
class Executed:
    """A notebook with outputs; seconds as first measured; error: a traceback, or "" if none.

    files: those that the kernel read, by their names; none if that is not known.
    """

    path: Path
    notebook: NotebookNode
    seconds: float
    error: str
    files: list[str]


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
    notebook.cells.append(nbformat.v4.new_code_cell(READ))
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
    last, error = notebook.cells.pop(), done.exc_string or ""
    # What a child of the kernel prints when it ends can come into this cell, too, behind the list.
    printed = "".join(output.text for output in last.outputs if output.get("name") == "stdout")
    files = [] if error or not CAN_FORK else json.loads(printed.partition("\n")[0])
    # What the kernel says of its language is not kept either: pages are equal, executed or reused.
    notebook.metadata.pop("language_info", None)
    return Executed(path, notebook, done.time or 0.0, error, files)


def fill(
    folder: Path,
    cache: Path,
    jobs: int | None = None,
    store: Store | None = None,
) -> list[str]:
    """Execute the notebooks of ``folder`` into ``cache`` and return the tracebacks of failed ones.

    store: for what need not be executed again. One that failed is in neither. A cache that has
    these outputs already stays; another one is emptied. What an edit overtakes is not kept.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    kept, asked = Kept(store) if store else None, {}
    for path in sorted(folder.glob("*.md")):
        notebook = read(path)
        asked[path] = [_key(path, notebook), notebook.metadata]
    if kept and _whole(cache, list(asked.values()), kept):
        print("    all are unchanged", flush=True)
        return []
    shutil.rmtree(cache, ignore_errors=True)
    bundles, failed, digests, files = get_cache(str(cache)), [], {}, set[str]()
    for done in _all(asked, kept, jobs):
        if done.error:
            failed.append(f"{done.path.name}:\n{done.error}")
            continue
        asked[done.path] = [_key(done.path, done.notebook), done.notebook.metadata]
        files.update(done.files)
        digests[done.path.stem] = digest(_outputs(done.notebook))
        data = {"execution_seconds": done.seconds}
        bundle = CacheBundleIn(done.notebook, str(done.path), data=data)
        bundles.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    write_text(cache / OUTPUTS, json.dumps(digests))
    if kept and not failed and all(map(kept.unwritten, files)):
        names, known = sorted(files), list(asked.values())
        whole = {"files": names, "digest": digest([known, kept.digest(names)])}
        write_text(cache / WHOLE, json.dumps(whole))
    return failed


def _key(path: Path, notebook: NotebookNode) -> dict[str, Any]:
    """The key of the outputs of a notebook."""
    from attnverify.chapters import registry

    return cache_keys.of_chapter(path.stem, cells(notebook), registry)


def _whole(cache: Path, known: list[Any], kept: Kept) -> bool:
    """Whether a cache has the outputs of notebooks with these keys, as the files are."""
    path = cache / WHOLE
    if not path.is_file():
        return False
    whole = json.loads(path.read_text(encoding="utf-8"))
    return whole["digest"] == digest([known, kept.digest(whole["files"])])


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


def _all(asked: Mapping[Path, Any], kept: Kept | None, jobs: int | None) -> Iterator[Executed]:
    """Yield every notebook, from the store by its key or executed and then stored.

    The key is that of the text that was executed: it may have been edited since it was asked for.
    """
    missing = []
    for path, (key, _) in asked.items():
        value = kept.get(key) if kept else None
        if value is None:
            missing.append(path)
        else:
            notebook = _with_outputs(path, value["outputs"])
            yield Executed(path, notebook, value["seconds"], "", value["files"])
    print(f"    {len(asked) - len(missing)} of {len(asked)} are unchanged", flush=True)
    for done in _executed(missing, jobs) if missing else ():
        if kept and done.files and not done.error:
            value = {"outputs": _outputs(done.notebook), "seconds": done.seconds}
            key = _key(done.path, done.notebook)
            kept.put(key, done.files, value | {"files": done.files})
        yield done


def _executed(paths: list[Path], jobs: int | None) -> Iterator[Executed]:
    """Execute notebooks, as many at a time as there are jobs."""
    with ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=context(), initializer=start_executing
    ) as pool:
        running = [pool.submit(execute, path) for path in sorted(paths, key=_longest_first)]
        for task in as_completed(running):
            done = task.result()
            mark = " FAILED" if done.error else ""
            print(f"    {done.path.stem}: {done.seconds:.1f} s{mark}", flush=True)
            yield done


def _longest_first(path: Path) -> tuple[bool, int]:
    """Chapters without derivations, which measure networks, then those with most code.

    They take longest, so none of them is left to run alone at the end.
    """
    code = cells(read(path))
    derives = any(TAG in tags for _, tags in code)
    return derives, -sum(len(source) for source, _ in code)


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
