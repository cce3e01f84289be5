"""A model from a folder: config.json and safetensors, nothing else of it is opened or run.

Nothing is downloaded, code that a folder brings is not run, and a pickle is not opened: loading one
can run any program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from torch import nn

from attnverify.errors import InputError, require
from attnverify.files import read_json
from attnverify.models import library
from attnverify.models.families import require_family

PICKLES = (".bin", ".pt", ".pth", ".ckpt")
CONVERT = (
    'python -c "import torch; from safetensors.torch import save_file; '
    "save_file({k: v.clone().contiguous() for k, v in torch.load('{source}', map_location='cpu', "
    "weights_only=True).items()}, '{target}', metadata={'format': 'pt'})\""
)
UNKNOWN = ("[UNK]", "<unk>")
#: Tensors of heads and poolers, which the trace leaves out.
UNUSED = ("lm_head", "cls.", "pooler", "classifier", "score", "qa_outputs", "embed_out")
UNUSED += ("vocab_", "predictions", "position_ids", "pre_classifier", "masked_bias", "attn.bias")
UNUSED += ("rotary_emb.inv_freq", "attention.bias", "sop_classifier")


@dataclass(frozen=True)
class Folder:
    """What a folder holds: its configuration, its weights' files, its tokenizer if it has one."""

    path: Path
    config: dict[str, Any]
    weights: tuple[Path, ...]

    @classmethod
    def of(cls, path: str | Path) -> Folder:
        """Raises InputError (argument ``model``) for a folder that holds no model of a family."""
        path = Path(path)
        expected = "a folder with config.json and *.safetensors"
        require(path.is_dir(), "model", f"{path}, which is no folder", expected)
        with read_json(path / "config.json", "model", "configuration") as body:
            config = dict(body)
        require_family(config.get("model_type"), "config.json")
        weights = tuple(sorted(path.glob("*.safetensors")))
        if not weights:
            raise InputError(_no_weights(path))
        return cls(path, config, weights)

    def model(self, dtype: Any) -> nn.Module:
        """The model without its head, in ``dtype``, every tensor accounted for."""
        transformers = library.transformers()
        self._require_ties()
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        try:
            model, told = transformers.AutoModel.from_pretrained(
                str(self.path),
                dtype=dtype,
                attn_implementation="eager",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except safetensors.SafetensorError as error:
            raise InputError(
                f"model: got a file in {self.path} that is no whole safetensors file ({error}), "
                "expected safetensors weights"
            ) from error
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"model: got {self.path}, which does not load ({error})") from error
        _require_all(self.path, told)
        return model

    def notes(self, dtype: Any) -> tuple[str, ...]:
        """What was changed in reading: the dtype, where config.json names another."""
        own = self.config.get("dtype", self.config.get("torch_dtype"))
        new = str(dtype).removeprefix("torch.")
        return () if own in (None, new) else (f"weights promoted from {own} to {new}",)

    def _require_ties(self) -> None:
        """Tied weights, where the files hold both, must be equal."""
        if not self.config.get("tie_word_embeddings", True):
            return
        found = _tensors(self.weights, ("lm_head.weight", "predictions.decoder.weight"))
        inner = _tensors(self.weights, ("wte.weight", "embed_tokens.weight", "embed_in.weight"))
        inner |= _tensors(self.weights, ("embeddings.word_embeddings.weight",))
        for name, head in found.items():
            for other, table in inner.items():
                same = head.shape == table.shape and bool((head == table).all())
                given = f"{name} and {other}, which differ though config.json ties them"
                require(same, "model", given, 'equal ones, or "tie_word_embeddings": false')

    def tokenizer(self) -> Any:
        """The tokenizer of tokenizer.json or vocab.txt; raises InputError where there is none."""
        from attnverify.network.encoder import read_tokenizer

        family = self.config["model_type"]
        expected = "one that reads tokens; in Python, av.inspect(model, pixels)"
        require(family != "vit", "text", f"a model of family {family!r}", expected)
        return read_tokenizer(self.path)

    def encode(self, text: str) -> tuple[list[int], list[str]]:
        """Token ids of a text and the tokens; raises InputError where most of them are unknown."""
        found = self.tokenizer().encode(text)
        require(bool(found.ids), "text", "no token", "a text of at least one token")
        unknown = sum(token in UNKNOWN for token in found.tokens)
        require(
            2 * unknown <= len(found.tokens),
            "text",
            f"{unknown} unknown tokens of {len(found.tokens)}",
            "a text that the tokenizer of the folder knows, or token ids (--tokens)",
        )
        return found.ids, list(found.tokens)


def _no_weights(path: Path) -> str:
    found = [file for file in sorted(path.iterdir()) if file.suffix in PICKLES]
    pickles = sorted(found, key=lambda file: "model" not in file.name)
    if not pickles:
        return f"model: got no *.safetensors in {path}, expected the weights of the model there"
    source, target = pickles[0], path / "model.safetensors"
    command = CONVERT.replace("{source}", str(source)).replace("{target}", str(target))
    return (
        f"model: got {source.name}, a pickle, which can run any program when it is opened, "
        f"expected safetensors; this converts it without running anything:\n{command}"
    )


def _tensors(files: tuple[Path, ...], endings: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for file in files:
        try:
            with safetensors.safe_open(file, framework="pt") as opened:
                names = [name for name in opened.keys() if name.endswith(endings)]
                found |= {name: opened.get_tensor(name) for name in names}
        except (safetensors.SafetensorError, OSError) as error:
            raise InputError(
                f"model: got {file}, which is no whole safetensors file ({error}), "
                "expected safetensors weights"
            ) from error
    return found


def _require_all(path: Path, told: dict[str, Any]) -> None:
    """Nothing that the trace needs is missing, and nothing is left over that it might need."""

    def needed(names: Any) -> list[str]:
        return sorted(str(n) for n in names if not any(part in str(n) for part in UNUSED))

    missing, extra = needed(told["missing_keys"]), needed(told["unexpected_keys"])
    few = f"{len(missing)} tensors missing in {path}, the first {missing[:1]}"
    require(not missing, "model", few, "all tensors of the model that config.json describes")
    many = f"{len(extra)} tensors in {path} that config.json does not explain: {extra[:1]}"
    require(not extra, "model", many, "the tensors of that model alone")


def ids_from(file: Path) -> list[int]:
    """Token ids from a file: a JSON list, or whole numbers with spaces between."""
    expected = "token ids: a JSON list, or whole numbers with spaces or lines between"
    require(file.is_file(), "tokens", f"no file {file}", expected)
    content = file.read_text(encoding="utf-8").strip()
    try:
        found = json.loads(content) if content.startswith("[") else content.split()
        ids = [int(each) for each in found]
    except (ValueError, TypeError) as error:
        raise InputError(f"tokens: got {file} ({error}), expected {expected}") from error
    require(bool(ids), "tokens", f"no token in {file}", expected)
    return ids
