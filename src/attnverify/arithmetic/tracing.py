"""An arithmetic that records operations as a straight-line program instead of computing them.

A formula evaluated on :class:`Node` entries leaves a straight-line program: one line for every
operation on numbers, each naming earlier lines. :mod:`attnverify.verification.certificate_export`
writes such programs to files that another program can evaluate.

A formula that asks for the value of a number (by a comparison or a conversion to float) cannot be
recorded and raises :class:`UntraceableError`. Nothing is simplified, so that the program has
exactly the operations of the formula.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NoReturn

import flint
import numpy as np

Line = tuple[Any, ...]


class UntraceableError(TypeError):
    """Raised where a formula needs the value of a number; the message says what for."""


class ValueAskedError(UntraceableError):
    """Raised where a formula branches on a number or takes a ball for its midpoint.

    Balls have no single value: a comparison of two overlapping ones is False in both directions,
    and the branch that this selects may enclose nothing.
    """


class Program:
    """Straight-line program: its lines in order, equal lines only once."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._known: dict[Line, int] = {}

    def node(self, *line: Any) -> Node:
        """Node of a line such as ("exp", 3), ("add", 1, 2), ("const", "1/3"), ("input", "X", 0)."""
        id = self._known.setdefault(line, len(self.lines))
        if id == len(self.lines):
            self.lines.append(line)
        return Node(self, id)

    def constant(self, value: Any) -> Node:
        return self.node("const", str(_fraction(value)))


def _fraction(value: Any) -> Fraction:
    if isinstance(value, flint.arb):
        if not value.is_exact():
            raise UntraceableError("a ball that is no exact number enters the formula")
        mantissa, exponent = value.man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    if isinstance(value, flint.fmpq):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, int | float | np.integer | np.floating):
        return Fraction(value.item() if isinstance(value, np.generic) else value)
    raise UntraceableError(f"a {type(value).__name__} enters the formula")


class Node:
    """Number of a program, with the operators and methods that ``ops`` needs."""

    __slots__ = "program", "id"  # a formula makes millions

    def __init__(self, program: Program, id: int) -> None:
        self.program, self.id = program, id

    def constant(self, value: Any) -> Node:
        """Constant ``value`` as a number of the same program."""
        return self.program.constant(value)

    def _with(self, name: str, other: Any, swap: bool = False) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy takes it entry by entry
        second = other if isinstance(other, Node) else self.constant(other)
        a, b = (second, self) if swap else (self, second)
        return self.program.node(name, a.id, b.id)

    def _of(self, name: str) -> Node:
        return self.program.node(name, self.id)

    def __add__(self, other: Any) -> Any:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._with("add", other, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("sub", other, swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._with("mul", other, swap=True)

    def __truediv__(self, other: Any) -> Any:
        return self._with("div", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with("div", other, swap=True)

    def __pow__(self, exponent: Any) -> Node:
        if not isinstance(exponent, int | np.integer) or exponent < 1:
            raise UntraceableError(f"a power {exponent!r}")
        return self.program.node("pow", self.id, int(exponent))

    def max(self, other: Any) -> Any:
        return self._with("max", other)

    def __neg__(self) -> Node:
        return self._of("neg")

    def __abs__(self) -> Node:
        return self._of("abs")

    def exp(self) -> Node:
        return self._of("exp")

    def log(self) -> Node:
        return self._of("log")

    def expm1(self) -> Node:
        return self._of("expm1")

    def log1p(self) -> Node:
        return self._of("log1p")

    def tanh(self) -> Node:
        return self._of("tanh")

    def sin(self) -> Node:
        return self._of("sin")

    def cos(self) -> Node:
        return self._of("cos")

    def erf(self) -> Node:
        return self._of("erf")

    def sqrt(self) -> Node:
        """Square root of a number known to be >= 0."""
        return self._of("sqrt")

    def lambertw(self, branch: int) -> Node:
        """Lower real branch of Lambert's W function."""
        if branch != -1:
            raise UntraceableError(f"branch {branch} of Lambert's W")
        return self._of("lambertw-1")

    def pi(self) -> Node:
        return self.program.node("pi")

    def spectral_norm(self, matrix: np.ndarray) -> Node:
        """Largest singular value of a matrix of nodes, as one operation of the program."""
        rows, columns = matrix.shape
        return self.program.node("spectral", rows, columns, *(a.id for a in matrix.flat))

    def _asked(self, *_: Any) -> NoReturn:
        raise ValueAskedError("the formula branches on the value of a number")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _asked
    __bool__ = __float__ = __int__ = is_zero = _asked
    __hash__ = object.__hash__

    _mpf_ = property(_asked)  # flint asks for it to make a ball of the number

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UntraceableError(f"the formula uses {name} of a number")


#: Attributes of balls that describe the ball and enclose no function of the number in it.
OF_THE_BALL = frozenset(
    "abs_lower abs_upper bits contains contains_integer contains_interior fmpq fmpz imag "
    "intersection is_exact is_finite is_integer is_nan is_zero lower man_exp mid mid_rad_10exp "
    "overlaps rad real rel_accuracy_bits rel_one_accuracy_bits repr str unique_fmpz upper".split()
)


class Trial(Program):
    """Program of :class:`Probe` entries, which records operations and cannot be evaluated."""

    def node(self, *line: Any) -> Probe:
        return Probe(self, super().node(*line).id)

    def constant(self, value: Any) -> Probe:
        return self.node("const", "any")


class Probe(Node):
    """Number without a value: a formula that accepts it does the same operations for all numbers.

    It has every operation of balls, whether or not another program has it too.
    """

    def __pow__(self, exponent: Any) -> Any:
        return self._of("pow")

    def __pos__(self) -> Node:
        return self

    def lambertw(self, branch: int = 0) -> Node:
        return self._of("lambertw")

    _mpf_ = property(lambda self: self.__getattr__("_mpf_"))

    def __rpow__(self, base: Any) -> Any:
        return self._of("power of")

    def descending(self, row: list[Any]) -> list[Node]:
        """Numbers of a row in falling order, as operations of the program."""
        ids = [entry.id for entry in row]
        return [self.program.node("largest", place, *ids) for place in range(len(ids))]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # flint asks for _mpf_, and leaves ball * number to the number
            raise AttributeError(name)
        if name in OF_THE_BALL:
            raise ValueAskedError(f"the formula uses {name} of a number")
        if not hasattr(flint.arb, name):
            raise AttributeError(name)  # as of a ball; numpy and hasattr ask
        return lambda *_: self._of(name)
