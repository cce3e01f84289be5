"""A model is read from a folder: which of its files are opened, and how.

Read are ``config.json``, safetensors weights and a tokenizer's files: regular files, by plain
names, of the folder itself. Of the weights only numbers are taken; ``transformers`` gets these and
the configuration from here and opens no file of the folder. Nothing is downloaded, code that a
folder brings is not run, and a pickle is not opened: loading one can run any program.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import nn

from attninspect import configuration, tokenization
from attninspect.families import architecture_of
from attnverify.support.errors import InputError, in_words, require, shown
from attnverify.support.extras import MODELS, hint, import_transformers

#: Bytes of a file that is read whole; of others 128 MiB.
LARGEST = {"config.json": 1 << 20, "tokenizer_config.json": 1 << 20}
OTHERS = 128 << 20
LARGEST_TEXTS = 64 << 20  # bytes of all texts of a folder, or of a file


@contextmanager
def reading(argument: str, what: str) -> Iterator[None]:
    """Errors that a library raises while it reads become one line that names what was read.

    Only calls of libraries stand in such a block: a mistake of this package is to be seen.
    """
    try:
        yield
    except Exception as error:
        given = f"{what}, which does not load ({in_words(error)})"
        raise InputError(f"{argument}: got {given}, expected a whole one") from error


def regular(folder: Path, name: str) -> Path:
    """The path of a regular file of a folder: no device or pipe, and nothing outside.

    A link may lead to another file of the folder and, in a hub's cache, from its ``snapshots`` to
    its ``blobs``. folder: without links. Raises InputError (argument ``model``).
    """
    plain = name not in ("", ".", "..") and not set(name) & set("/\\\0")
    require(plain, "model", f"the file name {shown(name)}", "plain names, of files in the folder")
    try:
        file = (folder / name).resolve(strict=True)
        kind = file.stat().st_mode
    except (OSError, RuntimeError) as error:
        words = f"{shown(name)}, which cannot be read ({type(error).__name__})"
        raise InputError(f"model: got {words}, expected a regular file") from error
    homes = [folder]
    if folder.parent.name == "snapshots":
        homes.append(folder.parent.parent / "blobs")
    outside = f"{shown(name)}, a link that leads out of the folder"
    require(file.parent in homes, "model", outside, "a file of the folder, or of its hub cache")
    require(stat.S_ISREG(kind), "model", f"{shown(name)}, which is no file", "a regular file")
    return file


def content(folder: Path, name: str) -> str:
    """The text of a file of a folder, which must not be larger than LARGEST allows."""
    return text_of(regular(folder, name), "model", LARGEST.get(name, OTHERS))


def text_of(file: Path, argument: str, most: int) -> str:
    """A regular file's text in UTF-8, of at most so many bytes; raises InputError."""
    name = shown(file.name)
    require(file.is_file(), argument, f"no file {shown(str(file))}", "a regular file, by name")
    with reading(argument, name), file.open("rb") as opened:
        raw = opened.read(most + 1)
    require(len(raw) <= most, argument, f"more than {most:,} bytes in {name}", "fewer")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        given = f"{name}, which is no text ({error})"
        raise InputError(f"{argument}: got {given}, expected UTF-8") from error


def parsed(folder: Path, name: str) -> Any:
    """The JSON value that a file of a folder holds."""
    text = content(folder, name)
    with reading("model", f"{name}, which is truncated or no JSON"):
        return json.loads(text)


