"""Files that are whole or not there: written under a temporary name, then renamed.

And one reader of JSON that comes from elsewhere: it raises InputError, whatever the file holds.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from attnverify.errors import InputError, require


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary file beside ``path``, then rename: never half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` of the text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def read_json(path: Path, argument: str, kind: str, largest: int) -> dict[str, Any]:
    """The JSON object in a file of at most ``largest`` bytes.

    argument: what an error message names; kind: what the file should be, as in "replay file".
    Raises InputError if it is missing, too large, unreadable, no JSON or no object.
    """
    require(path.is_file(), argument, path, f"an existing {kind}")
    try:
        size = path.stat().st_size
        require(size <= largest, argument, f"{size} bytes", f"at most {largest}")
        body = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(body, dict):
            raise TypeError(f"{type(body).__name__} in place of an object")
        return body
    except InputError:
        raise
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{argument}: got {path.name}, which is truncated or no {kind} ({reason})"
        ) from error
