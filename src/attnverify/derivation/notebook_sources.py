"""Sources of derivations: shipped with the package, beside its source, or in a given folder.

Derivations are executed, so they are never taken from the current folder by default. A wheel
carries the notebooks and their digests (setup.py); a checkout has them beside ``src``; another
folder has to be named, by ``attnverify verify --notebooks`` or by the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from attnverify.derivation.myst import code_cells
from attnverify.support.errors import InputError

TAG = "derivation"
NOTEBOOKS = "ATTNVERIFY_NOTEBOOKS"  # environment variable: folder of the notebooks
PACKAGE = Path(__file__).resolve().parents[1]
DIGESTS = "digests.json"  # file name -> SHA-256, written into a wheel by setup.py


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
    shipped, checkout = PACKAGE / "notebooks", PACKAGE.parents[1]
    if (shipped / DIGESTS).is_file():
        return Place(shipped, "shipped with the installed package", _digests(shipped / DIGESTS))
    if PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        return Place(checkout / "notebooks", "the notebooks beside the package's source")
    return None


def _digests(path: Path) -> dict[str, str]:
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
    if where.digests is not None and where.digests.get(path.name) != sha256:
        raise InputError(
            f"notebooks: got {path.name} with SHA-256 {sha256}, which is not the one shipped "
            f"({where.digests.get(path.name)}), expected {REINSTALL}"
        )
    return Source(name, _derivations(content, path.name), where.origin, sha256)


def _derivations(content: bytes, name: str) -> tuple[str, ...]:
    try:
        cells = code_cells(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"notebooks: got {name}, which is no UTF-8, expected text") from error
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return tuple(cell.source for cell in cells if TAG in cell.tags)
