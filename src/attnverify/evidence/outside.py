"""Claims from outside the book: in a Python file, or in a module of an installed package.

The file states what files of the package state, under the same names: ``CLAIMS``, a list of
``av.Claim``; ``CHECKS``, the checks of each by id and name; and, if there are derivations, a
function ``derive`` that hands them to the ledger. What is brought in is checked like the book's own
claims. It is code and runs with the rights of whoever starts it; every process that checks it gets
the text that was read first, so all of them check the same.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from attnverify.checks import CHECKS
from attnverify.claims import PREFIXES, Claim, registry
from attnverify.errors import InputError, require
from attnverify.evidence import derive as derivations
from attnverify.evidence import ledger, run
from attnverify.evidence.forms import Form
from attnverify.evidence.notebooks import Source
from attnverify.evidence.tried import require_formulas
from attnverify.evidence.workers import Task, run_all

GROUP = "attnverify.claims"  # of entry points; the name of one is the prefix of its ids
ID = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
LIMIT = 600.0  # seconds for a piece
KINDS = ("theorem", "lemma", "proposition", "counterexample", "conjecture")
TWIN = "a false neighbor that the check must reject, as check.times(0.99) or check.but(...)"


@dataclass(frozen=True)
class ClaimFile:
    """Where claims come from: name of the file or module, its text, and the text's SHA-256.

    module: what to import, "" for a file, whose text is run; place: its path, which tells an edited
    file from another one of the same name.
    """

    name: str
    text: str
    sha256: str
    module: str = ""
    place: str = field(default="", compare=False, repr=False)


#: What was brought into this process: the file of each claim, by id.
_FILES: dict[str, ClaimFile] = {}
_DERIVE: dict[ClaimFile, Callable[[], Any]] = {}  # for a file that has derivations
_IMPORTED: dict[str, str] = {}  # SHA-256 of the text that a module was imported from


def read(path: Path, argument: str = "claims") -> ClaimFile:
    """A file of claims; nothing is executed. Raises InputError if it cannot be one."""
    require(path.suffix == ".py", argument, str(path), "a Python file, its name ending in .py")
    require(path.is_file(), argument, f"{path}, which is not there", "a Python file")
    content = path.read_bytes()
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
    spec = find_spec(found[0].module)
    if spec is None or not spec.origin:
        raise InputError(
            f"id: got {prefix!r}, of module {found[0].module}, which is not there, expected the "
            "module that the entry point names"
        )
    return replace(read(Path(spec.origin), "id"), name=spec.name, module=spec.name)


def _points() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def file_of(id: str) -> ClaimFile | None:
    """The file that a claim was brought in from; None for a claim of the book."""
    return _FILES.get(id)


def examine(file: ClaimFile, limit: int | float = LIMIT) -> None:
    """Bring a file into a process of its own, and end that if it takes too long.

    Raises InputError as :func:`bring_in` does, and RunError after ``limit`` seconds.
    """
    for _ in run_all([Task(f"reading {file.name}", _examine, (file,), limit)], None, 1):
        pass


def _examine(file: ClaimFile) -> None:
    for claim in bring_in(file):
        for name, check in CHECKS[claim.id].items():
            require_formulas(f"{claim.id}, check {name!r}: ", check)


def bring_in(file: ClaimFile) -> list[Claim]:
    """Add the claims and checks of a file to those of the book, in this process.

    A file that is there already changes nothing; one that was edited takes the place of what it
    stated before. Raises InputError with what is wrong in the file: nothing changes then.
    """
    before = {id: other for id, other in _FILES.items() if other.name == file.name}
    if file in before.values():
        return [registry[id] for id in before]
    others = [other for other in before.values() if other.place != file.place]
    require(not others, "claims", f"two files {file.name}", "files of different names")
    names = executed(file)
    stated, checks = names.get("CLAIMS"), names.get("CHECKS")
    if not isinstance(stated, list | tuple) or not stated:
        raise InputError(f"{file.name}: got no claims, expected a list CLAIMS of av.Claim")
    if not isinstance(checks, dict):
        raise InputError(f"{file.name}: got no checks, expected a dict CHECKS: id to checks")
    claims = [_claim(file, claim) for claim in stated]
    for claim in claims:
        _require_checks(file, claim, checks)
    strange = sorted(set(checks) - {claim.id for claim in claims})
    require(not strange, f"{file.name}: CHECKS", strange, "ids of the file's own claims")
    registry.join(claims, instead_of=before)
    for id, other in before.items():
        del CHECKS[id], _FILES[id]
        _DERIVE.pop(other, None)
    for claim in claims:
        CHECKS[claim.id] = dict(checks[claim.id])
        _FILES[claim.id] = file
    if callable(names.get("derive")):
        _DERIVE[file] = names["derive"]
    return claims


def executed(file: ClaimFile) -> dict[str, Any]:
    """The names of a file after it ran; its lines are at hand for the ledger and tracebacks."""
    try:
        if file.module:
            return vars(_imported(file))
        lines = file.text.splitlines(keepends=True)
        linecache.cache[file.name] = (len(file.text), None, lines, file.name)
        module = ModuleType(f"attnverify claims of {Path(file.name).stem}")
        sys.modules[module.__name__] = module  # where dataclasses look for names
        exec(compile(file.text, file.name, "exec"), vars(module))  # asked for by path
        return vars(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever a file raises is what is wrong with it
        raise InputError(
            f"{file.name}: got {_at(error, file)}, expected a file that runs"
        ) from error


def _imported(file: ClaimFile) -> ModuleType:
    """The module, if its text is what was read, and was when this process imported it."""
    spec = find_spec(file.module)
    here = read(Path(str(spec and spec.origin))).sha256
    same = _IMPORTED.setdefault(file.module, here) == here == file.sha256
    require(same, "claims", f"{file.name}, edited since", "it as read (in a new session)")
    return import_module(file.module)


def _at(error: BaseException, file: ClaimFile) -> str:
    """An error with the line of the file that it comes from."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file.name]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")


