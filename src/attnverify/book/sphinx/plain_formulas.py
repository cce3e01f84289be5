"""TeX as a line of plain text, for descriptions of pages: roots, powers and fractions by signs.

Only what openings of chapters use; what is not known is no text, and the caller leaves it out.
"""

from __future__ import annotations

import re

CLOSING = "\x00"  # no space before what follows
NAMES = {
    **dict(alpha="α", beta="β", gamma="γ", delta="δ", eta="η", theta="θ", xi="ξ", rho="ρ"),
    **dict(sigma="σ", kappa="κ", tau="τ", Phi="Φ", Sigma="Σ", pi="π", infty="∞"),
    **dict(le=" ≤ ", ge=" ≥ ", to=" → ", cdot=" · ", pm="±", times=" × ", sum="∑"),
    **dict(
        lVert="‖",
        rVert=f"{CLOSING}‖",
        lvert="|",
        rvert=f"{CLOSING}|",
        bigl="",
        bigr="",
        left="",
        right="",
    ),
    **{name: f" {name} " for name in ("tanh", "log", "max", "min")},
    **dict(dots="…", quad=" "),
}
SIGNS = {",": "", ";": " ", "%": "%", " ": " ", "{": "{", "}": "}", "!": ""}
RAISED = dict(zip("0123456789−*", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻*", strict=True))
LOWERED = dict(zip("0123456789", "₀₁₂₃₄₅₆₇₈₉", strict=True))
TOKEN = re.compile(r"\\([A-Za-z]+) ?|\\(.)|([\s\S])")


class Unknown(ValueError):
    """Something that has no plain text here."""


def plain(tex: str) -> str:
    """The formula in one line; raises Unknown for a command that is not known."""
    tokens = [_token(match) for match in TOKEN.finditer(" ".join(tex.split()))]
    text = _row(tokens[::-1])
    text = re.sub(r"\s*([<>=+]|(?<=[\w)⁰-₉] )−(?= ))\s*", r" \1 ", text)
    text = re.sub(rf"\s*{CLOSING}|\s+(?=\))|(?<=\()\s+", "", text)
    return re.sub(r"\b([a-z]{2,}) \(", r"\1(", " ".join(text.split()))


def _token(match: re.Match[str]) -> str:
    name, sign, letter = match.groups()
    return f"\\{name or sign}" if name or sign else letter


def _row(left: list[str], until: str = "") -> str:
    """What comes next, up to a closing brace; ``left`` holds the tokens, the next one last."""
    parts: list[str] = []
    while left:
        token = left.pop()
        if token == until:
            break
        parts.append(_piece(token, left))
    return "".join(parts)


def _piece(token: str, left: list[str]) -> str:
    if token == "{":
        return _row(left, "}")
    if token in "^_":
        return _shifted(_argument(left), token)
    if token in (r"\frac", r"\tfrac", r"\dfrac"):
        return f"{_whole(_argument(left))}/{_whole(_argument(left))}"
    if token == r"\sqrt":
        return f"√{_whole(_argument(left))}"
    if token == r"\operatorname":
        return f" {_argument(left)} "
    if token in (r"\mathrm", r"\text", r"\mathbf"):
        return _argument(left)
    if not token.startswith("\\"):
        return "−" if token == "-" else token
    name = token[1:]
    if name not in NAMES and name not in SIGNS:
        raise Unknown(token)
    return NAMES.get(name, SIGNS.get(name, ""))


def _argument(left: list[str]) -> str:
    """The next group or letter, without spaces."""
    while left and left[-1] == " ":
        left.pop()
    if not left:
        raise Unknown("nothing")
    return _piece(left.pop(), left).strip()


def _whole(text: str) -> str:
    """In parentheses if it is more than a number, a letter, or a letter and its index."""
    return text if re.fullmatch(r"[\d.]+|\w[₀-₉]*", text) else f"({text})"


def _shifted(text: str, sign: str) -> str:
    known = RAISED if sign == "^" else LOWERED
    if all(letter in known for letter in text):
        return "".join(known[letter] for letter in text)
    return sign + (text if re.fullmatch(r"\w+", text) else f"({text})")
