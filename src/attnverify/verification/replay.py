"""Replay files: a found instance as exact dyadic numbers, rechecked from scratch.

The file is JSON: claim, check, the instance's arrays as shapes and hexadecimal floats (exact), and
a SHA-256 over these. The digest catches accidents and no forgery; what is believed is only what
the recheck in ball arithmetic shows, of an instance that the check itself could have made.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch

from attnverify.checking import sampling
from attnverify.checking.ball_comparison import Comparison, compare
from attnverify.checking.check import Inequality, Instance
from attnverify.support.errors import InputError, require, require_finite
from attnverify.support.files import read_json, write_text
from attnverify.support.seeds import generator
from attnverify.verification.claim import Origin, Registry
from attnverify.verification.claim_files import ClaimFile, file_of

FORMAT = "attnverify instance 1"
LARGEST = 16 << 20  # bytes
AXES, LETTERS = 8, 200  # of an array, of a name
LARGER, SMALL = 4, 256  # an instance has at most so many times the numbers of the check's own


def save(origin: Origin, path: Path, claim: str, check: str, instance: Instance) -> None:
    """Save one instance (float64 tensors without batch axis)."""
    arrays = {name: exact(value) for name, value in sorted(instance.items())}
    body: dict[str, Any] = {"format": FORMAT, "claim": claim, "check": check, "arrays": arrays}
    if isinstance(origin, ClaimFile):
        body["stated in"] = {"file": origin.name, "sha256": origin.sha256}
    body["sha256"] = _digest(body)
    write_text(path, json.dumps(body, indent=1) + "\n")


def exact(value: Any) -> dict[str, Any]:
    """The shape and the numbers of an array, as JSON that keeps every bit."""
    return {"shape": list(value.shape), "values": [v.hex() for v in value.flatten().tolist()]}


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def load(registry: Registry, path: Path) -> tuple[str, str, Instance]:
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
        named = all(map(_is_name, (claim, check))) and isinstance(arrays, dict)
        named = named and all(map(_is_name, arrays))
        given = f"no claim, check or named arrays in {path.name}"
        require(named, "file", given, "all three")
        _require_stated(registry, claim, body.get("stated in"))
        return claim, check, {str(name): _tensor(name, array) for name, array in arrays.items()}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= LETTERS


def _require_stated(registry: Registry, claim: str, stated: Any) -> None:
    """The claim is the book's, or was brought in from the file that the replay file names."""
    file = file_of(registry, claim) if claim in registry else None
    if file is None and stated is None:
        return
    parts = stated if isinstance(stated, dict) else {}
    name, sha256 = parts.get("file"), parts.get("sha256")
    told = _is_name(name) and _is_name(sha256)
    require(told, "file", f"no file and SHA-256 that state {claim}", "both, as it was saved")
    if file is None or file.sha256 != sha256:
        came = "no such file" if file is None else f"one with SHA-256 {file.sha256}"
        raise InputError(
            f"claims: got {came}, expected the file {name} with SHA-256 {sha256}, which states "
            f"{claim} (--claims {name})"
        )


def _tensor(name: str, array: Any) -> torch.Tensor:
    """The array that an entry describes: lengths, and as many hexadecimal floats as they ask."""
    try:
        shape, words = array["shape"], array["values"]
        if not isinstance(shape, list) or not isinstance(words, list) or len(shape) > AXES:
            raise TypeError(f"no list of at most {AXES} lengths, or none of values")
        if any(type(n) is not int for n in shape):
            raise TypeError("a length that is no whole number")
        values = [float.fromhex(word) for word in words]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{name}: got {reason}, expected a shape and hexadecimal floats"
        ) from error
    fits = min(shape, default=1) >= 1 and math.prod(shape) == len(values)
    require(fits, name, f"{len(values)} values for shape {shape}", "one value an entry")
    tensor = torch.tensor(values, dtype=torch.float64)
    require_finite(name, tensor)
    return tensor.reshape(shape)


def replay(registry: Registry, path: Path) -> tuple[str, str, Comparison]:
    """Recheck a saved instance: (claim, check, comparison in ball arithmetic).

    Raises InputError if the file cannot be read or its instance is none of the check's.
    """
    claim, name, instance = load(registry, path)
    check = inequality(registry, claim, name)
    require_size(check, instance)
    return claim, name, compare(check, instance)


def require_size(check: Inequality, instance: Instance) -> None:
    """Raise InputError for an instance far larger than any the check makes: it may take days."""
    with torch.no_grad():
        sizes = [
            sampling.parameters(s, 1, generator(0, "sizes"), spread=False) for s in check.sizes
        ]
        made = [*(check.build(**free) for free in sizes), *(make() for make in check.extremal)]
    most = max(SMALL, LARGER * max(map(_numbers, made)))
    found = _numbers(instance)
    require(found <= most, "file", f"an instance of {found} numbers", f"at most {most}")


def _numbers(instance: Instance) -> int:
    return sum(value.numel() for value in instance.values())


def inequality(registry: Registry, claim: str, name: str) -> Inequality:
    """The check that a replay file names; raises InputError if it is no inequality of the claim."""
    check = registry.checks_of(claim).get(name)
    if not isinstance(check, Inequality):
        raise InputError(f"check: got {name!r}, expected an inequality of {claim}")
    return check
