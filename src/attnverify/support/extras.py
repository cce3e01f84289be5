"""Hint for messages: how to install an optional group of requirements."""

from __future__ import annotations

#: To be formatted with the group's name; true in a clone of the repository.
INSTALL = "pip install -e '.[{}]'"
WHERE = "in the folder of your clone"


def hint(extra: str) -> str:
    """Command that installs an optional group, and where to run it."""
    return f"{INSTALL.format(extra)} {WHERE}"
