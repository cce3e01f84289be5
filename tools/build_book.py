"""Build the book: evidence, generated pages, strict HTML, swap. `make book` calls this.

What was made before is reused while all that it depends on is unchanged: evidence and executed
notebooks from the store (:mod:`attnverify.runtime.cache`), parsed and written pages from the last
good build. `--fresh`, the default where CI is set, reuses nothing.

The new book is built in a folder of its own and takes the place of `_build/html` by a
rename only when every stage succeeded, and its evidence that of `_build/evidence.json`, so a
failed build leaves the previous one as it was. With BOOK_REPOSITORY_URL set (the publishing
workflow fills in the hosting repository's own address) the pages get launch buttons; without it
they have their downloads only. BOOK_ADDRESS says where the book will be published, for canonical
links.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import filelock
import yaml

from attnverify.book.build import npm, page_python
from attnverify.book.build.execute_notebooks import cells, fill, read
from attnverify.book.build.one_page import ONE_FILE
from attnverify.book.build.run_main import leave
from attnverify.book.html.finish_pages import finish
from attnverify.book.pages import papers, practice
from attnverify.book.pages.common import read_evidence
from attnverify.derivation.notebook_sources import NOTEBOOKS
from attnverify.runtime.cache import VARIABLE as STORE
from attnverify.runtime.cache import Store, default
from attnverify.support.environment import installed, kind_of_machine
from attnverify.support.files import write_text
from attnverify.support.vocabulary import counted, tally

ROOT = Path(__file__).resolve().parents[1]
#: What a built page depends on; book/generated follows from these. The license is beside the
#: pages' Python.
INPUTS = (
    "_config.yml",
    "_toc.yml",
    "LICENSE",
    "constraints.txt",
    "book",
    "formal",
    "notebooks",
    "src",
    "tools",
)
#: What the evidence and the generated pages depend on, beside each other and the notebooks.
CLAIMS = ("src", "formal", "constraints.txt")
#: What the parsed pages depend on beside documents, outputs, claims and evidence.
MACHINERY = ("_config.yml", "_toc.yml", "constraints.txt", "book/references.bib", "book/_static")
PARTS = ("book", "chapters", "verification", "checking", "support")
MACHINERY += ("tools", *(f"src/attnverify/{part}" for part in PARTS))
#: The ledger without the record of what was read, which the evidence tells.
LEDGER = sorted((ROOT / "src" / "attnverify" / "derivation").glob("*.py"))
MACHINERY += tuple(path.relative_to(ROOT).as_posix() for path in LEDGER)
SKIPPED = {"__pycache__", "generated", ".ipynb_checkpoints", ".jupyter_cache"}
STAMP = ".book-stamp"
EVIDENCE = "evidence.json"
LOCK = ".build.lock"
#: Where the pages look for Python, below the folder of pages.
PYTHON = Path("_static", "python")
URL_VARIABLE = "BOOK_REPOSITORY_URL"
REF_VARIABLE = "BOOK_REPOSITORY_REF"
ADDRESS_VARIABLE = "BOOK_ADDRESS"
SETTINGS = (URL_VARIABLE, REF_VARIABLE, ADDRESS_VARIABLE)


class StageError(Exception):
    """A stage of the build failed; the message says which and how."""


def input_files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Every file that a built page depends on, in a fixed order."""
    for name in names:
        top = root / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            parts = path.relative_to(root).parts
            hidden = SKIPPED.intersection(parts) or any(p.endswith(".egg-info") for p in parts)
            if path.is_file() and not hidden:
                yield path


def source_hash(root: Path, names: tuple[str, ...] = INPUTS) -> str:
    """One hash of all inputs, installed versions and settings: equal means up to date.

    Pages that had to do without Python are out of date as soon as what npm has of it is there.
    """
    settings = {name: os.environ.get(name, "") for name in SETTINGS}
    settings["python"] = str(page_python.available())
    settings["notebooks"] = named_notebooks()
    parts = [settings, installed("book", "encoder", "models"), kind_of_machine()]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for path in input_files(root, names):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def named_notebooks() -> str:
    """Digest of the notebooks that the environment names in place of the checkout's; "" if none."""
    if not (named := os.environ.get(NOTEBOOKS)):
        return ""
    paths = sorted((ROOT / named).glob("*.md"))
    found = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def last_written(root: Path) -> int:
    """When an input was last written, in nanoseconds: it also tells an edit that was undone."""
    return max((path.stat().st_mtime_ns for path in input_files(root, INPUTS)), default=0)


