"""Claims from outside the book: in a file, or in a module of an installed package.

A file is an origin of claims, as the chapters of the book are, and is written as they are
(``claim_text``): statements in fences, checks by ``av.inequality`` and
its kin, derivations in cells tagged ``derivation``, or in a Python file in a function ``derive``.
Its claims are checked like the book's own. It is code and runs with the rights of whoever starts
it; every process that checks it gets the text that was read first, so all of them check the same.
"""

from __future__ import annotations

import hashlib
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnverify.checking.records import ClaimEvidence, Described, Record, Settings
from attnverify.derivation import notebook_sources
from attnverify.derivation import run_cells as derivations
from attnverify.derivation.myst import Cell
from attnverify.derivation.notebook_sources import Source as Derivation
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import run_all
from attnverify.support.errors import InputError, as_given, in_words, require
from attnverify.verification import check_cells, claim_text, statements
from attnverify.verification.claim import Claim, Origin, Registry

if TYPE_CHECKING:
    from attnverify.checking.check import Check
    from attnverify.checking.declare import Declared

GROUP = "attnverify.topics"  # of entry points; the name of one is the prefix of its ids
ID = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
LIMIT = 600.0  # seconds for a piece
LARGEST = 1 << 20  # bytes of a file
KINDS = ("theorem", "lemma", "proposition", "counterexample", "conjecture")
WORDS = "a file of claims, .py, .md or .ipynb"
SIZES = "; sizes "  # in the limits of evidence, in front of those tried
#: What stands in the cells with a tag, and in no others.
TAGGED = {
    check_cells.TAG: re.compile(r"^@av\.(inequality|identity|decision|definition)\b", re.M),
    notebook_sources.TAG: re.compile(r"\bav\.ledger\.(derived|rejected)\("),
}


@dataclass(frozen=True)
class ClaimFile(Origin):
    """Where claims come from: name of the file or module, its text, and the text's SHA-256.

    name: ends in a suffix or begins with "module ", so that no notebook has it; module: what to
    import, "" for a file, whose text is run; place: its path, which tells an edited file from
    another one of the same name; derives: whether it is known to have derivations.
    """

    name: str
    text: str
    sha256: str
    module: str = ""
    place: str = field(default="", compare=False, repr=False)
    derives: bool = field(default=False, compare=False)

    @property
    def source(self) -> str:
        """The name, with the suffix of what it is written as."""
        return f"{self.name}.py" if self.module else self.name

    def checks_of(self, id: str) -> Mapping[str, Check]:
        """The checks of one of its claims; the file runs in this process, if it has not yet."""
        return stated(self).checks[id]

    def gather(self, id: str, settings: Settings, kinds: Iterable[str]) -> ClaimEvidence:
        """As for any claim; the limits name the sizes that were looked at: no reader saw them."""
        checks = self.checks_of(id)
        try:
            found = super().gather(id, settings, kinds)
        except Exception as error:  # whatever a formula or decision raises is what is wrong with it
            said = str(error) if isinstance(error, InputError) else f"got {_at(error, self)}"
            raise InputError(f"{id}: {said}, in a check of {self.name}") from error
        records = tuple(_with_sizes(checks[r.check], r) for r in found.records)
        return replace(found, records=records)


@dataclass(frozen=True)
class Stated:
    """What a file states: its claims, their checks, and its derivations, as function or cells."""

    claims: list[Claim]
    checks: dict[str, Mapping[str, Check]]
    derive: Callable[[], Any] | None
    cells: tuple[Cell, ...]


#: What the files state that ran in this process.
_RAN: dict[ClaimFile, Stated] = {}


def read(path: Path, argument: str = "claims") -> ClaimFile:
    """A file of claims; nothing is executed. Raises InputError if it cannot be one."""
    require(path.suffix in claim_text.SUFFIXES, argument, str(path), WORDS)
    require(path.is_file(), argument, f"{path}, which is not there", WORDS)
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{argument}: got {in_words(error)}, expected {WORDS}") from error
    require(len(content) <= LARGEST, argument, f"{path}, of more", f"at most {LARGEST} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{argument}: got {path}, which is no UTF-8, expected text") from error
    digest = hashlib.sha256(content).hexdigest()
    return ClaimFile(path.name, text, digest, place=str(path.resolve()))


