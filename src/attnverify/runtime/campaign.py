"""Long runs in pieces, each kept as soon as it is done: a run that was ended goes on where it was.

The folder of a campaign holds ``campaign.json``, which says what it is, and a file a piece. All
files are written by the process that started the run, whole or not at all; a file that is damaged
or of another campaign is as good as none. What is made of the pieces reads them in their order, so
it is the same wherever and in whatever order they were computed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnverify.runtime import run_folder
from attnverify.runtime.cache import digest, opened, sealed
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import run_all
from attnverify.support import environment
from attnverify.support.errors import InputError, RunError, require
from attnverify.support.files import LARGEST, read_json, write_text

FORMAT, PIECE = "attnverify campaign 1", "attnverify piece 1"
NAME = "campaign.json"
MOST = 100_000  # pieces, a file each
MISSING = object()  # what stands under a key that is not there; None is a value of JSON

Finished = Callable[[str, Any], None]


@dataclass(frozen=True)
class Campaign:
    """What is to be done, in pieces whose results are JSON.

    what: kind of campaign; settings: JSON, all that the results follow from besides versions, code
    and machine; tasks: the pieces, of different names, whose results are not null.
    """

    what: str
    settings: Mapping[str, Any]
    tasks: Sequence[Task]

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        require(0 < len(names) <= MOST, "pieces", len(names), f"1 to {MOST:,}")
        name, times = Counter(names).most_common(1)[0]
        require(times == 1, "pieces", f"{name} {times} times", "pieces of different names")

    def identity(self) -> dict[str, Any]:
        """What must be equal for two runs to be one campaign."""
        return {
            "format": FORMAT,
            "what": self.what,
            "settings": dict(self.settings),
            "environment": environment.identity(),
            "pieces": [task.name for task in self.tasks],
        }


@contextmanager
def ran(
    campaign: Campaign,
    folder: Path,
    *,
    jobs: int | None = None,
    finished: Finished = lambda name, result: None,
) -> Iterator[Iterator[Any]]:
    """Do the pieces that the folder lacks; the block gets all results, in the pieces' order.

    jobs: as in :func:`attnverify.runtime.workers.run_all`; finished: called with the
    name and the result of every piece, those found first. No other run has the folder until the
    block ends. Raises InputError for a folder in use or of another campaign, RunError if a piece
    dies; the pieces that were finished are kept then.
    """
    pieces = _Pieces(campaign, folder)
    with run_folder.own(folder):
        pieces.require_same()
        for task, found in zip(campaign.tasks, pieces.all(), strict=True):
            if found is not None:
                finished(task.name, found)
        with closing(run_all(pieces.missing(), jobs)) as results:
            for index, result in results:
                pieces.put(index, result)
                finished(campaign.tasks[index].name, result)
        yield pieces.results()


class _Pieces:
    """The files of a campaign in its folder."""

    def __init__(self, campaign: Campaign, folder: Path) -> None:
        self.folder, self.tasks = folder, campaign.tasks
        self.identity = json.loads(json.dumps(campaign.identity()))
        self.digest = digest(self.identity)

    def require_same(self) -> None:
        """The folder is this campaign's, or becomes it."""
        path = self.folder / NAME
        if not path.exists():
            write_text(path, json.dumps(self.identity, indent=1, ensure_ascii=False) + "\n")
        with read_json(path, "out", "record of a campaign") as there:
            where, theirs, ours = _difference(dict(there), self.identity)
        given = f"{self.folder} of another campaign, with {where} {theirs}"
        require(not where, "out", given, f"{where} {ours}, or a new folder")

    def path(self, index: int) -> Path:
        return self.folder / f"{index:06d}.json"

    def all(self) -> Iterator[Any | None]:
        """The files' results in order, None where there is none to be believed."""
        return (self.get(index) for index in range(len(self.tasks)))

    def get(self, index: int) -> Any | None:
        return opened(self.path(index), self._head(index), "result", LARGEST)

    def _head(self, index: int) -> dict[str, str]:
        return {"format": PIECE, "campaign": self.digest, "name": self.tasks[index].name}

    def put(self, index: int, result: Any) -> None:
        body = sealed(self._head(index), "result", result)
        text = json.dumps(body, indent=1, ensure_ascii=False)
        with run_folder.told(self.path(index)):
            write_text(self.path(index), text + "\n")

    def missing(self) -> list[Task]:
        return [
            replace(task, function=_numbered, arguments=(index, task))
            for index, (task, found) in enumerate(zip(self.tasks, self.all(), strict=True))
            if found is None
        ]

    def results(self) -> Iterator[Any]:
        for task, found in zip(self.tasks, self.all(), strict=True):
            if found is None:
                raise RunError(f"{task.name}: its file was changed or removed during the run")
            yield found


def _numbered(index: int, task: Task) -> tuple[int, Any]:
    """The piece's number with its result; what is wrong with a piece is told by its name."""
    try:
        return index, task()
    except (InputError, RunError) as error:
        raise type(error)(f"{task.name}: {error}") from error


def _difference(a: Any, b: Any, where: str = "") -> tuple[str, str, str]:
    """Where two pieces of JSON differ first, and what stands there; "" where they are equal."""
    if a == b:
        return "", "", ""
    if isinstance(a, dict) and isinstance(b, dict):
        pairs = ((str(key), a.get(key, MISSING), b.get(key, MISSING)) for key in [*b, *a])
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = ((str(i + 1), x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)))
    else:
        return where or "contents", _short(a), _short(b)
    name, x, y = next(each for each in pairs if each[1] != each[2])
    return _difference(x, y, f"{where} {name}".strip())


def _short(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"of {len(value)}"
    return {MISSING: "none", None: "null"}.get(value, str(value))
