"""How to install an optional group of requirements: the package is on no index."""

from __future__ import annotations

#: To be formatted with the group's name; true in a clone of the repository.
INSTALL = "pip install -e '.[{}]'"
WHERE = "in the folder of your clone"


def hint(extra: str) -> str:
    """For messages: the command, and where it is run."""
    return f"{INSTALL.format(extra)} {WHERE}"
