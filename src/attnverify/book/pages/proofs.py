"""The parts of the page on formal proofs that follow from the record: statements, words, axioms."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnverify.book.pages.common import anchor, escape, pipe_table, scrolling, told
from attnverify.chapters import Claim, registry
from attnverify.verification import formal
from attnverify.verification.formal import Neighbor, Registered, Theorem

DICTIONARY = "dictionary.toml"
NOTHING = "*No formal proof is registered.*"


def texts() -> dict[str, str]:
    """The parts by the name of the file that the page includes."""
    known = formal.registered()
    return {
        "formal-list.inc": summary(known),
        "formal-theorems.inc": theorems(known),
        "formal-words.inc": words(known),
        "formal-axioms.inc": axioms(known),
    }


def proved(known: Registered) -> list[Claim]:
    """The claims that have a formal proof, in the order of the book."""
    return [c for c in registry.values() if any(t.claim == c.id for t in known.theorems)]


def summary(known: Registered) -> str:
    """How many claims have a formal proof, and a table of them."""
    claims = proved(known)
    if not claims:
        return NOTHING
    exact = sum(any(t.exact for t in formal.theorems_of(c.id)) for c in claims)
    lines = [
        f"**{len(claims)} of {len(registry)} claims have a formal proof**, {exact} of them "
        "exactly as registered (a statement that the book refutes, negated); checked by "
        f"{known.record.get('prover', 'nothing yet')}.",
        "",
    ]
    rows = [row for claim in claims for row in _rows(claim, known)]
    table = scrolling("Machine-checked claims", pipe_table(rows), "30% 24%")
    return "\n".join([*lines, *table])


def _rows(claim: Claim, known: Registered) -> Iterable[dict[str, str]]:
    for theorem in (t for t in known.theorems if t.claim == claim.id):
        wrong = formal.unfit(theorem, known, claim.digest)
        beside = formal.beside(theorem, known)
        negated = sum(bool(n.negation) for n in beside)
        likeness = f"{{formal}}`{_likeness(theorem)} <{claim.id}>`"
        ways = {"by negation": negated, "by a proof that fails": len(beside) - negated}
        by = ", ".join(f"{number} {way}" for way, number in ways.items() if number) or "none"
        yield {
            "Claim": f"{{claim}}`{claim.title} <{claim.id}>`",
            "Registered as": f"`{claim.id}`",
            "Formal statement": f"**not checked:** {escape(wrong)}" if wrong else likeness,
            "False neighbors": by,
        }


def _likeness(theorem: Theorem) -> str:
    """How the formal statement stands to the claim's, in a word or two."""
    return "the same" if theorem.exact else "in other words" if theorem.same else "differs"


def theorems(known: Registered) -> str:
    """Each statement with its axioms and its neighbors, a section a claim."""
    return "\n".join(line for c in proved(known) for line in _claim(c, known)) or NOTHING


def _claim(claim: Claim, known: Registered) -> list[str]:
    lines = [f"({anchor(claim.id, 'formal')})=", f"### {escape(claim.title)}", ""]
    lines += [f"{{claim}}`{claim.id}`, `{claim.id}`, {{status}}`{claim.id}`", ""]
    for theorem in (t for t in known.theorems if t.claim == claim.id):
        lines += _theorem(theorem, known)
    return lines


def _theorem(theorem: Theorem, known: Registered) -> list[str]:
    entry = known.recorded(theorem.name) or {}
    file = f"{formal.FOLDER}/{formal.module(theorem.name)}.v"
    wrong = formal.unfit(theorem, known, registry[theorem.claim].digest)
    lines = [f"`{theorem.name}` in `{file}`. {told(theorem.says)}", ""]
    lines += [f"**Not checked:** {escape(wrong)}.", ""] if wrong else []
    lines += [*_code(entry.get("statement", "")), *_used(entry.get("axioms", ()), known)]
    return [*lines, *(_neighbor(n, known) for n in formal.beside(theorem, known)), ""]


def _code(text: str) -> list[str]:
    return ["```text", *text.splitlines(), "```", ""] if text else []


def _used(axioms: Sequence[str], known: Registered) -> list[str]:
    numbers = {name: k for k, name in enumerate(known.axioms, start=1)}
    found = sorted(f"A{numbers[a]}" if a in numbers else f"`{a}`" for a in axioms)
    return [f"Axioms: {', '.join(found) or 'none'}.", ""]


def _neighbor(neighbor: Neighbor, known: Registered) -> str:
    entry = known.recorded(neighbor.name) or {}
    if neighbor.negation:
        how = f"its negation is proved, `{neighbor.negation.split('.', 1)[-1]}`"
    else:
        error = escape(str(entry.get("error", "not run")))
        how = f"the proof script fails on it (`{neighbor.script}`, {error})"
    return f"- False neighbor: {told(neighbor.says)}; {how}."


def words(known: Registered) -> str:
    """Each word of the book beside its formal definition; then every definition that is left."""
    printed = {e["name"]: e["text"] for e in known.record.get("definitions", ())}
    lines: list[str] = []
    shown: set[str] = set()
    for entry in dictionary(known):
        names = entry.get("names", [])
        shown |= set(names)
        lines += [f"**{entry['word'].capitalize()}.** {entry['prose'].strip()}", ""]
        lines += _code("\n\n".join(printed.get(name, f"{name}: not recorded") for name in names))
    rest = [text for name, text in printed.items() if name not in shown]
    if rest:
        summary = "Every other definition that a statement above reaches"
        lines += [f"<details><summary>{summary} ({len(rest)})</summary>", ""]
        lines += [*_code("\n\n".join(rest)), "</details>", ""]
    return "\n".join(lines) or NOTHING


def dictionary(known: Registered) -> Iterable[Mapping[str, Any]]:
    """The entries of the dictionary: word, prose, names of the definitions."""
    path = known.folder / DICTIONARY
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return tomllib.loads(text).get("word", ())


def axioms(known: Registered) -> str:
    """The axioms that a theorem may use, numbered: in words, as printed, how often used."""
    types = known.record.get("axioms", {})
    used = [a for e in known.record.get("theorems", ()) for a in e["axioms"]]
    rows = [
        {
            "Number": f"A{k}",
            "Axiom": f"`{name}`",
            "In words": escape(says),
            "As printed": f"`{types.get(name, 'not used')}`".replace("|", r"\|"),
            "Theorems": str(used.count(name)),
        }
        for k, (name, says) in enumerate(known.axioms.items(), start=1)
    ]
    return "\n".join(scrolling("The axioms", pipe_table(rows))) if rows else NOTHING