def stamp_of(sources: str, evidence: Path) -> str:
    """What the stamp of a book says: the digests of its sources and of its evidence."""
    return f"{sources} {hashlib.sha256(evidence.read_bytes()).hexdigest()}"


def is_current(root: Path) -> bool:
    """True if `_build/html` was built from the sources as they are now, with the evidence there."""
    stamp, evidence = root / "_build" / "html" / STAMP, root / "_build" / EVIDENCE
    built = stamp.is_file() and evidence.is_file()
    return built and stamp.read_text() == stamp_of(source_hash(root), evidence)


def run_python(*arguments: str | Path, repeat: str = "") -> None:
    """Run this interpreter in the root with its output shown; StageError if it fails.

    The error then ends with the lines of the error stream that hold ``repeat``, so that the
    cause need not be looked for in a long log.
    """
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONUNBUFFERED": "1"}
    if not sys.stdout.isatty():
        environment["NO_COLOR"] = "1"
    command = [sys.executable, *(str(a) for a in arguments)]
    repeated = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        errors="replace",
        stderr=subprocess.PIPE if repeat else None,
    ) as process:
        for line in process.stderr or ():
            sys.stderr.write(line)
            if repeat in line:
                repeated.append(line)
    if process.returncode:
        cause = f"exit code {process.returncode} from: python {' '.join(command[1:])}"
        raise StageError("\n".join([cause, *map(str.strip, repeated)]))


def run_main(module: str, *arguments: str | Path, repeat: str = "") -> None:
    """Run module.main(); the console scripts are not used, as they may not be on the path."""
    run_python("-P", "-m", "attnverify.book.build.run_main", module, *arguments, repeat=repeat)


def kept(
    store: Store | None, what: str, depends: Callable[[], str], make: Callable[[], str]
) -> str:
    """A text from the store, or made where the digest that ``depends`` gives has changed.

    Not kept after an edit on the way: nobody knows which sources it is of.
    """
    written, digest = last_written(ROOT), depends()
    key = {"what": what, "depends": digest}
    text = store.get(key) if store else None
    if text is None:
        text = make()
        if store and (last_written(ROOT), depends()) == (written, digest):
            store.put(key, text)
    return text


def verify(evidence: Path, store: Store | None) -> None:
    """Check every claim in the quick setting and write the evidence file."""
    evidence.parent.mkdir(parents=True, exist_ok=True)

    def run() -> str:
        run_main("attnverify.cli", "verify", "--json", evidence)
        return evidence.read_text(encoding="utf-8")

    def depends() -> str:
        return source_hash(ROOT, CLAIMS) + derivations()

    write_text(evidence, kept(store, "evidence", depends, run))


def derivations() -> str:
    """Digest of the code cells of all notebooks."""
    paths = sorted((ROOT / "notebooks").glob("*.md"))
    code = [(path.name, cells(read(path))) for path in paths]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def generate_pages(evidence: Path, store: Store | None) -> None:
    """Write the generated pages from the evidence."""
    folder = ROOT / "book" / "generated"

    def run() -> str:
        run_main("attnverify.book.pages.__main__", "--evidence", evidence, "--out", folder)
        return json.dumps({p.name: p.read_text("utf-8") for p in sorted(folder.glob("*.*"))})

    shown = json.dumps(asdict(read_evidence(evidence)), sort_keys=True) + practice.text(ROOT)
    shown += f"{papers.chapters(ROOT)}{papers.papers(ROOT)}"

    def depends() -> str:
        return source_hash(ROOT, CLAIMS) + hashlib.sha256(shown.encode()).hexdigest()

    pages = json.loads(kept(store, "generated pages", depends, run))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")


