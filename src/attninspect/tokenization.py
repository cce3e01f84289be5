"""A program that turns text into tokens, in a process of its own.

A folder's tokenizer is a program, too: its patterns can take for ever, and its library may end the
process. So it gets limits of processor seconds and memory, and what it prints is not shown. Nothing
but the standard library and ``tokenizers`` is imported: no torch is waited for.
"""

from __future__ import annotations

import json
import sys
from typing import Any

UNKNOWN = ("[UNK]", "<unk>")


def tokenizer(job: dict[str, Any]) -> Any:
    """The tokenizer that the files describe; it never pads or truncates."""
    import tokenizers

    files = job["files"]
    if "tokenizer.json" in files:
        made = tokenizers.Tokenizer.from_str(files["tokenizer.json"])
    elif "vocab.txt" in files:
        words = {word: index for index, word in enumerate(files["vocab.txt"].splitlines())}
        made = tokenizers.BertWordPieceTokenizer(words, lowercase=job["lowercase"])
    else:
        made = byte_pairs(json.loads(files["vocab.json"]), files["merges.txt"])
    made.no_padding()
    made.no_truncation()
    return made


def byte_pairs(vocabulary: dict[str, int], merges: str) -> Any:
    """GPT-2's tokenizer: its pattern splits words, whose bytes are merged by rank."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    lines = [line for line in merges.splitlines() if line and not line.startswith("#version")]
    pairs: Any = [tuple(line.split(" ")) for line in lines]
    made = tokenizers.Tokenizer(models.BPE(vocabulary, pairs))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["<|endoftext|>"] if "<|endoftext|>" in vocabulary else [])
    return made


def answers(made: Any, job: dict[str, Any]) -> list[Any]:
    """Ids and tokens of ``texts``; the id of each of ``names``, or none; tokens of ``ids``."""
    if "names" in job:
        return [id_of(made, name) for name in job["names"]]
    if "ids" in job:
        return [made.id_to_token(index) for index in job["ids"]]
    encoded = [made.encode(text) for text in job["texts"]]
    return [[each.ids, each.tokens] for each in encoded]


def id_of(made: Any, name: str) -> int | None:
    """The id of a token by its name, or of a text that is one token."""
    found = made.token_to_id(name)
    if found is None:
        ids = made.encode(name, add_special_tokens=False)
        found = ids.ids[0] if len(ids.ids) == 1 and ids.tokens[0] not in UNKNOWN else None
    return found


def main() -> None:
    job = json.load(sys.stdin)
    try:
        import resource
    except ImportError:  # Windows: the wall clock alone ends it
        pass
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"],) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (job["bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        found: Any = answers(tokenizer(job), job)
    except BaseException as error:  # what the library raises is no Exception where a pattern ends
        found = f"{type(error).__name__}: {error}"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
