"""The index from claim to code and from code to claim, derived by introspection."""

from __future__ import annotations

from collections.abc import Iterable

from attnverify.book.pages.common import (
    anchor,
    by_part,
    escape,
    pipe_table,
    scrolling,
    statement_modules,
)
from attnverify.book.pages.uses import SOURCES, Code, dotted, reached, source_file, source_files
from attnverify.checking.check import Check
from attnverify.topics import Claim, registry
from attnverify.verification import formal
from attnverify.verification.cache_keys import DERIVE, GATHER, starts_of_claim

PACKAGE = "attnverify"
CATALOG = f"{PACKAGE}.checks"
ENGINE = (GATHER, DERIVE)  # what gathers the evidence of every claim
PLUMBING = (CATALOG, f"{PACKAGE}.evidence.forms")  # what every check is made of

INTRO = """\
# From claim to code

The names on this page are read from the source of the checks, not written by hand. A name with an
entry in the {doc}`API reference </book/api>` links to it. A method's owner is told from the name
of the method, so the index may list a method too many. {doc}`files` leads back.
"""

BACK = """\
# From code to claim

For every source file, the claims whose evidence is gathered again after an edit of it. *Engine*:
every claim's. *Statements*: says what is claimed and computes nothing. A file with neither and
without claims serves the chapters, the figures, the command line or the book itself.
"""


def text() -> str:
    """The page from claims to code, as MyST."""
    lines = [INTRO]
    for title, members in by_part(registry.values()).items():
        lines += [f"## {escape(title)}", ""]
        for claim in members:
            lines += _claim(claim)
    return "\n".join(lines)


def files_text() -> str:
    """The page from code to claims, as MyST."""
    rows = ([f"`src/{file}`", role, _linked(ids)] for file, role, ids in files())
    table = pipe_table(("File", "Role", "Claims"), rows)
    box = scrolling("Source files and the claims that use them", table, "32% 10%")
    return "\n".join([BACK, *box])


def _claim(claim: Claim) -> list[str]:
    file = source_file(statement_modules()[claim.id].__name__)
    lines = [
        f"({anchor(claim.id, 'code')})=",
        f"### {escape(claim.title)}",
        "",
        f"- Claim: {{claim}}`{claim.id} <{claim.id}>`, stated in `src/{file}`.",
        f"- {'Derivation' if claim.derived else 'Chapter'}: {{doc}}`/notebooks/{claim.notebook}`.",
    ]
    for theorem in formal.theorems_of(claim.id):
        file = f"{formal.FOLDER}/{formal.module(theorem.name)}.v"
        lines.append(f"- Formal proof: {{formal}}`{theorem.name} <{claim.id}>` in `{file}`.")
    for name, check in registry.checks_of(claim.id).items():
        lines += _check(name, check)
    return [*lines, ""]


def _check(name: str, check: Check) -> list[str]:
    named = ", ".join(f"{{api}}`{dotted(item)}`" for item in formulas(check))
    form = f"- Check *{escape(name)}* ({type(check).__name__.lower()}; {', '.join(check.kinds)})"
    files = ", ".join(f"`src/{file}`" for file in assembled_in(check))
    lines = [f"{form}, assembled in {files}." if files else f"{form}."]
    if named:
        lines.append(f"  Runs {named}.")
    if check.twins:
        lines.append(f"  Must reject: {'; '.join(escape(twin.title) for twin in check.twins)}.")
    return lines


def _parts(check: Check) -> dict[str, object]:
    """What a check holds, without its twins."""
    return {name: value for name, value in vars(check).items() if name != "twins"}


def _in_catalog(item: Code) -> bool:
    return item.__module__.startswith(CATALOG)


def formulas(check: Check) -> list[Code]:
    """Public functions and classes outside the catalog that a check's formulas name."""
    found = reached(_parts(check), follow=_in_catalog)
    named = {i for i in found if not i.__name__.startswith("_")}
    return sorted((i for i in named if not i.__module__.startswith(PLUMBING)), key=dotted)


def assembled_in(check: Check) -> list[str]:
    """Files of the catalog that define the check's formulas."""
    modules = {item.__module__ for item in reached(_parts(check), follow=_in_catalog)}
    return sorted(source_file(m) for m in modules if m.startswith(CATALOG))


def claims_by_file() -> dict[str, list[str]]:
    """For every source file, the ids of the claims whose evidence reaches it beside the engine."""
    engine = SOURCES.reached(ENGINE)
    out: dict[str, list[str]] = {file: [] for file in source_files()}
    for id in registry:
        starts = starts_of_claim(registry, id)
        assert starts is not None  # what a claim of the book depends on is known
        for module in SOURCES.reached(starts) - engine:
            if module in SOURCES.modules:
                out[source_file(module)].append(id)
    return out


def files() -> list[tuple[str, str, list[str]]]:
    """(file, role, claim ids) of every source file."""
    engine = {source_file(module) for module in SOURCES.reached(ENGINE) & SOURCES.modules}
    stated: dict[str, list[str]] = {}
    for id, module in statement_modules().items():
        stated.setdefault(source_file(module.__name__), []).append(id)
    rows = []
    for file, ids in claims_by_file().items():
        role = "statements" if file in stated else "engine" if file in engine else ""
        rows.append((file, role, [] if role == "engine" else stated.get(file, ids)))
    return rows


def _linked(ids: Iterable[str]) -> str:
    return ", ".join(f"{{claim}}`{id} <{id}>`" for id in ids) or "–"