def execute_notebooks(cache: Path, store: Store | None) -> None:
    """Fill the cache with the outputs of all notebooks; StageError names those that failed."""
    failed = fill(ROOT / "notebooks", cache, store=store)
    if failed:
        raise StageError("notebooks failed: " + "\n".join(failed))


@contextlib.contextmanager
def parsed_pages(folder: Path, fresh: bool) -> Iterator[None]:
    """Keep the parsed and written pages of the last good build, or start without any.

    The mark is taken away while a build is under way: one that failed or was interrupted may have
    read pages whose warnings would not come again. It does not come back if what reads pages was
    edited on the way.
    """
    mark = folder / "complete"
    depends = machinery()
    if fresh or not mark.is_file() or mark.read_text() != depends:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if machinery() == depends:
        mark.write_text(depends)


def machinery() -> str:
    """Digest of what reads and writes pages."""
    return source_hash(ROOT, MACHINERY)


def address(variable: str) -> str:
    """The address that a variable of the environment names, without a slash at its end; or ""."""
    url = os.environ.get(variable, "").strip().rstrip("/")
    if url and not url.startswith("https://"):
        raise StageError(f"{variable}: expected an https:// address, got {url!r}")
    return url


def build_config(folder: Path, cache: Path, evidence: Path | None = None) -> Path:
    """`_config.yml` with this build's cache and evidence (by default that of the last good build),
    and with what the addresses that are set bring."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["execute"] |= {"execute_notebooks": "cache", "cache": str(cache)}
    if published := address(ADDRESS_VARIABLE):
        config["html"]["baseurl"] = f"{published}/"
        options = config["sphinx"]["config"]
        pdf = f"The whole book in one file: [PDF]({published}/{ONE_FILE}.pdf)."
        options["myst_substitutions"] = {"one_file": pdf}  # the workflow puts it beside the pages
    if url := address(URL_VARIABLE):
        config["repository"] = {
            "url": url,
            "branch": os.environ.get(REF_VARIABLE) or "main",
            "path_to_book": "",
        }
        config["launch_buttons"] = {
            "colab_url": "https://colab.research.google.com",
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        }
    config["sphinx"]["config"]["attnverify_python"] = page_python.available()
    if evidence:
        config["sphinx"]["config"]["attnverify_evidence"] = str(evidence)
    target = folder / "_config.yml"
    target.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return target


def fetch_python() -> None:
    """Fetch Python for the pages; where npm cannot be reached, the pages go without, and say so."""
    if not page_python.wanted():
        print(f"    no page runs derivations: {page_python.WITHOUT} is set", flush=True)
        return
    try:
        page_python.fetch()
    except npm.NotFetchedError as error:
        print(f"    warning: no page runs derivations: {error}", flush=True)
    except RuntimeError as error:
        raise StageError(f"Python for the pages: {error}") from error


def compile_python() -> None:
    """Byte code of the pages' Python, kept for every later build."""
    if page_python.available():
        try:
            page_python.compiled(page_python.sources())
        except page_python.PythonError as error:
            raise StageError(f"Python for the pages: {error}") from error


def add_python(html: Path) -> None:
    """Put Python beside the pages, if it is at hand."""
    if page_python.available():
        page_python.prepare(html / PYTHON)


def build_html(
    staging: Path, cache: Path, evidence: Path | None = None, strict: bool = True
) -> Path:
    """Build below staging and return the folder of pages; every warning is an error if strict.

    Pages that are there and would come out again are not written again.
    """
    run_main(
        "jupyter_book.cli.main",
        "build",
        ROOT,
        "--path-output",
        staging,
        "--config",
        build_config(staging, cache, evidence),
        *(("-n", "-W", "--keep-going") if strict else ()),
        repeat="WARNING",
    )
    html = staging / "_build" / "html"
    written = [*html.rglob("*.html"), *html.glob("_static/steps/**/*.js")]
    errors = [p.name for p in written if "katex-error" in p.read_text("utf-8")]
    if errors:
        raise StageError(f"math errors (katex-error) in {', '.join(sorted(errors))}")
    return html


