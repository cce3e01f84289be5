"""What the formal records of a claim are called, in reports and on pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnverify.verification.formal import SAME

CHECKED = "machine-checked"
DIFFERS = "machine-checked with a difference"


def checked(records: Iterable[Mapping[str, Any]]) -> str:
    """The mark of a claim with these records; "" unless all of its formal evidence passed.

    "with a difference" where no theorem is said to be as registered, or the negation of that.
    """
    own = [r for r in records if r["kind"] == "formal"]
    if not own or any(r["outcome"] != "pass" for r in own):
        return ""
    return CHECKED if any(r["limits"].startswith(SAME) for r in own) else DIFFERS
