"""Replay files: a found instance as exact dyadic numbers, rechecked from scratch.

The file is JSON: claim, check, the instance's arrays as shapes and hexadecimal floats (exact), and
a SHA-256 over these. The digest catches accidents and no forgery; what is believed is only what
the recheck in ball arithmetic shows, of an instance that the check itself could have made.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from pathlib import Path
from typing import Any

import torch

from attnverify.checks import checks_of
from attnverify.errors import InputError, require, require_finite
from attnverify.evidence import outside
from attnverify.evidence.exact import Comparison, compare
from attnverify.evidence.forms import Inequality, Instance
from attnverify.files import read_json, write_text

FORMAT = "attnverify instance 1"
LARGEST = 16 << 20  # bytes


def save(path: Path, claim: str, check: str, instance: Instance) -> None:
    """Save one instance (float64 tensors without batch axis)."""
    write_text(path, dumps(body_of(claim, check, instance)))


def dumps(body: dict[str, Any]) -> str:
    """The text of a replay file."""
    return json.dumps(body, indent=1) + "\n"


def body_of(claim: str, check: str, instance: Instance) -> dict[str, Any]:
    """What a replay file holds, as JSON."""
    arrays = {
        name: {"shape": list(value.shape), "values": [float(v).hex() for v in value.flatten()]}
        for name, value in sorted(instance.items())
    }
    body = {"format": FORMAT, "claim": claim, "check": check, "arrays": arrays}
    if file := outside.file_of(claim):
        body["stated in"] = {"file": file.name, "sha256": file.sha256}
    return {**body, "sha256": _digest(body)}


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def load(path: Path) -> tuple[str, str, Instance]:
    """(claim, check, instance) of a file; raises InputError that says what is wrong with it.

    An instance of a claim from outside is of the text that states it, and of no other.
    """
    with read_json(path, "file", "replay file", LARGEST) as body:
        digest, form = body.pop("sha256", None), body.get("format")
        require(
            form == FORMAT, "file", f"format {form!r} (truncated or no replay file)", repr(FORMAT)
        )
        same = digest == _digest(body)
        given = f"contents that do not match the digest in {path.name}"
        require(same, "file", given, "an unedited replay file")
        claim, check, arrays = (body.get(key) for key in ("claim", "check", "arrays"))
        if not (isinstance(claim, str) and isinstance(check, str) and isinstance(arrays, dict)):
            raise InputError(
                f"file: got no claim, check or arrays in {path.name}, expected all three"
            )
        _require_stated(claim, body.get("stated in"))
        return claim, check, {str(name): _tensor(name, array) for name, array in arrays.items()}


def _require_stated(claim: str, stated: Any) -> None:
    """The claim is the book's, or was brought in from the file that the replay file names."""
    file = outside.file_of(claim)
    if not isinstance(stated, dict):
        return
    name, sha256 = stated.get("file"), stated.get("sha256")
    if file is None or file.sha256 != sha256:
        came = "no such file" if file is None else f"one with SHA-256 {file.sha256}"
        raise InputError(
            f"claims: got {came}, expected the file {name} with SHA-256 {sha256}, which states "
            f"{claim} (--claims {name})"
        )


def _tensor(name: str, array: Any) -> torch.Tensor:
    """The array that an entry describes: lengths, and as many hexadecimal floats as they ask."""
    try:
        shape, values = array["shape"], [float.fromhex(v) for v in array["values"]]
        lengths = [operator.index(n) for n in shape]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{name}: got {reason}, expected a shape and hexadecimal floats"
        ) from error
    fits = min(lengths, default=1) >= 1 and math.prod(lengths) == len(values)
    require(fits, name, f"{len(values)} values for shape {shape}", "one value an entry")
    tensor = torch.tensor(values, dtype=torch.float64)
    require_finite(name, tensor)
    return tensor.reshape(lengths)


def replay(path: Path) -> tuple[str, str, Comparison]:
    """Recheck a saved instance: (claim, check, comparison in ball arithmetic).

    Raises InputError if the file cannot be read or its instance is none of the check's.
    """
    claim, name, instance = load(path)
    return claim, name, compare(inequality(claim, name), instance)


def inequality(claim: str, name: str) -> Inequality:
    """The check that a replay file names; raises InputError if it is no inequality of the claim."""
    check = checks_of(claim).get(name)
    if not isinstance(check, Inequality):
        raise InputError(f"check: got {name!r}, expected an inequality of {claim}")
    return check
