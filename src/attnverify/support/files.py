"""Files that are written whole or not at all, places checked before a run, and guarded JSON."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnverify.support.errors import InputError

LARGEST = 64 << 20  # bytes of a JSON file, unless its reader says otherwise
FIRST = 1 << 14  # bytes that tell whose a file is
RANDOM = 8  # bytes, two letters each, at the end of a temporary file's name
LINKS = 40  # that lead from one to the next at most, as in Linux
SYSTEM = ("/dev", "/proc", "/sys")  # where no file is made or replaced, but for MEMORY
MEMORY = "/dev/shm"


def write_all(contents: Mapping[Path, bytes | str]) -> None:
    """Write files, each whole, and none of them if one cannot be written.

    Each is written to a temporary file beside its place; when all are complete they are renamed.
    A link is followed. What is no regular file, such as a pipe, is written straight into, and so is
    a standard stream. Text is in UTF-8. Permissions follow the umask, as for any new file, while
    tempfile would allow the owner alone.
    """
    made: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            place, out = target(path), None
            if isinstance(place, int):
                (sys.stderr if place == 2 else sys.stdout).flush()
                out = open(place, "wb", closefd=False)
            elif place.exists() and not place.is_file():
                out = place.open("wb")
            else:
                temporary = place.with_name(_temporary(place.name, os.urandom(RANDOM).hex()))
                out, made[temporary] = temporary.open("xb"), place
            text = content if isinstance(content, bytes) else _encoded(content)
            with out:
                out.write(text)
        for temporary, place in made.items():
            temporary.replace(place)
    except BaseException:
        for temporary in made:
            temporary.unlink(missing_ok=True)
        raise


def target(path: Path) -> Path | int:
    """Where writing to a path leads: links are followed, and 1 and 2 are the standard streams.

    Raises OSError for a circle of links and for the system's own files.
    """
    for _ in range(LINKS):
        path = path.parent.resolve() / path.name
        if str(path.parent) in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name in ("1", "2"):
            return int(path.name)
        if path.is_symlink():
            path = path.parent / os.readlink(path)
        elif any(map(path.is_relative_to, SYSTEM)) and not path.is_relative_to(MEMORY):
            raise OSError(errno.EPERM, "the system's own files are not written to", str(path))
        else:
            return path
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _encoded(text: str) -> bytes:
    """UTF-8, with the escape that JSON has in place of half a pair, which UTF-8 has not."""
    return text.encode("utf-8", "backslashreplace")


def write_bytes(path: Path, content: bytes) -> None:
    """:func:`write_all` of one file."""
    write_all({path: content})


def half_written(folder: Path, name: str) -> Iterator[Path]:
    """Temporary files that killed or running writers have in a folder for files of this name.

    name: may have the wildcards of a glob. Links and folders are left out.
    """
    for path in folder.glob(_temporary(name, "[0-9a-f]" * (2 * RANDOM))):
        if path.is_file() and not path.is_symlink():
            yield path


def _temporary(name: str, end: str) -> str:
    """Name of a file until it is complete."""
    return f".{name}.{end}"


def write_text(path: Path, text: str) -> None:
    """:func:`write_all` of one text."""
    write_all({path: text})


@contextmanager
def read_json(
    path: Path, argument: str, what: str, largest: int = LARGEST, expected: str = ""
) -> Iterator[Any]:
    """Context with the content of a JSON file, which the block takes apart.

    A file that is missing, larger than ``largest`` bytes or no JSON raises :class:`InputError`, and
    so does one whose content the block cannot use. argument: name in the messages; what: kind of
    file, as "replay file"; expected: the same in more words.
    """
    expected = expected or f"an existing {what}"
    if not path.is_file():
        why = "is no regular file" if path.exists() else "does not exist"
        raise InputError(f"{argument}: got {path}, which {why}, expected {expected}")
    size = path.stat().st_size
    if size > largest:
        raise InputError(f"{argument}: got {size} bytes, expected at most {largest}")
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{argument}: got {path.name}, which is truncated or no {what} "
            f"({type(error).__name__}: {error}), expected {expected}"
        ) from error


def start(path: Path) -> str:
    """How a file begins: a head of columns, a style, a title tell whose it is."""
    with path.open("rb") as file:
        return file.read(FIRST).decode("utf-8", "replace")


def require_writable(argument: str, path: Path, own: Callable[[Path], bool] | None = None) -> None:
    """Make the folder of ``path`` and try to write there, before a long run begins.

    Raises :class:`InputError` where nothing can be written and where another file would be lost:
    only an empty file is replaced, or one that ``own`` recognizes (by default a JSON file of this
    program). A standard stream and a pipe may be written to.
    """
    if path == Path("-"):
        raise InputError(f"{argument}: got -, expected the name of a file")
    if Path(os.path.normpath(path)).is_dir():  # "missing/.." too, before "missing" is made
        raise InputError(f"{argument}: got {path}, which is a folder, expected a file")
    try:
        place = target(path)
    except OSError as error:
        raise InputError(
            f"{argument}: got {path}, which leads to {error.filename} ({error.strerror}), "
            "expected a file or a standard stream"
        ) from error
    if isinstance(place, int):
        return
    if not place.exists() or place.is_file():
        require_folder(argument, place.parent)
    if place.exists() and not os.access(place, os.W_OK):
        raise InputError(f"{argument}: got {path}, which is read-only, expected a writable file")
    if place.is_file() and place.stat().st_size > 0 and not (own or own_json)(place):
        raise InputError(
            f"{argument}: got {path}, which was not written by this program, "
            "expected a new file or one of its own"
        )


def require_folder(argument: str, folder: Path) -> None:
    """Make the folder if need be and try to write in it; raises :class:`InputError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")  # a full disk takes a name but no byte
    except OSError as error:
        raise InputError(
            f"{argument}: got {folder}, where nothing can be written ({error.strerror}), "
            "expected a folder to write to"
        ) from error


def own_json(path: Path) -> bool:
    """Whether the file is a JSON object that names this program."""
    try:
        with read_json(path, "file", "JSON file") as body:
            if "environment" in body:  # a report
                return "attnverify" in body["environment"]
            return body["format"].startswith("attnverify ")  # an instance, a table of results
    except InputError:
        return False
