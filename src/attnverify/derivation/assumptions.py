"""What a derivation takes as given: facts of other claims, and what the statement itself says.

``given={"softmax.total-variation": "TV <= tanh(osc/4)", "hypothesis": "D <= x*"}``. A key is the id
of a claim that the derived one rests on (its ``uses``), or one of :data:`WORDS`.

Which claims there are is said from above: by whoever records a derivation (:func:`among`), else by
the package as a whole (:func:`among_by_default`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any

from attnverify.support.errors import InputError, nearest

#: Keys that are no claim, and what is listed under them.
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
    """The givens in order; raises InputError for a key that is tied to nothing.

    A plain text is a hypothesis of the statement.
    """
    known = claims()
    pairs = {"hypothesis": given} if isinstance(given, str) else dict(given)
    for key, text in pairs.items():
        if key in WORDS:
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
    """On one line, every fact with what it stands on."""
    return "; ".join(f"{text} ({key})" for key, text in given)


def as_html(given: Given) -> str:
    """A list whose claims are links to their boxes, which are in chapters beside this one."""
    items, known = [], claims()
    for key, text in given:
        name = f"<em>{key}</em>"
        if key in known:
            place = f"{known[key].notebook}.html#claim-{key.replace('.', '-')}"
            name = f'<a href="{place}"><code>{key}</code></a>'
        items.append(f"<li>{name}: {escape(text)}</li>")
    return f'<p>Given:</p><ul class="ledger-given">{"".join(items)}</ul>' if items else ""
