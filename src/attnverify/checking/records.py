"""How hard to search, and what is found, in a form that can be printed, stored and compared."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from attnverify.support.errors import nearest, require
from attnverify.support.vocabulary import KINDS as KINDS
from attnverify.support.vocabulary import Kind as Kind
from attnverify.support.vocabulary import Outcome as Outcome

ATTAINED = 2.0**-40  # an extremal instance attains equality if its ratio is enclosed this near to 1
BEYOND = "its own instances have"  # in the detail of what a search found beyond them

T = TypeVar("T")


def require_kinds(kinds: Iterable[str]) -> None:
    """Raise InputError unless ``kinds`` are kinds of evidence, at least one."""
    asked = list(kinds)
    require(bool(asked), "evidence", "no kind", f"some of {', '.join(KINDS)}")
    for kind in asked:
        require(kind in KINDS, "evidence", repr(kind) + nearest(kind, KINDS), ", ".join(KINDS))


@dataclass(frozen=True)
class Settings:
    """How hard to search. Equal settings give equal results; raises InputError for no search."""

    samples: int = 400
    restarts: int = 24
    steps: int = 30
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("restarts", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            require(whole and value >= least, name, repr(value), f"an integer >= {least}")
        known = self.device in ("cpu", "cuda")
        require(known, "device", repr(self.device), "'cpu' or 'cuda'")
        if self.device == "cuda":
            import torch  # a report is read without it

            there = torch.cuda.is_available()
            require(there, "device", "'cuda'", "a machine with a CUDA device (or 'cpu')")

    def share(self, sizes: Collection[Any]) -> int:
        """How many random instances of each size are looked at: their number, rounded up."""
        return -(-self.samples // len(sizes))

    def cases(self, sizes: Collection[Any]) -> int:
        """How many random instances of all sizes are looked at."""
        return self.share(sizes) * len(sizes)


@dataclass(frozen=True)
class Record:
    """One piece of evidence for one claim.

    ratio: the largest left/right of an inequality seen, None where there is none; instances: how
    many instances or cases were looked at; seconds: wall time; limits: what this evidence does not
    show; check: which of the claim's checks; detail: the figures behind the outcome in words;
    decided: how many of the instances were decided, all of them unless told otherwise; refuted_at:
    for a certified inequality, a factor of the right side with which it is certainly false at one
    of these instances. So the best constant lies between this share of the stated one and the
    stated one.
    """

    kind: Kind
    check: str
    outcome: Outcome
    ratio: float | None
    instances: int
    seconds: float
    limits: str
    detail: str = ""
    decided: int = -1
    refuted_at: float | None = None

    def __post_init__(self) -> None:
        if self.decided < 0:
            object.__setattr__(self, "decided", self.instances)
        possible = self.refuted_at is None or self.refuted_at <= (self.ratio or 0)
        require(possible, "refuted_at", self.refuted_at, f"at most the ratio, {self.ratio}")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TwinRecord:
    """Whether a false neighbor of a claim was rejected by the checker that passes the claim.

    factor: of the right side, where the twin differs from the claim in nothing else.
    """

    check: str
    twin: str
    rejected: bool
    ratio: float | None
    detail: str
    factor: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Described:
    """A check without its code: its form, its kinds of evidence, its twins' titles."""

    form: str
    kinds: tuple[str, ...]
    twins: tuple[str, ...]


@dataclass(frozen=True)
class ClaimEvidence:
    """All numerical evidence gathered for one claim in one run, and its checks by name."""

    claim: str
    records: tuple[Record, ...]
    twins: tuple[TwinRecord, ...]
    checks: Mapping[str, Described]


def read(kind: type[T], value: Any) -> T:
    """A dataclass of plain fields from its JSON, where every field is, of its type, and no other.

    Raises InputError for anything else; a NaN or an infinity is no number.
    """
    hints = get_type_hints(kind)
    whole = isinstance(value, dict) and value.keys() == hints.keys()
    whole = whole and all(_fits(value[name], hint) for name, hint in hints.items())
    require(whole, kind.__name__, "other fields or types", ", ".join(hints))
    return kind(**value)


def _fits(value: Any, hint: Any) -> bool:
    options = get_args(hint)
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in options
    if options:
        return any(_fits(value, option) for option in options)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return value is None if hint in (None, NoneType) else type(value) is hint
