"""Replay files: a found instance as exact dyadic numbers, rechecked from scratch.

The file is JSON: claim, check, the instance's arrays as shapes and hexadecimal floats (exact), and
a SHA-256 over these. The digest catches accidents; what is believed is only what the recheck in
ball arithmetic shows.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from attnverify.checks import checks_of
from attnverify.errors import InputError
from attnverify.evidence.exact import Comparison, compare
from attnverify.evidence.forms import Inequality, Instance
from attnverify.files import write_text as write_text

FORMAT = "attnverify instance 1"
LARGEST = 16 << 20  # bytes


def save(path: Path, claim: str, check: str, instance: Instance) -> None:
    """Save one instance (float64 tensors without batch axis)."""
    arrays = {
        name: {"shape": list(value.shape), "values": [float(v).hex() for v in value.flatten()]}
        for name, value in sorted(instance.items())
    }
    body = {"format": FORMAT, "claim": claim, "check": check, "arrays": arrays}
    write_text(path, json.dumps({**body, "sha256": _digest(body)}, indent=1) + "\n")


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def load(path: Path) -> tuple[str, str, Instance]:
    """(claim, check, instance) of a file; raises InputError that says what is wrong with it."""
    if not path.is_file():
        raise InputError(f"file: got {path}, expected an existing replay file")
    size = path.stat().st_size
    if size > LARGEST:
        raise InputError(f"file: got {size} bytes, expected at most {LARGEST}")
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        digest = body.pop("sha256")
        claim, check, arrays = body["claim"], body["check"], body["arrays"]
        if body["format"] != FORMAT:
            raise InputError(f"file: got format {body['format']!r}, expected {FORMAT!r}")
        if digest != _digest(body):
            raise InputError(
                f"file: got contents that do not match the digest in {path.name}, "
                "expected an unedited replay file"
            )
        return claim, check, {name: _tensor(name, array) for name, array in arrays.items()}
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"file: got {path.name}, which is truncated or no replay file ({reason})"
        ) from error


def _tensor(name: str, array: dict[str, Any]) -> torch.Tensor:
    values = torch.tensor([float.fromhex(v) for v in array["values"]], dtype=torch.float64)
    if not torch.isfinite(values).all():
        raise InputError(f"{name}: got NaN or infinite entries, expected finite entries")
    return values.reshape(array["shape"])


def replay(path: Path) -> tuple[str, str, Comparison]:
    """Recheck a saved instance: (claim, check, comparison in ball arithmetic)."""
    claim, name, instance = load(path)
    checks = checks_of(claim)
    if name not in checks or not isinstance(checks[name], Inequality):
        raise InputError(f"check: got {name!r}, expected an inequality of {claim}")
    return claim, name, compare(checks[name], instance)