def _claim(file: ClaimFile, claim: Any) -> Claim:
    """The claim as the engine needs it, with the file in the place of a notebook."""
    where = f"{file.name}: CLAIMS"
    require(isinstance(claim, Claim), where, type(claim).__name__, "av.Claim")
    require(bool(ID.fullmatch(claim.id)), where, repr(claim.id), "an id as 'mine.lipschitz'")
    prefix = claim.id.split(".")[0]
    require(
        prefix not in PREFIXES, where, repr(claim.id), f"a prefix other than {prefix!r}, a book's"
    )
    require(
        claim.kind in KINDS, f"{claim.id}: kind", repr(claim.kind), f"one of {', '.join(KINDS)}"
    )
    require(bool(claim.statement.strip()), f"{claim.id}: statement", "nothing", "what is claimed")
    require(claim.asserts in ("holds", "fails"), f"{claim.id}: asserts", claim.asserts, "'holds'")
    return replace(claim, notebook=file.name)


def _require_checks(file: ClaimFile, claim: Claim, checks: dict[str, Any]) -> None:
    """Every claim has a check, and one of them a twin: a check that cannot fail shows nothing."""
    own = checks.get(claim.id)
    where = f"{file.name}: CHECKS[{claim.id!r}]"
    if not isinstance(own, dict) or not own:
        raise InputError(f"{where}: got no checks, expected a dict: name to check")
    for name, check in own.items():
        words = "av.Inequality, av.Identity or av.Decision"
        require(isinstance(check, Form), f"{where}[{name!r}]", type(check).__name__, words)
    require(any(check.twins for check in own.values()), where, "no twin", TWIN)


def gather(file: ClaimFile, claim: str, settings: Any, kinds: Iterable[str]) -> run.ClaimEvidence:
    """As :func:`attnverify.evidence.run.gather`, in whatever process, for a claim of the file."""
    bring_in(file)
    return run.gather(claim, settings, kinds)


def derive(file: ClaimFile) -> derivations.NotebookRun:
    """Run the derivations of a file; an error in them is their outcome."""
    bring_in(file)
    source = Source(file.name, (), f"the file {file.name}", file.sha256)
    start, error = time.perf_counter(), ""
    with ledger.recording() as entries:
        try:
            _DERIVE[file]()
        except (Exception, SystemExit):  # whatever a derivation raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    return derivations.NotebookRun(source, tuple(entries), error, time.perf_counter() - start)


def tasks(
    claims: Iterable[Claim], settings: Any, kinds: Iterable[str], limit: int | float
) -> list[Task]:
    """The pieces of a run that claims from outside make; none for claims of the book."""
    found, files = [], dict.fromkeys(f for c in claims if (f := file_of(c.id)))
    numerical = [kind for kind in kinds if kind not in ("derived", "formal")]
    if "derived" in kinds:
        found += [Task(f"notebook {f.name}", derive, (f,), limit) for f in files if f in _DERIVE]
    if numerical:
        for claim in claims:
            if file := file_of(claim.id):
                found.append(Task(claim.id, gather, (file, claim.id, settings, numerical), limit))
    return found


def ask(argument: str, limit: int | float = LIMIT) -> tuple[str, ...]:
    """Bring in what an argument of a command names; the ids that it stands for.

    A path of a file ("mine.py"), or an id or glob whose prefix an installed package has. For any
    other argument, (argument,).
    """
    prefix = argument.split(".")[0]
    if argument.endswith(".py"):
        file = read(Path(argument), "id")
    elif prefix in PREFIXES or (file := installed(prefix)) is None:
        return (argument,)
    if file not in _FILES.values():
        examine(file, limit)
    claims = bring_in(file)
    return tuple(claim.id for claim in claims) if argument.endswith(".py") else (argument,)
