"""Packages that not every installation has: a hint for messages, and the import of one."""

from __future__ import annotations

import importlib.util
import os
import warnings
from types import ModuleType

from attnverify.support.errors import require

#: To be formatted with the name of a group of requirements; true in a clone of the repository.
INSTALL = "pip install -e '.[{}]'"
WHERE = "in the folder of your clone"
MODELS = "models"  # the group that reading models of others needs
#: The package that reads them, which a clone that is installed with -e has beside this one.
INSPECT = "attninspect"
NO_INSPECT = f"got no package {INSPECT}, expected it (pip install ./src/{INSPECT} {WHERE})"


def hint(extra: str) -> str:
    """Command that installs an optional group, and where to run it."""
    return f"{INSTALL.format(extra)} {WHERE}"


def import_transformers() -> ModuleType:
    """The module ``transformers``; raises InputError where it is not installed."""
    found = importlib.util.find_spec("transformers")
    require(found is not None, "model", "no package transformers", f"it ({hint(MODELS)})")
    # Whatever the environment says; read when transformers is imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with warnings.catch_warnings():
        # In a notebook tqdm asks for widgets; no progress bar of it is ever shown here.
        warnings.filterwarnings("ignore", "IProgress not found")
        import transformers
    return transformers
