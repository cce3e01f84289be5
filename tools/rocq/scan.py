"""What a theory may not say: a scan of its sentences, before anything is compiled.

`Print Assumptions` is the second look, by the prover itself, and sees axioms however they came in.
The scan also sees what it does not: a plugin that is loaded, a check that is switched off for a
stretch, a hypothesis outside a section under a friendly name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN = re.compile(r'\(\*|\*\)|"(?:[^"]|"")*"|\.(?=\s|$)|[^"(*.]+|.', re.S)
#: What may stand before a command: attributes, bullets and words that change its reach.
BEFORE = re.compile(
    r"(?:#\[[^\]]*\]|Local|Global|Export|Time|Timeout\s+\d+|Fail|Succeed|Instructions"
    r"|Polymorphic|Monomorphic|Cumulative|NonCumulative|Program|Private|[-+*{}]+|\d+\s*:)\s*"
)
COMMANDS = (
    (r"Axioms?|Parameters?|Conjectures?|Primitive", "assumes something without a proof"),
    (r"Admitted|Admit\s+Obligations", "ends a proof that is not complete"),
    (r"Declare\s+Module|Module\s+Type|Declare\s+ML\s+Module", "takes something as given"),
    (r"Load|Cd|Drop|Add\s+(?:Rec\s+)?(?:Load|ML)\s*Path", "reads what is not listed"),
    (r"(?:Uns|S)et\s+(?:Guard|Positivity|Universe)\s+Checking", "switches a check of the kernel"),
    (
        r"(?:Uns|S)et\s+(?:Typing\s+Flags|Type\s+In\s+Type|Universe\s+(?!Checking)\w+)",
        "changes the kernel's rules",
    ),
    (r"(?:Uns|S)et\s+Definitional\s+UIP", "changes the kernel's rules"),
)
FORBIDDEN = [(re.compile(rf"(?:{pattern})\b"), why) for pattern, why in COMMANDS]
INSIDE = (
    (re.compile(r"\b(?:admit|give_up)\b"), "leaves a part of a proof out"),
    (re.compile(r"\bbypass_check\b"), "switches a check of the kernel off"),
    (re.compile(r"\bnative_(?:compute|cast_no_check)\b"), "computes outside the kernel"),
)
LOCAL = re.compile(r"(?:Hypothes[ie]s|Hypothesis|Variables?|Context)\b")
OPENS = re.compile(r"(Section|Module)\s+(?:(?:Import|Export)\s+)?(\w+)")
CLOSES = re.compile(r"End\s+(\w+)")


@dataclass(frozen=True)
class Sentence:
    """A command or a step of a proof, without comments, and the line in which it starts."""

    line: int
    text: str

    @property
    def bare(self) -> str:
        """The text without what may stand before a command."""
        text = self.text
        while found := BEFORE.match(text):
            text = text[found.end() :]
        return text


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a theory; a full stop before white space ends one."""
    depth, line, start, parts = 0, 1, 0, []
    for found in TOKEN.finditer(text):
        token = found.group()
        if token == "(*":
            depth += 1
        elif token == "*)" and depth:
            depth -= 1
        elif not depth:
            if not start and token.strip():
                start = line + token[: len(token) - len(token.lstrip())].count("\n")
            if token == ".":
                yield Sentence(start, " ".join("".join(parts).split()))
                start, parts = 0, []
            else:
                parts.append('""' if token[0] == '"' and len(token) > 1 else token)
        line += token.count("\n")
    if "".join(parts).strip():
        yield Sentence(start, " ".join("".join(parts).split()))


def offences(path: Path) -> list[str]:
    """The forbidden sentences of a theory: "NAME.v, line 3: Admitted: ends a proof ..."."""
    found, open_ = [], []
    for sentence in sentences(path.read_text(encoding="utf-8")):
        bare = sentence.bare
        reasons = [why for pattern, why in FORBIDDEN if pattern.match(bare)]
        reasons += [why for pattern, why in INSIDE if pattern.search(sentence.text)]
        if LOCAL.match(bare) and "Section" not in [kind for kind, _ in open_]:
            reasons.append("is an axiom outside a section")
        if opened := OPENS.match(bare):
            open_.append(opened.groups())
        elif (closed := CLOSES.match(bare)) and open_ and open_[-1][1] == closed[1]:
            open_.pop()
        found += [f"{path.name}, line {sentence.line}: {sentence.text[:60]}: {r}" for r in reasons]
    return found


FLAG = re.compile(r"-arg -w -arg [\w,+-]+")


def listed(project: Path) -> tuple[list[str], list[str]]:
    """The theories that a _CoqProject lists, in order, and what else it says that it may not."""
    theories, bad = [], []
    for line in project.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if re.fullmatch(r"\w+\.v", line):
            theories.append(line)
        elif line and line != "-Q . AttnVerify" and not FLAG.fullmatch(line):
            bad.append(f"{project.name}: {line}: only theories, -Q . AttnVerify and warnings")
    return theories, bad


def offences_in(folder: Path) -> list[str]:
    """Every offence of a folder, theories that are not listed included."""
    theories, found = listed(folder / "_CoqProject")
    there = {path.name for path in folder.glob("*.v")}
    found += [f"{name}: is not listed in _CoqProject" for name in sorted(there - set(theories))]
    found += [
        f"{name}: is listed in _CoqProject and is not there"
        for name in theories
        if name not in there
    ]
    for path in sorted([*folder.glob("*.v"), *folder.glob("neighbors/*.v")]):
        found += offences(path)
    return found
