"""The package that reads models, imported in one way: offline and without a word of its own."""

from __future__ import annotations

import importlib.util
import os
import warnings
from types import ModuleType

from attnverify.support.errors import require
from attnverify.support.extras import hint

EXTRA = "models"


def transformers() -> ModuleType:
    """The module ``transformers``; raises InputError where it is not installed."""
    found = importlib.util.find_spec("transformers")
    require(found is not None, "model", "no package transformers", f"it ({hint(EXTRA)})")
    # Whatever the environment says; read when transformers is imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with warnings.catch_warnings():
        # In a notebook tqdm asks for widgets; no progress bar of it is ever shown here.
        warnings.filterwarnings("ignore", "IProgress not found")
        import transformers
    return transformers


def require_tokenizers() -> None:
    """Raises InputError where the package that tokenizes is not installed."""
    found = importlib.util.find_spec("tokenizers")
    require(found is not None, "text", "no package tokenizers", f"it ({hint(EXTRA)})")
