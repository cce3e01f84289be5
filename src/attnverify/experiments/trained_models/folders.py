"""The three models as folders that ``attnverify inspect`` reads; nothing is downloaded.

The encoder's folder comes with its package. That of the ALBERT is made from the package rxnmapper,
whose weights are a pickle: its SHA-256 is checked, it is opened with ``weights_only=True``, which
runs no code of the file, and written as safetensors. That of the decoder is made from the weights
in this package. What is made is kept in a cache, under the digest of what it was made from.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import safetensors.torch
import torch

from attnverify.experiments.engine import stored, weights
from attnverify.experiments.trained_models.decoder import CONFIG, NAME
from attnverify.mathematics.encoder import BUNDLED_PACKAGE
from attnverify.mathematics.encoder import INSTALL as INSTALL_ENCODER
from attnverify.support.errors import require
from attnverify.support.files import write_bytes

PACKAGE = "rxnmapper"
INSTALL = "pip install --no-deps rxnmapper==0.4.3"
INSIDE = Path("models/transformers/albert_heads_8_uspto_all_1310k")
#: SHA-256 of pytorch_model.bin, config.json and vocab.txt of rxnmapper 0.4.3.
DIGESTS = {
    "pytorch_model.bin": "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
    "config.json": "ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f",
    "vocab.txt": "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
}
#: A token of SMILES: an atom in brackets, a halogen of two letters, the arrow, a ring number of
#: two digits, or one letter or sign.
SMILES = r"\[[^\]]*\]|Cl|Br|>>|%\d\d|."
FORM = "1"  # of what is written; another number makes the folders anew


def minilm() -> Path:
    """The folder of the MiniLM encoder; raises InputError where its package is absent."""
    return _package(BUNDLED_PACKAGE, INSTALL_ENCODER) / "model"


def albert() -> Path:
    """The folder of the ALBERT trained on reactions, made if need be.

    Raises InputError where the package is absent or holds other files than version 0.4.3.
    """
    source = _package(PACKAGE, INSTALL) / INSIDE
    return _kept("albert-reactions", DIGESTS["pytorch_model.bin"], lambda: _albert(source))


def decoder() -> Path:
    """The folder of the small decoder, made if need be from the weights of this package."""
    words = weights.committed(NAME)
    return _kept(NAME, stored.digest(words, {}), lambda: _decoder(words))


def _package(name: str, install: str) -> Path:
    spec = importlib.util.find_spec(name)  # finds the files without running them
    folders = (spec and spec.submodule_search_locations) or []
    require(bool(folders), "model", f"no package {name}", f"it ({install})")
    return Path(folders[0])


def _kept(name: str, digest: str, make: Callable[[], dict[str, bytes]]) -> Path:
    """The folder of the cache, its files written whole, config.json last: it says all are there."""
    folder = root() / f"{name}-{FORM}-{digest[:16]}"
    if not (folder / "config.json").is_file():
        with stored.told(folder / "config.json"):
            folder.mkdir(parents=True, exist_ok=True)
            files = make()
            for file in sorted(files, key=lambda file: file == "config.json"):
                write_bytes(folder / file, files[file])
    return folder


def root() -> Path:
    """Where folders are kept: the checkout's ``_build``, or the user's cache."""
    checkout = Path(__file__).parents[4]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "_build" / "models"
    return Path(platformdirs.user_cache_dir("attnverify")) / "models"


def _albert(source: Path) -> dict[str, bytes]:
    content = {name: _checked(source / name) for name in DIGESTS}
    opened = io.BytesIO(content.pop("pytorch_model.bin"))
    state = torch.load(opened, map_location="cpu", weights_only=True)
    tensors = {name: value.clone().contiguous() for name, value in state.items()}
    vocabulary = content.pop("vocab.txt").decode().splitlines()
    return content | {
        "model.safetensors": safetensors.torch.save(tensors, {"format": "pt"}),
        "tokenizer.json": json.dumps(_smiles(vocabulary)).encode(),
    }


def _checked(file: Path) -> bytes:
    require(file.is_file(), "model", f"no {file.name} in {PACKAGE}", INSTALL)
    content = file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    given = f"{file.name} with SHA-256 {found[:12]}"
    require(found == DIGESTS[file.name], "model", given, f"that of {PACKAGE} 0.4.3 ({INSTALL})")
    return content


def _smiles(vocabulary: list[str]) -> dict[str, Any]:
    """A tokenizer of reactions: the pieces of SMILES between [CLS] and [SEP]."""
    ids = {word: index for index, word in enumerate(vocabulary)}
    ends = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    split = {"type": "Split", "pattern": {"Regex": SMILES}, "behavior": "Removed", "invert": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": split,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": single,
            "special_tokens": ends,
        },
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }


def _decoder(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    """A token of the decoder is a byte, so its tokenizer has 256 of them and no merges."""
    return {
        "config.json": json.dumps(CONFIG, indent=1).encode(),
        "model.safetensors": safetensors.torch.save(tensors, {"format": "pt"}),
        "tokenizer.json": json.dumps(_bytes()).encode(),
    }


def _bytes() -> dict[str, Any]:
    """Bytes as tokens; the letters that stand for them are those of GPT-2's tokenizer."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": level | {"use_regex": False},
        "decoder": level | {"use_regex": False},
        "model": {
            "type": "BPE",
            "vocab": {letters[byte]: byte for byte in range(256)},
            "merges": [],
        },
    }
