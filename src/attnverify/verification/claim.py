"""What a claim is, and the registry of claims, each with the origin of its checks.

No numerics here: a claim is a statement with where it comes from and what it rests on, and its
checks are loaded when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple

from attnverify.support.errors import InputError, nearest
from attnverify.support.tables import Table

if TYPE_CHECKING:
    from attnverify.checking.check import Check
    from attnverify.checking.records import ClaimEvidence, Described, Settings

Kind = Literal["theorem", "lemma", "proposition", "counterexample", "experiment", "conjecture"]
Assertion = Literal["holds", "fails"]


@dataclass(frozen=True)
class Source:
    """A bibliography key of book/references.bib and a place in that work.

    related: the work treats the subject, the statement itself is not taken from it.

    >>> import attnverify as av
    >>> print(av.Source("dong2021", "Theorem 2.2"))
    dong2021, Theorem 2.2
    >>> print(av.Source("dong2021", "section 4", related=True))
    related: dong2021, section 4
    """

    key: str
    locator: str
    related: bool = False

    def __str__(self) -> str:
        return f"{'related: ' if self.related else ''}{self.key}, {self.locator}"


@dataclass(frozen=True)
class Reading:
    """A possible misreading of a neighboring work, with what refutes it.

    says: the reading; near: a bibliography key, of the work beside which it is met and not of one
    that says so; instance: what refutes it, in words; check: the claim's check that decides it in
    exact arithmetic or balls; twin: the title of this check's twin that is the reading, None where
    the check itself is the instance; holds: the id of the claim that says what holds instead.

    >>> from attnverify.verification.claim import Reading
    >>> Reading("Sums are even.", "dong2021", "1 + 2 = 3", "sums", "mine.sums").twin is None
    True
    """

    says: str
    near: str
    instance: str
    check: str
    holds: str
    twin: str | None = None


@dataclass(frozen=True)
class Claim:
    """One statement of the book.

    statement: MyST text with LaTeX. sources: published places; empty means proved in this book.
    here: what of it is proved in this book. uses: ids of the claims it rests on. notebook: the
    stem of the notebook that derives it, or shows it if it is an experiment. asserts: "holds",
    or "fails" for a published statement that the book refutes or a criterion that was not met
    here; fails_because: the reason in a sentence or two, without formulas that need a display;
    corrected_by: the id of the statement that replaces it; sharpens: the id of the published
    claim of which this is a sharper form; reads: the id of a refuted claim whose published
    sentence this one reads in another way; refutes: readings that an instance of this claim, or a
    twin of its checks, shows false; checked: a digest of the check cells of its chapter that name
    it or no claim, "" if none names it.

    A claim holds no numerics; its checks are found by its id.

    >>> import attnverify as av
    >>> claim = av.Claim("mine.squares", "Squares", "lemma", "$x^2 \\\\ge 0$.", here="proof")
    >>> claim.source
    'proved here: proof'
    >>> av.claims.registry["softmax.total-variation"].kind
    'theorem'
    """

    id: str
    title: str
    kind: Kind
    statement: str
    notebook: str = ""
    sources: tuple[Source, ...] = ()
    here: str = ""
    uses: tuple[str, ...] = ()
    asserts: Assertion = "holds"
    fails_because: str = ""
    corrected_by: str | None = None
    sharpens: str | None = None
    reads: str | None = None
    refutes: tuple[Reading, ...] = ()
    checked: str = field(default="", compare=False)

    @property
    def published(self) -> bool:
        """Whether the statement, or a part of it, comes from a published work."""
        return any(not s.related for s in self.sources)

    @property
    def source(self) -> str:
        """Published places first and then what is proved here, on one line."""
        places = [str(s) for s in self.sources]
        return "; ".join([*places, *([f"{self.done} here: {self.here}"] if self.here else [])])

    @property
    def derived(self) -> bool:
        """Whether a derivation is asked for; the outcome of an experiment has none."""
        return self.kind != "experiment"

    @property
    def label(self) -> str:
        """The word of its box, "Theorem"; "False Statement" for a published one that is refuted."""
        return "False Statement" if self.asserts == "fails" and self.derived else self.kind.title()

    @property
    def done(self) -> str:
        """The word for what was done here, "proved" or, for an experiment, "measured"."""
        return "proved" if self.derived else "measured"

    @property
    def digest(self) -> str:
        """Digest of all that a reader takes for the statement; white space does not count."""
        read = [f"{reading.says} {reading.instance}" for reading in self.refutes]
        parts = [self.kind, self.asserts, self.title, self.statement, self.fails_because, *read]
        return sha256(" ".join(" ".join(parts).split()).encode()).hexdigest()[:12]

    def _repr_markdown_(self) -> str:
        source = f"\n\n*Source:* {self.source}" if self.source else ""
        return f"**{self.title}** (`{self.id}`, {self.kind})\n\n{self.statement.strip()}{source}"


class Origin:
    """Where claims come from: small, and sent to every process that is to check one of them."""

    def checks_of(self, id: str) -> Mapping[str, Check]:
        """The checks of a claim by name; their code is loaded into this process.

        Raises InputError where none are known, as for claims that are only stated.
        """
        raise InputError(f"id: got {id!r}, a claim without checks, expected one with an origin")

    def gather(self, id: str, settings: Settings, kinds: Iterable[str]) -> ClaimEvidence:
        """The numerical evidence for a claim; its checks run in this process."""
        from attnverify.checking.gather import gather

        return gather(id, self.checks_of(id), settings, kinds)

    def cells(self, id: str) -> tuple[str, ...] | None:
        """The source of the cells that the checks of a claim come from, () if they stand in none.

        None where what they depend on is not known; then their evidence is never kept.
        """
        return None

    def changed(self, claim: Claim) -> str:
        """Why the statement of a claim is not the one that was read; "" if it is.

        Claims from outside have no such record.
        """
        return ""


class _Entry(NamedTuple):
    claim: Claim
    origin: Origin
    described: Mapping[str, Described] | None  # None: of the checks themselves


class Registry(Mapping[str, Claim]):
    """All claims by id, in the order of the book; ids accept globs in :meth:`select`.

    home: the origin of the claims that it is made with; others can join.
    """

    def __init__(self, claims: Iterable[Claim] = (), home: Origin | None = None) -> None:
        self._entries: dict[str, _Entry] = {}
        self.home = home or Origin()
        self.join(claims, self.home)

    def join(
        self,
        claims: Iterable[Claim],
        origin: Origin,
        described: Mapping[str, Mapping[str, Described]] | None = None,
        instead_of: Iterable[str] = (),
    ) -> None:
        """Add claims of an origin, in the place of those of some ids.

        described: what is said of their checks where these must not be loaded to be described.
        Raises InputError, and changes nothing, if one is known or uses an unknown one.
        """
        leaving = set(instead_of)
        joined = {id: entry for id, entry in self._entries.items() if id not in leaving}
        for claim in claims:
            if claim.id in joined:
                raise InputError(f"id: got {claim.id!r} twice, expected one claim an id")
            joined[claim.id] = _Entry(claim, origin, described[claim.id] if described else None)
        for claim, *_ in joined.values():
            repaired = (reading.holds for reading in claim.refutes)
            for other in (*claim.uses, claim.corrected_by, claim.sharpens, claim.reads, *repaired):
                if other is not None and other not in joined:
                    hint = nearest(other, joined)
                    raise InputError(f"{claim.id}: uses unknown claim {other!r}{hint}")
        self._entries = joined

    def tell(self, id: str, described: Mapping[str, Described]) -> None:
        """Say what the checks of a claim are, which then need not be loaded to be described."""
        self._entries[id] = self._entry(id)._replace(described=described)

    def origin_of(self, id: str) -> Origin:
        """The origin of a claim; raises InputError for an unknown id."""
        return self._entry(id).origin

    def checks_of(self, id: str) -> Mapping[str, Check]:
        """The checks of a claim by name, loaded into this process."""
        return self.origin_of(id).checks_of(id)

    def described(self, id: str) -> Mapping[str, Described]:
        """What is said of the checks of a claim, by name; no code of another origin is run."""
        known = self._entry(id).described
        if known is not None:
            return known
        from attnverify.checking.check import described

        return {name: described(check) for name, check in self.checks_of(id).items()}

    @property
    def prefixes(self) -> frozenset[str]:
        """What ids of its home's claims start with, before the first dot."""
        home = (id for id, entry in self._entries.items() if entry.origin is self.home)
        return frozenset(id.split(".")[0] for id in home)

    def _repr_html_(self) -> str:
        rows = [(claim.id, claim.kind, claim.title) for claim in self.values()]
        return Table(f"{len(rows)} claims", ("id", "kind", "title"), rows)._repr_html_()

    def __getitem__(self, id: str) -> Claim:
        return self._entry(id).claim

    def _entry(self, id: str) -> _Entry:
        if id not in self._entries:
            raise InputError(f"id: got {id!r}, expected a claim id{nearest(id, self._entries)}")
        return self._entries[id]

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def select(self, patterns: Iterable[str]) -> list[Claim]:
        """Claims whose id matches any of the patterns, in order; all of them for no pattern."""
        patterns = list(patterns)
        for pattern in patterns:
            if not any(fnmatchcase(id, pattern) for id in self):
                hint = nearest(pattern, self._entries)
                raise InputError(f"id: got {pattern!r}, expected a claim id or a glob{hint}")
        return [
            claim
            for claim in self.values()
            if not patterns or any(fnmatchcase(claim.id, p) for p in patterns)
        ]

    def completed(self, claims: Iterable[Claim]) -> list[Claim]:
        """The claims, what they rest on and what corrects them: what their statuses depend on."""
        found: set[str] = set()
        pending = [claim.id for claim in claims]
        while pending:
            claim = self[pending.pop()]
            if claim.id not in found:
                found.add(claim.id)
                pending += [*claim.uses, *filter(None, [claim.corrected_by])]
        return [claim for claim in self.values() if claim.id in found]

    def ancestors(self, id: str) -> list[str]:
        """Every claim that ``id`` rests on, directly or not."""
        found: list[str] = []
        pending = list(self[id].uses)
        while pending:
            other = pending.pop()
            if other == id:
                raise InputError(f"{id}: rests on itself")
            if other not in found:
                found.append(other)
                pending += self[other].uses
        return sorted(found, key=list(self).index)
