"""The facts that a derivation assumes: from other claims, or from the statement itself.

``given={"softmax.total-variation": "TV <= tanh(osc/4)", "hypothesis": "D <= x*"}``. A key is the id
of a claim that the derived one rests on (its ``uses``), or one of :data:`WORDS`.

Which claims there are is said from above: by whoever records a derivation (:func:`among`), else by
the package as a whole (:func:`among_by_default`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from html import escape
from types import SimpleNamespace
from typing import Any

from attnverify.support import typeset
from attnverify.support.errors import InputError, nearest

#: Keys other than claims, and the kind of fact that each stands for.
WORDS = {
    "hypothesis": "what the statement supposes",
    "notation": "what a letter stands for",
    "induction": "the claim itself, one depth before",
    "proof": "what another step of this proof shows",
    "classical": "a fact of the literature that the chapter cites or that a first course proves",
}

Given = tuple[tuple[str, str], ...]
Claims = Mapping[str, Any]  # claims by id; of each, id, uses and notebook are read here

_CLAIMS: ContextVar[Claims | None] = ContextVar("claims", default=None)
_default: Callable[[], Claims] = dict


def claims() -> Claims:
    """The claims that a derivation may name."""
    known = _CLAIMS.get()
    return _default() if known is None else known


def stated(id: str, recording: bool) -> Any:
    """A claim by its id; raises InputError for one that is not known.

    Where nothing is recorded, as in a kernel, a claim of one's own is not known: an id with
    another prefix, not a slip in a known one, stands for a claim of unknown uses.
    """
    known = claims()
    slip = recording or id in known or get_close_matches(id, known, cutoff=0.9)
    if slip or id.split(".")[0] in {each.split(".")[0] for each in known}:
        return known[id]
    return SimpleNamespace(id=id, uses=None)


@contextmanager
def among(known: Claims | None) -> Iterator[None]:
    """Derivations in this block (of this thread) may name these claims; None leaves the default."""
    token = _CLAIMS.set(_CLAIMS.get() if known is None else known)
    try:
        yield
    finally:
        _CLAIMS.reset(token)


def among_by_default(find: Callable[[], Claims]) -> None:
    """From now on ``find`` gives the claims that derivations outside of any such block may name."""
    global _default
    _default = find


def read(claim: Any, given: Mapping[str, str] | str) -> Given:
    """The given facts in order; raises InputError for a key that the claim does not use.

    A plain text is a hypothesis of the statement.
    """
    known = claims()
    pairs = {"hypothesis": given} if isinstance(given, str) else dict(given)
    for key, text in pairs.items():
        if key in WORDS or claim.uses is None:
            continue
        if key not in known:
            hint = nearest(key, [*WORDS, *known])
            words = f"the id of a claim or one of {', '.join(WORDS)}{hint}"
            raise InputError(f"{claim.id}, given: got {key!r} for {text!r}, expected {words}")
        if key not in claim.uses:
            raise InputError(
                f"{claim.id}, given: got {key!r}, which the claim does not rest on, expected it "
                f"among its uses ({', '.join(claim.uses) or 'none'})"
            )
    return tuple((key, " ".join(text.split())) for key, text in pairs.items() if text)


def in_words(given: Given) -> str:
    """The given facts on one line, each with its key."""
    return "; ".join(f"{text} ({key})" for key, text in given)


def as_html(given: Given) -> str:
    """HTML list of the given facts; claims are links to their boxes in other chapters."""
    items, known = [], claims()
    for key, text in given:
        name = f"<em>{key}</em>"
        if key in known:
            place = f"{known[key].notebook}.html#claim-{key.replace('.', '-')}"
            name = f'<a href="{place}"><code>{key}</code></a>'
        items.append(f"<li>{name}: {typeset.as_html(text, escape)}</li>")
    return f'<p>Given:</p><ul class="ledger-given">{"".join(items)}</ul>' if items else ""