def installed(prefix: str) -> ClaimFile | None:
    """The claims that an installed package offers under a prefix of ids, if one does."""
    found = [point for point in _points() if point.name == prefix]
    require(len(found) < 2, "id", f"{prefix!r} from {len(found)} packages", "one package a prefix")
    if not found:
        return None
    spec = _located(found[0])
    if spec is None or not spec.origin:
        raise InputError(
            f"id: got {prefix!r}, of the entry point {as_given(found[0].value)}, which is not "
            "there, expected the name of a module"
        )
    return replace(read(Path(spec.origin), "id"), name=f"module {spec.name}", module=spec.name)


def _located(point: EntryPoint) -> ModuleSpec | None:
    """Where the module of an entry point lies; none of its packages is imported."""
    first, *rest = point.value.split(":")[0].strip().split(".")
    try:
        spec = find_spec(first)
        for part in rest:
            if spec is None or not spec.submodule_search_locations:
                return None
            spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    return spec


def _points() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def file_of(registry: Registry, id: str) -> ClaimFile | None:
    """The file that a claim comes from; None for a claim of the registry's home."""
    origin = registry.origin_of(id)
    return origin if isinstance(origin, ClaimFile) else None


def join(registry: Registry, file: ClaimFile, limit: int | float = LIMIT) -> list[Claim]:
    """Add the claims of a file to a registry; its code runs in a process of its own.

    A file that is there already changes nothing; one that was edited takes the place of what it
    stated before. Raises InputError with what is wrong in the file, and RunError after ``limit``
    seconds: nothing changes then.
    """
    before = {id: other for id in registry if (other := file_of(registry, id))}
    before = {id: other for id, other in before.items() if other.name == file.name}
    others = [other for other in before.values() if other.place != file.place]
    require(not others, "claims", f"two files {file.name}", "files of different names")
    if before and file in before.values():
        return [registry[id] for id in before]
    task = Task(f"reading {file.name}", examine, (file,), limit)
    ((claims, checks, derives),) = run_all([task], 1)
    for claim in claims:
        prefix = claim.id.split(".")[0]
        words = f"a prefix other than {prefix!r}, a book's"
        require(prefix not in registry.prefixes, f"{file.name}: id", repr(claim.id), words)
    registry.join(claims, replace(file, derives=derives), checks, instead_of=before)
    return claims


def examine(file: ClaimFile) -> tuple[list[Claim], dict[str, dict[str, Described]], bool]:
    """What a file states, without its code, after its formulas were tried: run in this process.

    The claims, what is said of their checks, and whether there are derivations.
    """
    from attnverify.checking.check import described
    from attnverify.checking.preflight import require_formulas

    own = stated(file)
    for id, checks in own.checks.items():
        for name, check in checks.items():
            where = f"{id}, check {name!r}: "
            require_formulas(where, check)
    checks = {
        id: {name: described(check) for name, check in checks.items()}
        for id, checks in own.checks.items()
    }
    return own.claims, checks, bool(own.derive or own.cells)


def stated(file: ClaimFile) -> Stated:
    """Run a file in this process, once; raises InputError with what is wrong in it."""
    if file not in _RAN:
        _RAN[file] = _read(file)
    return _RAN[file]


