"""The definitions that the registered statements reach: what a reader has to read beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnverify.verification import formal
from rocq import prover
from rocq.scan import sentences

Entry = dict[str, Any]
TYPES = "Record|Structure|Inductive|Variant"
TYPE = re.compile(rf"(?:{TYPES})\s+(\w+)")
DEFINES = f"Definition|Fixpoint|{TYPES}"


def definitions(copy: Path, theories: Sequence[str], theorems: Sequence[str]) -> list[Entry]:
    """Every definition of the project that a registered statement reaches, as it is printed.

    The prover is asked for the transparent constants below the statements, not below the proofs.
    """
    if not theorems:
        return []
    types = "".join(f"let t{k} := type of @{n} in " for k, n in enumerate(theorems))
    product = " * ".join(f"t{k}" for k in range(len(theorems)))
    start = prover.opening(theories, plain=True)
    start += f"Definition statements := ltac:({types}exact ({product})%type).\n"
    (answer,) = prover.ask(copy, start, ["Print All Dependencies statements."])
    stems = {name.removesuffix(".v") for name in theories}
    constants, _, _ = answer.partition("Opaque constants:")
    reached = re.findall(r"^(?:AttnVerify\.)?(\w+)\.(\w+) :(?! bigop\.Monoid)", constants, re.M)
    names = [f"{m}.{name}" for m, name in reached if m in stems]
    names += _types(copy, theories)
    start = prover.opening(theories)
    answers = prover.ask(copy, start, (f"Print AttnVerify.{name}." for name in names))
    found = [
        {"name": f"AttnVerify.{name}", "text": _printed(answer)}
        for name, answer in zip(names, answers, strict=True)
    ]
    return sorted(_without_fields(found), key=lambda e: _place(e["name"], copy, theories))


def _types(copy: Path, theories: Sequence[str]) -> list[str]:
    """The records and inductive types of the project."""
    texts = {name: (copy / name).read_text(encoding="utf-8") for name in theories}
    return [
        f"{name.removesuffix('.v')}.{found[1]}"
        for name, text in texts.items()
        for sentence in sentences(text)
        if (found := TYPE.match(sentence.bare))
    ]


def _printed(answer: str) -> str:
    """A definition without the note on its arguments."""
    text = re.split(r"\n\s*\n?Arguments ", answer.rstrip())[0]
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def _without_fields(found: Sequence[Entry]) -> list[Entry]:
    """Without the fields of records, which their record shows, and types that nothing reaches."""
    records = [e for e in found if e["text"].startswith(("Record", "Inductive", "Variant"))]
    fields = {f for e in records for f in re.findall(r"[{;]\s*(\w+) :", e["text"])}
    plain = [e for e in found if e not in records and _short(e) not in fields]
    texts = " ".join(e["text"] for e in [*plain, *records])
    return [*plain, *(e for e in records if len(re.findall(rf"\b{_short(e)}\b", texts)) > 1)]


def _short(entry: Mapping[str, str]) -> str:
    return entry["name"].rpartition(".")[2]


def _place(name: str, copy: Path, theories: Sequence[str]) -> tuple[int, int]:
    """Where a definition stands: its theory, and the line there."""
    file = f"{formal.module(name)}.v"
    text = (copy / file).read_text(encoding="utf-8")
    starts = re.compile(rf"(?:{DEFINES})\s+{name.rpartition('.')[2]}\b")
    lines = (s.line for s in sentences(text) if starts.match(s.bare))
    return theories.index(file), next(lines, len(text))
