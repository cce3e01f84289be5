"""A file that asks for a best constant, and the claim that the answer is written as.

The file has ``left`` and ``right``, functions of named arrays; ``SIZES``, a list of their shapes;
and may have ``build`` and ``hypotheses``, as :class:`~attnverify.checking.check.Inequality` takes
them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnverify.checking.check_fields import require_sizes
from attnverify.checking.records import Settings
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import run_all
from attnverify.support.errors import InputError, require
from attnverify.verification import claim_files
from attnverify.verification.conjecture import Constant, best_constant

NAMES = ("left", "right", "SIZES")
OPTIONAL = ("build", "hypotheses")
#: What the short form calls them.
FIELDS = {"build": "draw", "hypotheses": "where"}
CLAIM = '''

# From here on written by `attnverify conjecture`. {found}
r"""
```{{claim}} {name}.bound
:title: A bound with the constant {constant}
:kind: conjecture

left <= {constant} right, for every instance of every size.
```
"""
import attnverify as av

CONSTANT = "{constant}"


@av.inequality(
    "{name}.bound", "{arrays}", {sizes}, tight={twin!r}{options}
)
def bound({names}):
    value = right({keywords})
    return left({keywords}), av.number(CONSTANT, value) * value


bound.equal({instance})
'''


@dataclass(frozen=True)
class Answer:
    """What was found, and the file as a claim: "" where no constant is proposed."""

    constant: Constant
    claim: str

    def require_claim(self) -> str:
        """The claim; raises InputError if there is none."""
        given = str(self.constant)
        require(bool(self.claim), "out", given, "a proposal to be written as a claim")
        return self.claim


def answer(
    path: Path,
    settings: Settings,
    limit: int | float = claim_files.LIMIT,
    taken: Collection[str] = (),
) -> Answer:
    """The best constant that a file asks for, found in a process of its own.

    taken: prefixes of ids that the claim must not have. Raises InputError if the file asks for
    none, RunError after ``limit`` seconds.
    """
    file = claim_files.read(path, "file")
    task = Task(f"the search of {file.name}", _answer, (file, settings, taken), limit)
    (found,) = run_all([task], 1)
    return found


def _answer(file: claim_files.ClaimFile, settings: Settings, taken: Collection[str] = ()) -> Answer:
    names = claim_files.executed(file).names
    for name in NAMES:
        require(name in names, "file", f"{file.name} without {name}", ", ".join(NAMES))
    states = "```{claim}" in file.text
    require(not states, "file", f"{file.name} with a claim", "a file that states nothing")
    require_sizes(f"{file.name}: ", names["SIZES"])  # values of a file have no types yet
    options = {name: names[name] for name in OPTIONAL if name in names}
    try:
        found = best_constant(
            names["left"], names["right"], names["SIZES"], **options, settings=settings
        )
    except InputError as error:
        raise InputError(f"{file.name}: {error}") from error
    return Answer(
        found, as_claim(file, found, names["SIZES"], options, taken) if found.proposal else ""
    )


def as_claim(
    file: claim_files.ClaimFile,
    found: Constant,
    sizes: Sequence[Mapping[str, Sequence[int]]],
    options: Any = (),
    taken: Collection[str] = (),
) -> str:
    """The file with the claim that its constant is the one proposed, and a near twin."""
    assert found.proposal is not None
    arrays, lengths = _axes(sizes)
    names = list(found.instance)
    return file.text.rstrip() + CLAIM.format(
        found=str(found),
        constant=found.proposal.constant,
        name=prefix(file.name, taken),
        arrays=arrays,
        sizes=", ".join(map(repr, lengths)),
        twin=found.twin,
        options="".join(f", {FIELDS[name]}={name}" for name in options),
        names=", ".join(names),
        keywords=", ".join(f"{name}={name}" for name in names),
        instance=", ".join(f"{name}={value.tolist()}" for name, value in found.instance.items()),
    )


def _axes(sizes: Sequence[Mapping[str, Sequence[int]]]) -> tuple[str, list[tuple[int, ...]]]:
    """The shapes as a line of arrays with axes; axes of equal lengths in all shapes are one."""
    axes: dict[tuple[int, ...], str] = {}
    arrays = []
    for name, shape in sizes[0].items():
        lengths = [tuple(int(one[name][k]) for one in sizes) for k in range(len(shape))]
        own = [axes.setdefault(each, f"n{len(axes)}") for each in lengths]
        arrays.append(f"{name}[{','.join(own)}]")
    return " ".join(arrays), list(zip(*axes, strict=True))


def prefix(file: str, taken: Collection[str]) -> str:
    """The prefix of ids for a file's name: none that is taken, and one that ids may have."""
    name = re.sub(r"[^a-z0-9]+", "-", Path(file).stem.lower()).strip("-")
    return name if name[:1].isalpha() and name not in taken else f"my-{name}".rstrip("-")