def _read(file: ClaimFile) -> Stated:
    parts = claim_text.parts(file.source, file.text)
    claims = [_claim(file, claim) for claim in statements.read(parts.markdown, file.name)]
    require(bool(claims), file.name, "no claims", "statements in fences ```{claim} ID")
    for cell in () if file.source.endswith(".py") else parts.cells:
        for tag, pattern in TAGGED.items():
            found = pattern.search(cell.source) if tag not in cell.tags else None
            where = cell.name or f"{file.name}, line {cell.line}"
            given = f"{found and found[0]} in a cell with the tags {list(cell.tags)}"
            require(found is None, where, given, f"the tag {tag!r}")
    known = [claim.id for claim in claims]
    ran = executed(file, known)
    checks = {claim.id: _checks(file, claim.id, ran.declared.get(claim.id, {})) for claim in claims}
    derive = ran.names.get("derive") if file.source.endswith(".py") else None
    cells = parts.tagged(notebook_sources.TAG)
    return Stated(claims, checks, derive if callable(derive) else None, cells)


def executed(file: ClaimFile, known: Sequence[str] = ()) -> check_cells.Ran:
    """Run the check cells of a file; its lines are at hand for the ledger and tracebacks."""
    parts = claim_text.parts(file.source, file.text)
    package = file.module.rpartition(".")[0]
    try:
        cells = parts.tagged(check_cells.TAG)
        return check_cells.run(file.name, parts.text, cells, known, package)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever a file raises is what is wrong with it
        raise InputError(
            f"{file.name}: got {_at(error, file)}, expected a file that runs"
        ) from error


def _at(error: BaseException, file: ClaimFile) -> str:
    """An error with the line of the file that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.partition(", ")[0] == file.name]
    cell = "".join(f"{f.filename.partition(', ')[2]}, " for f in own[-1:] if "," in f.filename)
    return in_words(error) + (f" ({cell}line {own[-1].lineno})" if own else "")


def _claim(file: ClaimFile, claim: Claim) -> Claim:
    """The claim as the engine needs it, with the file in the place of a notebook."""
    given = bool(ID.fullmatch(claim.id))
    require(given, f"{file.name}: claim", as_given(claim.id), "an id as 'mine.lipschitz'")
    words = f"one of {', '.join(KINDS)}"
    require(claim.kind in KINDS, f"{claim.id}: kind", repr(claim.kind), words)
    return replace(claim, notebook=file.name)


def _checks(file: ClaimFile, id: str, declared: Mapping[str, Declared]) -> Mapping[str, Check]:
    """The checks of a claim, each of them of a form that a file may declare."""
    from attnverify.checking.check_fields import require_form

    require(bool(declared), f"{file.name}: {id}", "no check", f'@av.inequality("{id}", ...)')
    checks = {name: found.check for name, found in declared.items()}
    for name, check in checks.items():
        require_form(f"{id}, check {name!r}", check)
    return checks


def _with_sizes(check: Check, record: Record) -> Record:
    from attnverify.checking.check import Identity, Inequality
    from attnverify.checking.check_fields import in_sizes

    if not isinstance(check, Inequality | Identity):
        return record
    return replace(record, limits=record.limits + SIZES + in_sizes(check.sizes))


def derive(file: ClaimFile, claims: Registry | None = None) -> derivations.NotebookRun:
    """Run the derivations of a file, which may name these claims; an error is their outcome."""
    from attnverify.derivation import ledger

    own = stated(file)
    cells = tuple(cell.source for cell in own.cells)
    source = Derivation(file.name, cells, f"the file {file.name}", file.sha256)
    if own.derive is None:
        return derivations.run(source, claims)
    start, error = time.perf_counter(), ""
    with ledger.recording(claims=claims) as entries:
        try:
            own.derive()
        except (Exception, SystemExit):  # whatever a derivation raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    return derivations.NotebookRun(source, tuple(entries), error, time.perf_counter() - start)


def ask(registry: Registry, argument: str, limit: int | float = LIMIT) -> tuple[str, ...]:
    """Join what an argument of a command names; the ids that it stands for.

    A path of a file ("mine.md"), or an id or glob whose prefix an installed package has. For any
    other argument, (argument,).
    """
    prefix = argument.split(".")[0]
    if argument.endswith(claim_text.SUFFIXES):
        return tuple(claim.id for claim in join(registry, read(Path(argument), "id"), limit))
    if prefix not in registry.prefixes and (file := installed(prefix)) is not None:
        join(registry, file, limit)
    return (argument,)
