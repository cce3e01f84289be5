"""Sources of derivations: shipped with the package, beside its source, or in a given folder.

Derivations are executed, so they are never taken from the current folder by default. A wheel
carries the notebooks and their digests (setup.py); a checkout has them beside ``src``; another
folder has to be named, by ``attnverify verify --notebooks`` or by the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from attnverify.derivation.myst import code_cells
from attnverify.support.errors import InputError

TAG = "derivation"
NOTEBOOKS = "ATTNVERIFY_NOTEBOOKS"  # environment variable: folder of the notebooks
PACKAGE = Path(__file__).resolve().parents[1]
DIGESTS = "digests.json"  # file name -> SHA-256 in the order of the book, written by setup.py
TOC = "_toc.yml"


@dataclass(frozen=True)
class Source:
    """The derivations of one notebook: its tagged cells in order, and where they came from.

    origin: in words; sha256: of the whole notebook, "" if none was found.
    """

    notebook: str
    cells: tuple[str, ...]
    origin: str
    sha256: str

    @property
    def found(self) -> bool:
        return bool(self.sha256)


@dataclass(frozen=True)
class Place:
    """Folder of notebooks with a name for messages and the digests of its files, if known."""

    folder: Path
    origin: str
    digests: dict[str, str] | None = None


def place(asked: Path | None = None) -> Place | None:
    """Folder of notebooks to use; raises InputError if ``asked`` is no folder."""
    named = os.environ.get(NOTEBOOKS)
    for name, value in (("notebooks", asked), (NOTEBOOKS, named)):
        if value:
            if not Path(value).is_dir():
                raise InputError(f"{name}: got {value}, expected a folder of notebooks")
            return Place(Path(value), f"the folder asked for by {name}: {value}")
    shipped = PACKAGE / "notebooks"
    if (shipped / DIGESTS).is_file():
        return Place(shipped, "shipped with the installed package", _digests(shipped / DIGESTS))
    if checkout := _checkout():
        return Place(checkout / "notebooks", "the notebooks beside the package's source")
    return None


def _checkout() -> Path | None:
    """The folder of the source that this package runs from, if it is not installed."""
    found = PACKAGE.parents[1]
    return found if PACKAGE.parent.name == "src" and (found / TOC).is_file() else None


def chapters() -> Iterator[tuple[str, str]]:
    """The book's own notebooks in its order, each a stem with its text.

    A wheel, or a zip of this package, has them beside their digests, in this order; a checkout
    has the table of contents. No other folder is asked: the claims are those of the package.
    """
    shipped = files("attnverify").joinpath("notebooks")
    listing = shipped.joinpath(DIGESTS)
    if listing.is_file():
        for name, digest in _digests(listing).items():
            content = shipped.joinpath(name).read_bytes()
            _require_shipped(name, hashlib.sha256(content).hexdigest(), digest)
            yield Path(name).stem, content.decode("utf-8")
    elif checkout := _checkout():
        for name in in_order((checkout / TOC).read_text(encoding="utf-8")):
            yield name, (checkout / "notebooks" / f"{name}.md").read_text(encoding="utf-8")
    else:
        raise InputError(f"notebooks: got none beside the package, expected {REINSTALL}")


def is_chapter(path: Path) -> bool:
    """Whether a file is one of the notebooks that :func:`chapters` reads in a checkout."""
    checkout, found = _checkout(), path.resolve()
    own = checkout is not None and found.parent == checkout / "notebooks"
    return own and found.suffix == ".md" and found.is_file()


def in_order(toc: str) -> list[str]:
    """The stems of the notebooks that a table of contents of Jupyter Book names."""
    return re.findall(r"^ *- file: notebooks/(\S+)$", toc, re.M)


def _digests(path: Traversable) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"notebooks: got a broken {DIGESTS}, expected {REINSTALL}") from error


REINSTALL = "the files of the release: install the package again"


def load(name: str, asked: Path | None = None) -> Source:
    """Read the derivations of one notebook (a stem such as "softmax"); nothing is executed.

    Raises InputError if a shipped notebook is not the one that its digest names.
    """
    where = place(asked)
    path = where.folder / f"{name}.md" if where else None
    if where is None or path is None or not path.is_file():
        reason = f"{where.origin}: no {name}.md" if where else f"set {NOTEBOOKS} to a folder"
        return Source(name, (), f"no derivations found ({reason})", "")
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    if where.digests is not None:
        _require_shipped(path.name, sha256, where.digests.get(path.name))
    return Source(name, _derivations(content, path.name), where.origin, sha256)


def _require_shipped(name: str, sha256: str, digest: str | None) -> None:
    if sha256 != digest:
        raise InputError(
            f"notebooks: got {name} with SHA-256 {sha256}, which is not the one shipped "
            f"({digest}), expected {REINSTALL}"
        )


def _derivations(content: bytes, name: str) -> tuple[str, ...]:
    try:
        cells = code_cells(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"notebooks: got {name}, which is no UTF-8, expected text") from error
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return tuple(cell.source for cell in cells if TAG in cell.tags)