PICKLES = (".bin", ".pt", ".pth", ".ckpt")
CONVERT = (
    'python -c "import sys, torch; from safetensors.torch import save_file; '
    "save_file({k: v.clone().contiguous() for k, v in torch.load(sys.argv[1], map_location='cpu', "
    "weights_only=True).items()}, sys.argv[2], metadata={'format': 'pt'})\" "
)
#: Tensors of heads, poolers and masks, which the trace leaves out.
UNUSED = re.compile(
    r"((bert|roberta|albert|distilbert|electra|ernie|vit|model|transformer|gpt_neox)\.)?"
    r"(lm_head|cls|pooler|classifier|score|qa_outputs|embed_out|vocab_(transform|layer_norm|projector)"
    r"|predictions|pre_classifier|sop_classifier)\..+|decoder\.(block|final_\w+|embed_tokens)\..+"
    r"|(.+\.)?(position_ids|masked_bias|attn\.bias|attention\.bias|rotary_emb\.inv_freq)"
)
#: Those of the heads that give a logit or a class, which a model with such a head must explain.
USED = {
    "logit": re.compile(r"(\w+\.)?(lm_head|predictions|embed_out|vocab_[a-z_]+)\..+"),
    "class": re.compile(r"((?!sop_)\w+\.)?(pre_classifier|classifier|score)\..+"),
}
WEIGHTS = "model.safetensors"
INDEX = WEIGHTS + ".index.json"
CONFIG = "config.json"
ADAPTER = "adapter_config.json"  # of PEFT
#: Tokenizers by the files they need, the first that is there; the family, where only one has it.
TOKENIZERS = ((("tokenizer.json",), None), (("vocab.txt",), None))
TOKENIZERS += ((("vocab.json", "merges.txt"), "gpt2"),)
OPTIONS = "tokenizer_config.json"
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
PER_TOKEN = 256  # bytes of text, more than tokens have but for runs of blanks
LONGEST = 16 << 20  # bytes of text, where the model has no largest number of tokens
SECONDS = 10  # of a processor for a tokenizer, and one more for each of these bytes
BYTES_A_SECOND = 100_000
MEMORY = 4 << 30  # bytes for a tokenizer, several times what the largest published ones take
HUB_NAME = re.compile(r"([\w-][\w.-]*/)?[\w-][\w.-]*")
DOWNLOAD = "download a snapshot first: huggingface_hub.snapshot_download('{}') returns its folder"
FOUND = "model: got {}, expected {}"


