"""A file that asks for a best constant, and the claim that the answer is written as.

The file has ``left`` and ``right``, functions of named arrays; ``SIZES``, a list of their shapes;
and may have ``build`` and ``hypotheses``, as :class:`~attnverify.evidence.forms.Inequality` takes
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from attnverify.errors import InputError, require
from attnverify.evidence import outside
from attnverify.evidence.conjecture import Constant, Progress, best_constant
from attnverify.evidence.search import Settings

NAMES = {"left": "left", "right": "right", "SIZES": "sizes"}
OPTIONAL = ("build", "hypotheses")
TAKEN = ("CLAIMS", "CHECKS", "CONSTANT")

CLAIM = """

# From here on written by `attnverify conjecture`. {found}
import attnverify as av
import torch

CONSTANT = "{constant}"
CLAIMS = [
    av.Claim(
        id="{name}.bound",
        title="A bound with the constant {constant}",
        kind="conjecture",
        statement="left <= {constant} right, for every instance of every size.",
    )
]


def _bound(**instance):
    value = right(**instance)
    return av.number(CONSTANT, value) * value


def _near_equality():
    return {{
{arrays}
    }}


CHECKS = {{
    "{name}.bound": {{
        "bound": av.Inequality(
            left=left,
            right=_bound,
            sizes=tuple(SIZES),{options}
            extremal=(_near_equality,),
        ).times({twin!r})
    }}
}}
"""


def answer(path: Path, settings: Settings, progress: Progress | None = None) -> Constant:
    """The best constant that a file asks for; raises InputError if it asks for none."""
    file = outside.read(path, "file")
    names = outside.executed(file)
    for name in NAMES:
        require(name in names, "file", f"{file.name} without {name}", f"{', '.join(NAMES)}")
    taken = [name for name in TAKEN if name in names]
    require(not taken, "file", f"{file.name} with {', '.join(taken)}", "a file that states nothing")
    sizes = names["SIZES"]
    shapes = isinstance(sizes, list | tuple) and sizes and all(isinstance(s, dict) for s in sizes)
    require(bool(shapes), f"{file.name}: SIZES", repr(sizes), "as [{'u': (3,)}, {'u': (5,)}]")
    given = {key: names[name] for name, key in NAMES.items()}
    given |= {name: names[name] for name in OPTIONAL if name in names}
    return best_constant(**given, settings=settings, progress=progress)


def as_claim(path: Path, constant: Constant) -> str:
    """The file with the claim that its constant is the one proposed, and a near twin.

    Raises InputError if none is proposed.
    """
    if constant.proposal is None:
        raise InputError(f"out: got {constant}, expected a proposal to be written as a claim")
    text = path.read_text(encoding="utf-8").rstrip()
    names = outside.executed(outside.read(path, "file"))
    options = "".join(f"\n            {name}={name}," for name in OPTIONAL if name in names)
    name = "".join(c if c.isalnum() else "-" for c in path.stem.lower()).strip("-") or "mine"
    return text + CLAIM.format(
        found=str(constant),
        constant=constant.proposal.constant,
        name=name,
        arrays="\n".join(_array(key, value) for key, value in constant.instance.items()),
        options=options,
        twin=constant.twin,
    )


def _array(name: str, value: torch.Tensor) -> str:
    """An array of the instance as exact numbers."""
    numbers = ", ".join(f'"{float(v).hex()}"' for v in value.flatten())
    shape: Any = tuple(value.shape)
    flat = f"torch.tensor([float.fromhex(v) for v in [{numbers}]], dtype=torch.float64)"
    return f'        "{name}": {flat}.reshape({shape}),'
