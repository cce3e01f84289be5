"""Numbers of the text, compared with what a cell computes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import SupportsFloat

from attnverify.support.errors import require

ROUNDED = {"": ROUND_HALF_EVEN, ">": ROUND_FLOOR, "<": ROUND_CEILING}
SLACK = Decimal("1e-9")  # of a unit: a tie, or a value of few digits, computed just beside itself


def stated(numbers: Mapping[str, SupportsFloat]) -> None:
    """Require that the numbers of a chapter's text are those that are computed here.

    numbers: each as the text shows it, commas between thousands or not, with its value, which
    ``float`` takes: a number, a tensor of one entry, a ball, an expression of sympy. The text
    rounds to the last digit shown; after "> " it rounds down ("more than 1.73"), after "< " up.
    A chapter does so in cells with the tag ``numbers``, which run when the book is built.

    Raises InputError that names the number.

    >>> import math
    >>> import attnverify as av
    >>> av.stated({"0.577": math.tan(math.pi / 6), "> 1.73": math.sqrt(3), "65,536": 2**16})
    >>> av.stated({"0.578": math.tan(math.pi / 6)})
    Traceback (most recent call last):
        ...
    attnverify.support.errors.InputError: text: got '0.578' for 0.577..., expected '0.577'
    """
    for text, computed in numbers.items():
        sign, _, digits = text.rpartition(" ")
        shown = Decimal(digits.replace(",", ""))
        unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
        sides = (Decimal(float(computed)) + s * unit for s in (-SLACK, SLACK))
        low, high = (side.quantize(unit, ROUNDED[sign]) for side in sides)
        expected = repr(f"{sign} {low}".lstrip())
        require(shown in (low, high), "text", f"{text!r} for {float(computed)}", expected)
