"""Many texts: read and checked before the first is looked at, then a piece each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnverify.inspection import over_texts, report
from attnverify.inspection.forward import Subject
from attnverify.inspection.load import Folder, text_of
from attnverify.runtime.campaign import Campaign
from attnverify.runtime.workers import Task
from attnverify.support.errors import require
from attnverify.support.threads import one_thread

LARGEST = 64 << 20  # bytes of all texts of a folder, or of a file
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
    total = sum(file.stat().st_size for file in files)
    require(total <= LARGEST, "texts", f"{total:,} bytes in {folder}", f"at most {LARGEST:,}")
    odd = [file.name for file in files if not file.name.isprintable()]
    require(not odd, "texts", f"the file name {odd[:1]}", "a name that can be printed")
    return [(file.name, text_of(file, "texts", LARGEST)) for file in files]


def _lines(file: Path) -> list[tuple[str, str]]:
    require(file.is_file(), "texts", f"{file}, which is not there", EXPECTED)
    odd = f"the file name {file.name!r}"
    require(file.name.isprintable(), "texts", odd, "a name that can be printed")
    lines = enumerate(text_of(file, "texts", LARGEST).splitlines(), 1)
    found = [(f"{file.name}:{number}", line) for number, line in lines if line.strip()]
    require(bool(found), "texts", f"{file}, which is empty", EXPECTED)
    return found


def campaign(look: Look, texts: dict[str, str]) -> Campaign:
    """A piece a text; raises InputError that names the first text which the model cannot read."""
    folder = Folder.of(look.model)
    own, encoded = folder.digest(), folder.encode_all(texts)
    settings: dict[str, Any] = {
        "model": own,
        "dtype": look.dtype,
        "device": look.device,
        "layers": look.layers,
        "brief": look.brief,
        "texts": {name: sha256(text) for name, text in texts.items()},
    }
    tasks = [Task(n, piece, (look, own, *e)) for n, e in zip(texts, encoded, strict=True)]

    def as_planned(number: int, found: Any) -> bool:
        return possible(found, encoded[number][1])

    return Campaign("inspect texts", settings, tasks, as_planned)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def piece(look: Look, own: str, ids: list[int], words: list[str]) -> dict[str, Any]:
    """The report on one text as JSON; one thread, so that its figures are the same everywhere."""
    subject = _loaded(look, own)
    with one_thread():
        return report.on(subject, ids, words, look.layers, look.brief).as_json()


def possible(found: Any, words: list[str]) -> bool:
    """Whether a report can be that on a text of these tokens: whole, proved, of finite numbers."""
    parts = {field.name: found[field.name] for field in fields(report.Report)}
    made = report.Report(**{**parts, "notes": tuple(parts["notes"])})
    same = json.loads(json.dumps(made.as_json(), allow_nan=False)) == found
    inputs = found["inputs"]
    same = same and (inputs["texts"], inputs["tokens"], inputs["words"]) == (1, len(words), words)
    numbers = over_texts.taken(found)
    places = [place for place, _ in numbers]
    plain = all(type(value) in (int, float) for _, value in numbers)
    return same and plain and len(set(places)) == len(places) and 0 <= numbers[0][1] <= 1


@lru_cache(maxsize=1)
def _loaded(look: Look, own: str) -> Subject:
    """The model that the campaign is about, read once a process."""
    folder = Folder.of(look.model)
    same = folder.digest() == own
    require(same, "model", f"other files in {look.model}", "those that the run began with")
    dtype = report.DTYPES[look.dtype]
    subject = Subject.of(folder.model(dtype), dtype, look.device)
    return replace(subject, notes=subject.notes + folder.notes(dtype))
