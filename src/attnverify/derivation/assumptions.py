"""What a derivation takes as given: facts of other claims, and what the statement itself says.

``given={"softmax.total-variation": "TV <= tanh(osc/4)", "hypothesis": "D <= x*"}``. A key is the id
of a claim that the derived one rests on (its ``uses``), or one of :data:`WORDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from attnverify.support.errors import InputError, nearest
from attnverify.topics import Claim, registry

#: Keys that are no claim, and what is listed under them.
WORDS = {
    "hypothesis": "what the statement supposes",
    "notation": "what a letter stands for",
    "induction": "the claim itself, one depth before",
    "proof": "what another step of this proof shows",
    "classical": "a fact of the literature that the chapter cites or that a first course proves",
}

Given = tuple[tuple[str, str], ...]


def read(claim: Claim, given: Mapping[str, str] | str) -> Given:
    """The givens in order; raises InputError for a key that is tied to nothing.

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
    """On one line, every fact with what it stands on."""
    return "; ".join(f"{text} ({key})" for key, text in given)


def as_html(given: Given) -> str:
    """A list whose claims are links to their boxes, which are in chapters beside this one."""
    items = []
    for key, text in given:
        name = f"<em>{key}</em>"
        if key in registry:
            place = f"{registry[key].notebook}.html#claim-{key.replace('.', '-')}"
            name = f'<a href="{place}"><code>{key}</code></a>'
        items.append(f"<li>{name}: {escape(text)}</li>")
    return f'<p>Given:</p><ul class="ledger-given">{"".join(items)}</ul>' if items else ""
