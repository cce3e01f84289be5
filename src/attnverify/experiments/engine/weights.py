"""Trained weights: a full run writes them beside its table, and small ones come with the package.

Each file is safetensors; its metadata hold the command that trained the weights and a digest of
all the file holds, which is checked on reading.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from torch import Tensor

from attnverify.experiments.engine import stored
from attnverify.experiments.engine.model import Settings
from attnverify.support.errors import require

FORMAT = "attnverify weights 1"


def keep(name: str, settings: Settings, tensors: stored.Tensors) -> None:
    """Write ``NAME.safetensors`` into the folder of the settings, if there is one."""
    if settings.folder is None:
        return
    quick = " --quick" if settings.quick else ""
    command = f"attnverify experiment {name}{quick} --seed {settings.seed}"
    words = {"format": FORMAT, "command": f"{command} --device {settings.device}"}
    stored.save(settings.folder / f"{name}.safetensors", tensors, words)


def load(path: Path) -> tuple[dict[str, Tensor], str]:
    """The weights and the command that trained them; raises InputError for another file."""
    tensors, words = stored.load(path)
    found = words.get("format")
    require(found == FORMAT, "weights", f"{path.name} of format {found!r}", FORMAT)
    return tensors, words["command"]


def committed(name: str) -> dict[str, Tensor]:
    """The trained weights of an experiment that come with the package."""
    folder = resources.files("attnverify.experiments") / "weights"
    with resources.as_file(folder / f"{name}.safetensors") as path:
        return load(path)[0]