@dataclass(frozen=True)
class Folder:
    """What a folder holds: its checked configuration, and the files that are read.

    read: config.json, the weights (with their index), the tokenizer's, as names in the folder.
    """

    path: Path
    config: dict[str, Any]
    weights: tuple[str, ...]
    read: tuple[str, ...]

    @classmethod
    def of(cls, path: str | Path) -> Folder:
        """The folder at a path; raises InputError where it holds no model of a known family."""
        expected = "a folder with config.json and *.safetensors"
        try:
            real = Path(path).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            words = f"{shown(str(path))}, which is no folder that can be read"
            expected += f"; {DOWNLOAD.format(path)}" if HUB_NAME.fullmatch(str(path)) else ""
            raise InputError(FOUND.format(words, expected)) from error
        require(real.is_dir(), "model", f"{shown(str(path))}, which is no folder", expected)
        require(str(real).isprintable(), "model", shown(str(real)), "a name that can be printed")
        given = f"{ADAPTER} in {real}, weights that transformers adds to those of a model"
        merged = "the merged model: merge_and_unload() and save_pretrained(...) of the PEFT model"
        require(not os.path.lexists(real / ADAPTER), "model", given, merged)
        for snapshot in real.glob("snapshots/*"):  # of the root of a hub's cache
            expected = f"its snapshot {snapshot}"
        require(os.path.lexists(real / CONFIG), "model", f"{real} without {CONFIG}", expected)
        config = configuration.checked(parsed(real, CONFIG))
        weights, index = _weights(real)
        words = _tokenizer_files(real, config["model_type"])
        return cls(real, config, weights, (CONFIG, *index, *weights, *words))

    def digest(self) -> str:
        """SHA-256 of the names and contents of all files that are read."""
        total = hashlib.sha256()
        for name in self.read:
            with regular(self.path, name).open("rb") as stream:
                own = hashlib.file_digest(stream, "sha256").hexdigest()
            total.update(f"{name} {own}\n".encode())
        return total.hexdigest()

    @cached_property
    def skeleton(self) -> nn.Module:
        """The model that config.json describes, without numbers and without its head."""
        return self._skeleton(configuration.BARE.get(self.config["model_type"], "AutoModel"))

    def _skeleton(self, auto: str) -> nn.Module:
        transformers = import_transformers()
        # Its own words on a configuration run over many lines; errors are told in one.
        transformers.logging.set_verbosity(transformers.logging.CRITICAL)
        family = self.config["model_type"]
        with reading("model", CONFIG):
            made = configuration.made(self.config, transformers)
        given = f"model_type {family!r} in {CONFIG}, of which transformers makes a model of type"
        same, expected = made.model_type == family, f"a model of type {family!r}"
        require(same, "model", f"{given} {made.model_type!r}", expected)
        with reading("model", CONFIG), torch.device("meta"):
            return getattr(transformers, auto).from_config(made)

    def _with_head(self, kind: str) -> Any:
        """The skeleton with the head that gives a logit or a class."""
        vision = self.config["model_type"] == "vit"
        bare = self.config["model_type"] in configuration.BARE
        given = "a head for the encoder of T5, which has none"
        require(not bare, "scalar", given, "a coordinate")
        if kind == "class":
            return self._skeleton(f"AutoModelFor{'Image' if vision else 'Sequence'}Classification")
        require(not vision, "scalar", "a logit of a token for a vision model", "a class")
        causal = architecture_of(self.skeleton).causal
        return self._skeleton(f"AutoModelFor{'CausalLM' if causal else 'MaskedLM'}")

    @cached_property
    def positions(self) -> int | None:
        """The largest number of tokens; no weight is read."""
        return architecture_of(self.skeleton).positions

    def model(self, dtype: Any, number: str = "") -> nn.Module:
        """The model in ``dtype``, every tensor accounted for.

        number: "logit" or "class" if its head is needed, too; else it is left out.
        """
        head = number in ("logit", "class")
        skeleton: Any = self._with_head(number) if head else self.skeleton
        names = [name for name, _ in skeleton.named_parameters()]
        unused = {name for name in names if not head and UNUSED.fullmatch(name)}
        sizes = chain(skeleton.named_parameters(), skeleton.named_buffers())
        needed = sum(p.numel() for n, p in sizes if n not in unused)
        import_transformers().logging.disable_progress_bar()
        with ExitStack() as stack:
            tensors = self._tensors(stack, number)
            held = sum(tensor.numel() for tensor in tensors.values())
            few = f"weights of {held:,} numbers, where {CONFIG} describes {needed:,}"
            # A few that are missing are named below; a size that is none is told before it is made.
            require(needed <= 2 * held + 2**20, "model", few, "the weights of that model")
            self._require_ties(skeleton.config, tensors)
            with reading("model", "weights"):
                model, told = type(skeleton).from_pretrained(
                    None,
                    config=skeleton.config,
                    state_dict=tensors,
                    dtype=dtype,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                )
        _require_all(self.path, told, number if head else "", type(model).__name__)
        return model

    @cached_property
    def dtypes(self) -> list[torch.dtype]:
        """Of the stored weights, that of the first one in front."""
        with ExitStack() as stack:
            found = [getattr(torch, FLOATS[kind]) for _, _, kind in self._listed(stack)]
        return [*dict.fromkeys(found)]

    def _listed(self, stack: ExitStack, number: str = "") -> Iterator[tuple[Any, str, str]]:
        """The opened file, name and kind of every tensor of numbers; others are refused by name."""
        seen: set[str] = set()
        for file in self.weights:
            with reading("model", f"{file}, no whole safetensors file"):
                opened = safetensors.safe_open(regular(self.path, file), framework="pt")
                stack.enter_context(opened)
                kinds = {name: opened.get_slice(name).get_dtype() for name in opened.keys()}
            for name, kind in kinds.items():
                require(name not in seen, "model", f"{shown(name)} in two files", "it once")
                seen.add(name)
                if kind in FLOATS:
                    yield opened, name, kind
                elif not _unused(name, number):
                    given = f"{shown(name)} of {kind} in {file}"
                    require(False, "model", given, f"weights of {', '.join(FLOATS.values())}")

    def _tensors(self, stack: ExitStack, number: str) -> dict[str, torch.Tensor]:
        found = {}
        for opened, name, _ in self._listed(stack, number):
            with reading("model", shown(name)):
                found[name] = opened.get_tensor(name)
        return found

    def _require_ties(self, config: Any, tensors: dict[str, torch.Tensor]) -> None:
        """Tied weights, where the files hold both, must be equal."""
        if not getattr(config, "tie_word_embeddings", False):
            return
        heads = [n for n in tensors if n.endswith(("lm_head.weight", "predictions.decoder.weight"))]
        inner = ("wte.weight", "embed_tokens.weight", "embed_in.weight", "word_embeddings.weight")
        for name in heads:
            for other in (n for n in tensors if n.endswith(inner)):
                head, table = tensors[name], tensors[other]
                same = head.shape == table.shape and bool((head == table).all())
                given = f"{name} and {other}, which differ though config.json ties them"
                require(same, "model", given, 'equal ones, or "tie_word_embeddings": false')

    def encode(self, text: str) -> tuple[list[int], list[str]]:
        """Token ids of a text and the tokens; see :meth:`encode_all`."""
        return self.encode_all({"text": text})[0]

    def encode_all(self, texts: dict[str, str]) -> list[tuple[list[int], list[str]]]:
        """Token ids and tokens of texts by name, by the tokenizer of the folder.

        Raises InputError (argument: the name) for a folder without one, a text longer than the
        model takes, without tokens, or most of whose tokens are unknown.
        """
        family = self.config["model_type"]
        expected = "one that reads tokens; in Python, av.inspect(model, pixels)"
        require(family != "vit", "text", f"a model of family {family!r}", expected)
        files = _tokenizer_files(self.path, family)
        given = f"a text, and no tokenizer.json or vocab.txt in {self.path}"
        require(bool(files), "text", given, "one of them, or token ids (--tokens, inputs)")
        most = LONGEST if self.positions is None else min(LONGEST, PER_TOKEN * self.positions)
        for name, text in texts.items():
            long = f"{len(text):,} characters"
            require(len(text) <= most, name, long, f"at most {most:,} for this model")
        found = self._asked(files, {"texts": list(texts.values())})
        for name, (ids, words) in zip(texts, found, strict=True):
            self._require_readable(name, ids, words)
        return [(ids, words) for ids, words in found]

    def tokens(self, names: Sequence[str]) -> list[int]:
        """Ids of tokens, each a name of the vocabulary or a text that is one token.

        Raises InputError (argument ``scalar``) for one that is not.
        """
        files = _tokenizer_files(self.path, self.config["model_type"])
        given = f"the name of a token, and no tokenizer in {self.path}"
        require(bool(files), "scalar", given, "its number, as #7")
        found = self._asked(files, {"names": list(names)})
        for name, index in zip(names, found, strict=True):
            expected = "one token of the tokenizer of the folder, or its number as #7"
            require(type(index) is int, "scalar", f"{shown(name)}, which is no token", expected)
        return found

    def names(self, ids: Sequence[int]) -> list[str | None]:
        """Tokens by their ids; None for those that the tokenizer does not know, or without one."""
        files = _tokenizer_files(self.path, self.config["model_type"])
        if not files or importlib.util.find_spec("tokenizers") is None:
            return [None] * len(ids)
        return self._asked(files, {"ids": list(ids)})

    def _require_readable(self, name: str, ids: list[int], words: list[str]) -> None:
        require(bool(ids), name, "no token", "a text of at least one token")
        unknown = sum(token in tokenization.UNKNOWN for token in words)
        expected = "a text that the tokenizer of the folder knows, or token ids (--tokens)"
        given = f"{unknown} unknown tokens of {len(words)}"
        require(2 * unknown <= len(words), name, given, expected)
        most = self.positions
        expected = f"at most {most}, as the model takes"
        require(most is None or len(ids) <= most, name, f"{len(ids)} tokens", expected)

    def _asked(self, files: Sequence[str], questions: dict[str, list[Any]]) -> list[Any]:
        """What a tokenizer answers in another process, so that it cannot hang or end this one.

        questions: as :mod:`attninspect.tokenization` reads them.
        """
        found: Any = importlib.util.find_spec("tokenizers")
        require(found is not None, "text", "no package tokenizers", f"it ({hint(MODELS)})")
        letters = sum(len(str(each)) for row in questions.values() for each in row)
        seconds = SECONDS + letters // BYTES_A_SECOND
        options = parsed(self.path, OPTIONS) if OPTIONS in files else {}
        require(isinstance(options, dict), "model", f"{shown(options)} as {OPTIONS}", "an object")
        job = {
            "files": {name: content(self.path, name) for name in files if name != OPTIONS},
            "lowercase": options.get("do_lower_case", True) is not False,
            **questions,
            "seconds": seconds,
            "bytes": MEMORY,
        }
        try:
            # Processor seconds end it; the wall clock only what sleeps, on a machine however busy.
            done = subprocess.run(
                [sys.executable, "-P", tokenization.__file__],
                input=json.dumps(job).encode(),
                capture_output=True,
                timeout=60 * seconds,
                env={**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
            found = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            found = f"no end within {seconds} s of a processor, or too much memory"
        given = f"{files[0]}, which does not work on this text ({str(found)[:300]})"
        require(isinstance(found, list), "model", given, "a tokenizer that does")
        return found


def _weights(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the files of weights, and of their index if they have one."""
    if os.path.lexists(folder / WEIGHTS):
        regular(folder, WEIGHTS)
        return (WEIGHTS,), ()
    if not os.path.lexists(folder / INDEX):
        raise InputError(_no_weights(folder))
    body = parsed(folder, INDEX)
    places = body.get("weight_map") if isinstance(body, dict) else None
    good = isinstance(places, dict) and all(isinstance(name, str) for name in places.values())
    expected = '"weight_map": an object from names of tensors to names of files in the folder'
    if not good or not places:
        raise InputError(FOUND.format(f"{INDEX} with weight_map {shown(places)}", expected))
    names = tuple(sorted(set(places.values())))
    require(len(names) <= 4096, "model", f"{len(names)} files in {INDEX}", "at most 4096")
    for name in names:
        regular(folder, name)
    return names, (INDEX,)


def _tokenizer_files(folder: Path, family: str) -> tuple[str, ...]:
    """Names of the files of the first tokenizer that is there; none if there is none."""
    for names, own in TOKENIZERS:
        if own in (None, family) and all(os.path.lexists(folder / name) for name in names):
            options = (
                (OPTIONS,) if names[0] == "vocab.txt" and os.path.lexists(folder / OPTIONS) else ()
            )
            for name in (*names, *options):
                regular(folder, name)
            return (*names, *options)
    return ()


def _no_weights(path: Path) -> str:
    found = [file for file in sorted(path.iterdir()) if file.suffix in PICKLES]
    pickles = sorted(found, key=lambda file: "model" not in file.name)
    if not pickles:
        return f"model: got no *.safetensors in {path}, expected the weights of the model there"
    source, target = pickles[0], path / "model.safetensors"
    command = CONVERT + shlex.join((str(source), str(target)))
    return (
        f"model: got {source.name}, a pickle, which can run any program when it is opened, "
        f"expected safetensors; this converts it without running anything: {command}"
    )


def _unused(name: str, number: str) -> bool:
    """Whether a tensor is left out; number: "logit" or "class" if such a head is used."""
    used = number in USED and USED[number].fullmatch(name) is not None
    return UNUSED.fullmatch(name) is not None and not used


def _require_all(path: Path, told: dict[str, Any], head: str, kind: str) -> None:
    """Raise InputError unless the files hold all tensors that the trace needs and no others.

    head: "logit" or "class" if the tensors of such a head are needed, too, and no others of it.
    """
    lacking = sorted(map(str, told["missing_keys"])) if head else []
    without = f"no {lacking[:1]} in {path}" if lacking else ""
    weights = f"the weights of {kind}'s head; a coordinate (--coordinate) needs none"
    require(not lacking, "scalar", without, weights)

    def needed(names: Any) -> list[str]:
        return sorted(str(n) for n in names if not UNUSED.fullmatch(str(n)))

    sizes = [str(name) for name, *_ in told["mismatched_keys"]]
    sizes = sorted(sizes) if head else needed(sizes)
    wrong = f"{len(sizes)} tensors in {path} of other shapes, the first {sizes[:1]}"
    require(not sizes, "model", wrong, "the shapes of the model that config.json describes")
    missing = needed(told["missing_keys"])
    extra = sorted(str(n) for n in told["unexpected_keys"] if not _unused(str(n), head))
    few = f"{len(missing)} tensors missing in {path}, the first {missing[:1]}"
    require(not missing, "model", few, "all tensors of the model that config.json describes")
    many = f"{len(extra)} tensors in {path} that config.json does not explain: {extra[:1]}"
    require(not extra, "model", many, "the tensors of that model alone")