def swap(new: Path, current: Path) -> None:
    """Put the new folder in the place of the current one; both are on one file system."""
    old = current.with_name(current.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        current.rename(old)
    try:
        new.rename(current)
    except OSError:
        if old.exists():
            old.rename(current)
        raise
    shutil.rmtree(old, ignore_errors=True)


def verdict(evidence: Path) -> str:
    """The closing line: how many claims have which status."""
    claims = json.loads(evidence.read_text(encoding="utf-8"))["claims"]
    return f"{counted(len(claims), 'claim')}: {tally(claim['status'] for claim in claims)}"


def timed(name: str, stage, *arguments):
    """Run one stage, announce it, and print how long it took."""
    print(f"==> {name}\n", end="", flush=True)  # in one piece: two stages may speak at a time
    start = time.perf_counter()
    result = stage(*arguments)
    print(f"    {name}: {time.perf_counter() - start:.1f} s", flush=True)
    return result


def check_claims(evidence: Path, store: Store | None) -> None:
    """The evidence and the pages that are generated from it."""
    timed("verify the claims", verify, evidence, store)
    timed("write the generated pages", generate_pages, evidence, store)


def build(fresh: bool = False) -> Path:
    """Run all stages and return the page to open."""
    if fresh:
        os.environ[STORE] = "none"  # for every process that is started from here, too
    output, pages = ROOT / "_build", ROOT / "_build" / "pages"
    fetch_python()  # before all that takes minutes
    written, sources, store = last_written(ROOT), source_hash(ROOT), default()
    evidence = pages / EVIDENCE
    with parsed_pages(pages, fresh):
        with ThreadPoolExecutor(1) as beside:
            # Neither needs the other, and each has stretches that keep one core busy.
            checked = beside.submit(check_claims, evidence, store)
            timed("execute the notebooks", execute_notebooks, pages / "executed", store)
            checked.result()
            # Pages are built by one process; the other core compiles what they load.
            python = beside.submit(timed, "compile Python for the pages", compile_python)
            made = timed("build the pages", build_html, pages, pages / "executed", evidence)
            shutil.rmtree(html := pages / "trimmed", ignore_errors=True)
            shutil.copytree(made, html)
            timed("finish the pages", finish, html)
            python.result()
        timed("add Python for the pages", add_python, html)
        if (last_written(ROOT), source_hash(ROOT)) == (written, sources):
            (html / STAMP).write_text(stamp_of(sources, evidence))
        swap(html, output / "html")
        evidence.replace(output / EVIDENCE)
    if store:
        store.prune()
    return output / "html" / "index.html"


@contextlib.contextmanager
def alone(output: Path) -> Iterator[None]:
    """Wait until no other build writes below ``output``, and keep others waiting."""
    output.mkdir(exist_ok=True)
    lock = filelock.FileLock(output / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        print("==> another build is under way here: waiting for it", flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--fresh",
        action=argparse.BooleanOptionalAction,
        default=os.environ.get("CI", "").lower() in {"1", "true"},
        help="make everything again (default: where CI is set)",
    )
    parser.add_argument(
        "--if-changed",
        action="store_true",
        help="do nothing if the book is up to date with its sources, whatever --fresh says",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Command line: exit code 0 if the new book is in place, 1 if the previous one was kept."""
    options = options_of(arguments)
    start = time.perf_counter()
    page = ROOT / "_build" / "html" / "index.html"
    try:
        with alone(ROOT / "_build"):
            current = (options.if_changed or not options.fresh) and is_current(ROOT)
            page = page if current else build(options.fresh)
    except StageError as error:
        print(
            f"The book was not built; the previous one, if any, was kept. {error}", file=sys.stderr
        )
        return 1
    done = "Up to date" if current else f"Built in {time.perf_counter() - start:.1f} s"
    print(f"{done}. Open {page.as_uri()}")
    print(verdict(ROOT / "_build" / EVIDENCE))
    return 0


if __name__ == "__main__":
    leave(main())
