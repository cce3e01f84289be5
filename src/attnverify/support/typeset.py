"""Mathematics written in plain text as a page shows it: 3e-04 as 3·10⁻⁴, x^2 <= 4 as x² ≤ 4."""

from __future__ import annotations

import re
from collections.abc import Callable

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
POWER = re.compile(r"(?<![\w.'])(\d+(?:\.\d+)?)[eE]([-+]?\d+)(?!\w|\.\w|')")
NAMES = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi"
NAMES += " chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega"
GREEK: dict[str, str] = dict(zip(NAMES.split(), "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΣΦΨΩ", strict=True))
#: The gamma function keeps its name.
LETTER = re.compile(rf"(?<![A-Za-z])({'|'.join(GREEK)})(?![A-Za-z]| function| integral| variable)")
#: Relations, arrows, the root, a product, a difference, a sign, a sum with an index, infinity.
PATTERNS = r"<= >= != -> <-(?=\s) \bsqrt\s?(?=[\w(]) (?<=\S\s)\*(?=\s\S) (?<=\S\s)-(?=\s\S)".split()
PATTERNS = [r"\+/?-", *PATTERNS]  # what is more or less, before its minus
PATTERNS += r"(?<![\w)\]|'])-(?=[\w(|√]) \bsum(?=_) (?<=[_(,])inf\b|\boo\b".split()
SIGNS = [(re.compile(p), s) for p, s in zip(PATTERNS, "±≤≥≠→←√·−−Σ∞", strict=True)]
INNER = r"\((?:[^()]|\([^()]*\))*\)|\{[^{}]*\}"  # in brackets, with brackets in them
#: An index of a letter or a bracket; one of a word, as in osc_k, has one character.
SCRIPT = re.compile(
    rf"(?P<up>\^)(?P<raised>[-−]?(?:{INNER}|\d+(?:\.\d+)?|[^\W\d_]+'?|\|\w+\||∞|\*))"
    rf"|(?<![^\W\d_]{{2}})(?:(?<=[^\W\d_])|(?<=['|)\]]))_(?P<lowered>{INNER}|[^\W_]+|[-+−∞*])"
    r"|(?<=[^\W\d_])_(?P<short>[^\W_])(?![^\W_])"
)


def numbers(text: str) -> str:
    """A text with its floats as powers of ten, but for words in quotes and names of files.

    >>> numbers("2.99e-398, at most 1e+05; 1.5e+00")
    '2.99·10⁻³⁹⁸, at most 10⁵; 1.5'
    """
    return POWER.sub(_power, text)


def symbols(text: str) -> str:
    """A text with its floats as powers of ten, and the signs of relations, roots and the like.

    >>> symbols("-sqrt(x) - 1 <= 2 * x")
    '−√(x) − 1 ≤ 2 · x'
    """
    text = numbers(text)
    for pattern, sign in SIGNS:
        text = pattern.sub(sign, text)
    return text


def scripts(text: str, up: str, down: str, plain: Callable[[str], str] = str) -> str:
    """A text with its exponents and indices in markup, and ``plain`` of all else.

    up, down: markup with {} for what is raised and lowered; roles of reST take no others inside.

    >>> scripts("x_1^(n + 1)", "<sup>{}</sup>", "<sub>{}</sub>")
    'x<sub>1</sub><sup>n + 1</sup>'
    """
    parts, start = [], 0
    for found in SCRIPT.finditer(text):
        inner = found["raised"] or found["lowered"] or found["short"]
        inner = inner[1:-1] if inner[0] in "({" else inner
        inner = scripts(inner, up, down, plain) if up.startswith("<") else plain(inner)
        parts += [plain(text[start : found.start()]), (up if found["up"] else down).format(inner)]
        start = found.end()
    return "".join([*parts, plain(text[start:])])


def as_html(text: str, plain: Callable[[str], str]) -> str:
    """Plain text as HTML, or as Markdown with HTML in it; ``plain`` escapes for that."""
    lettered = LETTER.sub(lambda found: GREEK[found[1]], text)
    return scripts(symbols(lettered), "<sup>{}</sup>", "<sub>{}</sub>", plain)


def _power(found: re.Match[str]) -> str:
    digits, exponent = found[1], int(found[2])
    power = f"10{str(exponent).translate(RAISED)}" if exponent else ""
    return power if digits == "1" and power else f"{digits}·{power}".rstrip("·")
