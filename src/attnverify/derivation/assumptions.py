"""The facts that a derivation assumes: from other claims, or from the statement itself.

``given={"softmax.total-variation": "TV <= tanh(osc/4)", "hypothesis": "D <= x*"}``. A key is the id
of a claim that the derived one rests on (its ``uses``), or one of :data:`WORDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from attnverify.support.errors import InputError, nearest
from attnverify.topics import Claim, registry

#: Keys other than claims, and the kind of fact that each stands for.
WORDS = {
    "hypothesis": "what the statement supposes",
    "notation": "what a letter stands for",
    "induction": "the claim itself, one depth before",
    "proof": "what another step of this proof shows",
    "classical": "a fact of the literature that the chapter cites or that a first course proves",
}

Given = tuple[tuple[str, str], ...]


def read(claim: Claim, given: Mapping[str, str] | str) -> Given:
    """The given facts in order; raises InputError for a key that the claim does not use.

    A plain text is a hypothesis of the statement.
    """
    pairs = {"hypothesis": given} if isinstance(given, str) else dict(given)
    for key, text in pairs.items():
        if key in WORDS:
            continue
        if key not in registry:
            known = [*WORDS, *registry]
            words = f"the id of a claim or one of {', '.join(WORDS)}{nearest(key, known)}"
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
    items = []
    for key, text in given:
        name = f"<em>{key}</em>"
        if key in registry:
            place = f"{registry[key].notebook}.html#claim-{key.replace('.', '-')}"
            name = f'<a href="{place}"><code>{key}</code></a>'
        items.append(f"<li>{name}: {escape(text)}</li>")
    return f'<p>Given:</p><ul class="ledger-given">{"".join(items)}</ul>' if items else ""
