"""Many texts: read and checked before the first is looked at, then a piece each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from attnverify.campaign import Campaign
from attnverify.errors import InputError, require
from attnverify.evidence.workers import Task
from attnverify.models import library, report
from attnverify.models.families import architecture_of
from attnverify.models.forward import Subject
from attnverify.models.load import Folder
from attnverify.threads import one_thread

EXPECTED = "a folder of .txt files, or a file with one text a line"


@dataclass(frozen=True)
class Look:
    """How every text is looked at: the model's folder, and the options of ``av.inspect``."""

    model: Path
    dtype: str = "float64"
    device: str = "cpu"
    layers: tuple[int, ...] | None = None
    brief: bool = False


def read(paths: Sequence[Path]) -> dict[str, str]:
    """Texts by name, in order: "a.txt" of a folder, "lines.txt:3" for a line that is not blank.

    Raises InputError (argument ``texts``) for what is no text and for equal names.
    """
    found: dict[str, str] = {}
    for path in paths:
        for name, text in (_files if path.is_dir() else _lines)(path):
            require(name not in found, "texts", f"two texts {name}", "texts of different names")
            found[name] = text
    return found


def _files(folder: Path) -> list[tuple[str, str]]:
    files = sorted(file for file in folder.glob("*.txt") if file.is_file())
    require(bool(files), "texts", f"{folder}, which holds no .txt file", EXPECTED)
    return [(file.name, content(file, "texts")) for file in files]


def _lines(file: Path) -> list[tuple[str, str]]:
    require(file.is_file(), "texts", f"{file}, which is not there", EXPECTED)
    lines = enumerate(content(file, "texts").splitlines(), 1)
    found = [(f"{file.name}:{number}", line) for number, line in lines if line.strip()]
    require(bool(found), "texts", f"{file}, which is empty", EXPECTED)
    return found


def content(file: Path, argument: str) -> str:
    """A text file's text; raises InputError for one that is no text."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        given = f"{file}, which is no text ({error})"
        raise InputError(f"{argument}: got {given}, expected UTF-8") from error


def campaign(look: Look, texts: dict[str, str]) -> Campaign:
    """A piece a text; raises InputError that names the first text which the model cannot read."""
    folder, own = Folder.of(look.model), digest(look.model)
    most = _positions(folder)
    for name, text in texts.items():
        _require_readable(folder, name, text, most)
    settings: dict[str, Any] = {
        "model": own,
        "dtype": look.dtype,
        "device": look.device,
        "layers": look.layers,
        "brief": look.brief,
        "texts": {name: sha256(text) for name, text in texts.items()},
    }
    tasks = [Task(name, piece, (look, own, text)) for name, text in texts.items()]
    return Campaign("inspect texts", settings, tasks)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest(folder: Path) -> str:
    """SHA-256 of the names and contents of a model's files."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            with file.open("rb") as stream:
                own = hashlib.file_digest(stream, "sha256").hexdigest()
            total.update(f"{file.name} {own}\n".encode())
    return total.hexdigest()


def _positions(folder: Folder) -> int | None:
    """The largest number of tokens, from the configuration: no weight is read."""
    transformers = library.transformers()
    config = transformers.AutoConfig.from_pretrained(str(folder.path), local_files_only=True)
    with torch.device("meta"):
        return architecture_of(transformers.AutoModel.from_config(config)).positions


def _require_readable(folder: Folder, name: str, text: str, most: int | None) -> None:
    try:
        ids, _ = folder.encode(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    given = f"{len(ids)} tokens in {name}"
    require(most is None or len(ids) <= most, "texts", given, f"at most {most}, as the model takes")


def piece(look: Look, own: str, text: str) -> dict[str, Any]:
    """The report on one text as JSON; one thread, so that its figures are the same everywhere."""
    folder, subject = _loaded(look, own)
    ids, words = folder.encode(text)
    with one_thread():
        return report.on(subject, ids, words, look.layers, look.brief).as_json()


@lru_cache(maxsize=1)
def _loaded(look: Look, own: str) -> tuple[Folder, Subject]:
    """The model that the campaign is about, read once a process."""
    folder = Folder.of(look.model)
    same = digest(look.model) == own
    require(same, "model", f"other files in {look.model}", "those that the run began with")
    dtype = report.DTYPES[look.dtype]
    subject = Subject.of(folder.model(dtype), dtype, look.device)
    return folder, replace(subject, notes=subject.notes + folder.notes(dtype))
