"""Selection of claims by the arguments of a subcommand: ids, chapters and files of claims."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attnverify.support.errors import InputError, nearest
from attnverify.verification.claim_text import SUFFIXES


def select_ids(arguments: Iterable[str | Path], limit: float | None = None) -> list[str]:
    """The ids and globs among the arguments, and the ids of the claims in chapters and files.

    limit: seconds that reading one file may take. Raises InputError for what is none of these.
    """
    return [id for argument in arguments for id in _ids(str(argument), limit)]


def select_one(id: str, files: Iterable[Path] | None) -> str:
    """The id of one claim, after the files of claims were read."""
    from attnverify.chapters import registry

    select_ids(files or [])
    one, *others = found = select_ids([id])
    if others:
        words = f"which states {len(found)} claims, expected one of {', '.join(found)}"
        raise InputError(f"id: got {id!r}, {words}")
    if one not in registry and one.split(".")[0] not in registry.prefixes:
        raise InputError(
            f"id: got {id!r}, expected a claim id{nearest(id, registry)}; the file of a claim from "
            "outside is named by --claims FILE"
        )
    return one


def _ids(name: str, limit: float | None) -> Iterable[str]:
    """What an argument stands for: itself, unless it is a chapter or a file."""
    from attnverify.chapters import registry
    from attnverify.derivation import notebook_sources

    path, prefixes = Path(name), registry.prefixes
    chapters = {id: registry[id].notebook for id in registry if id.split(".")[0] in prefixes}
    chapter = path.stem if notebook_sources.is_chapter(path) else name
    if chapter in chapters.values():
        return [id for id in chapters if chapters[id] == chapter]
    if name.endswith(SUFFIXES):
        if not path.is_file() and path.stem in chapters.values():
            words = f"{path.stem}, the chapter, or a file that is there"
            raise InputError(f"id: got {name!r}, which is not there, expected {words}")
    elif not set(name) & set(".*?["):  # no id, and no glob
        hint = nearest(name, {f"{name}.*"} if name in prefixes else chapters.values())
        words = f"a claim id, a glob, a chapter or a file{hint}"
        raise InputError(f"id: got {name!r}, expected {words}")
    elif name.split(".")[0] in prefixes:
        return [name]  # claims of the book, which are in the registry already
    from attnverify.verification import claim_files

    return claim_files.ask(registry, name, claim_files.LIMIT if limit is None else limit)
