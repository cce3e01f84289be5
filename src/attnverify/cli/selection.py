"""Selection of claims by the arguments of a subcommand, which may name files of claims."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attnverify.support.errors import InputError, nearest


def select_ids(arguments: Iterable[str | Path], limit: float | None = None) -> list[str]:
    """The ids and globs among the arguments, and the ids of the claims in files and modules.

    limit: seconds that reading one file may take.
    """
    from attnverify.chapters import registry

    names = [str(argument) for argument in arguments]
    if all(name.split(".")[0] in registry.prefixes and not name.endswith(".py") for name in names):
        return names  # claims of the book, which are in the registry already
    from attnverify.verification import claim_files

    seconds = claim_files.LIMIT if limit is None else limit
    return [id for name in names for id in claim_files.ask(registry, name, seconds)]


def select_one(id: str, files: Iterable[Path] | None) -> str:
    """The id of one claim, after the files of claims were read."""
    from attnverify.chapters import registry

    select_ids(files or [])
    select_ids([id])
    if id not in registry and id.split(".")[0] not in registry.prefixes:
        raise InputError(
            f"id: got {id!r}, expected a claim id{nearest(id, registry)}; the file of a claim from "
            "outside is named by --claims FILE"
        )
    return id
