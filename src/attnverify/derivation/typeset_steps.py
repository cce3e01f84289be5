"""TeX of a derivation's steps as they are written, with integrals and limits, not their values.

sympy evaluates while it builds: ``sp.integrate(t, (t, 0, x))`` arrives as ``x**2/2``, and a step
would read "x^2/2 = x^2/2". So the source of a step is evaluated a second time in its own frame,
with functions that compute replaced by unevaluated objects of sympy (``sp.Integral``). This is for
display only: the ledger decides the step as it was passed.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import sympy as sp
from sympy.printing.conventions import split_super_sub
from sympy.printing.latex import LatexPrinter, accepted_latex_functions, translate

from attnverify.derivation import step_source
from attnverify.support.parsing import parse

#: Functions and methods that compute, and the unevaluated object for each.
STANDS_FOR = {
    "diff": sp.Derivative,
    "integrate": sp.Integral,
    "limit": sp.Limit,
    "summation": sp.Sum,
    "product": sp.Product,
}
#: Functions and methods that only change the form of their argument.
FORM = ("doit", "simplify", "expand", "factor", "together", "cancel")
RELATIONS = {ast.Lt: sp.Lt, ast.LtE: sp.Le, ast.Gt: sp.Gt, ast.GtE: sp.Ge}
#: Relations in TeX, and their negations.
SYMBOLS = {"==": "=", "!=": r"\neq", "<": "<", "<=": r"\leq", ">": ">", ">=": r"\geq"}
NEGATED = {"=": r"\neq", r"\neq": "=", "<": r"\nless", ">": r"\ngtr"}
NEGATED |= {r"\leq": r"\nleq", r"\geq": r"\ngeq", "": ""}
OURS = "unevaluated "  # the space keeps it apart from any name of a notebook
LONGEST = 1500  # characters of TeX; nobody reads a longer side
DEEPEST = 150  # calls within each other without arithmetic; formulas of the book need less than 70
#: Names of a column of ones, and names that spell a superscript or subscript behind a letter.
ONES = ("one", "1")
TRANSPOSED = re.compile(r"([A-Za-z]\d*)[tT]")
COMMANDS = ("root", "sqrt", "frac", "re", "im")  # commands of TeX that name no function here
INFINITE = re.compile(r"([A-Za-z])inf")
#: Names of numbers and functions whose source already reads as it is shown.
NUMBERS = (*step_source.LITERAL, *"sqrt pi E exp log sin cos tan sinh cosh tanh".split())
WIDEST_SOURCE = 90  # characters of a side's source that is shown beside its value
ONE_LINE = 56  # characters of TeX less its commands: what fits beside a side bar


def subs(expression: Any, *arguments: Any) -> Any:
    """Value at a place, kept unevaluated where the place is given by symbols."""
    places = dict(arguments[0] if len(arguments) == 1 else [arguments])
    plain = isinstance(expression, sp.Expr) and all(isinstance(key, sp.Symbol) for key in places)
    if not plain or not expression.is_commutative:
        return expression.subs(*arguments)
    return sp.Subs(expression, tuple(places), tuple(places.values()))


NAMES: Mapping[str, Any] = {
    "subs": subs,
    **STANDS_FOR,
    **{kind.__name__: kind for kind in RELATIONS.values()},
}


class _Unevaluated(ast.NodeTransformer):
    """Replaces calls that compute by calls that build unevaluated objects."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return node
        name, holder = node.func.attr, node.func.value
        of_sympy = isinstance(holder, ast.Name) and holder.id in ("sp", "sympy")
        arguments = node.args if of_sympy else [holder, *node.args]
        if name in FORM and len(arguments) == 1:
            return arguments[0]
        if name in STANDS_FOR or (name == "subs" and not of_sympy):
            return ast.Call(_ours(name), arguments, node.keywords)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        relation = RELATIONS.get(type(node.ops[0]))
        if relation is None or len(node.ops) > 1:
            return node
        plain = ast.keyword("evaluate", ast.Constant(False))
        return ast.Call(_ours(relation.__name__), [node.left, *node.comparators], [plain])


def _ours(name: str) -> ast.expr:
    return ast.Subscript(ast.Name(OURS, ast.Load()), ast.Constant(name), ast.Load())


def step(name: str, handed_in: Any, call: step_source.Call | None, holds: bool | None) -> str:
    """Markdown of a step; ``holds`` is True, False or None (not decided).

    It is TeX where the two sides look different in TeX, else their source.
    """
    node = call.node(name) if call else None
    if call and node and (told := _numbers(handed_in, node, call, holds)):
        return told
    for candidate in _candidates(handed_in, node, call):
        try:
            left, relation, right = _sides(candidate)
        except Exception:  # sympy cannot print what it has not evaluated
            continue
        if left != right and max(len(left), len(right)) <= LONGEST:
            relation = _marked(relation, holds)
            return f"$$\n{_lines(left, relation, right)}\n$$"
    return _source(handed_in, node, call, _marked("=", holds))


def _numbers(handed_in: Any, node: ast.expr, call: step_source.Call, holds: bool | None) -> str:
    """Markdown of a step between numbers, beside the source of each; "" for any other step."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sources, relation = [node.left, *node.comparators], RELATIONS.get(type(node.ops[0]))
    else:
        sources, relation = getattr(node, "elts", []), None
    texts = [_computed(call, source) for source in sources]
    if len(texts) != 2 or not any(texts) or max(map(len, texts)) > WIDEST_SOURCE:
        return ""
    try:
        plain = relation(*values(sources, call), evaluate=False) if relation else handed_in
        left, sign, right = _sides(plain)
    except Exception:  # what has no value is shown as it is written
        return ""
    if left == right or not (_is_number(left) and _is_number(right)):
        return ""
    before, after = (f"`{text}`" if text else "" for text in texts)
    shown = f"{'=' * bool(before)} {left} {_marked(sign, holds)} {right} {'=' * bool(after)}"
    return f"{before} ${shown.strip()}$ {after}".strip()


def _computed(call: step_source.Call, node: ast.expr) -> str:
    """Source of a side that names something; "" for a plain number."""
    return step_source.one_line(call.text, node) if step_source.names(node) - set(NUMBERS) else ""


def values(sources: list[ast.expr], call: step_source.Call) -> list[Any]:
    """Values of the sides of a relation that arrived as true or false, of those that have one."""
    trees = [ast.Expression(parse(ast.unparse(source), "eval").body) for source in sources]
    return [value for tree in trees for value in _evaluated(tree, call)]


def _is_number(tex: str) -> bool:
    return not re.search(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", "", tex))


def _marked(relation: str, holds: bool | None) -> str:
    """The relation in TeX: plain if it holds, negated if not, with a question mark if undecided."""
    if holds is None:
        return rf"\overset{{?}}{{{relation}}}" if relation else ""
    return relation if holds else NEGATED[relation]


def _source(
    handed_in: Any, node: ast.expr | None, call: step_source.Call | None, equal: str
) -> str:
    """Markdown with the source of a step whose sides look the same in TeX."""
    if call is None or node is None:
        return f"`{handed_in}`"
    if not (isinstance(node, ast.Tuple) and isinstance(handed_in, tuple)):
        return f"`{step_source.one_line(call.text, node)}`"
    left, right = (f"`{step_source.one_line(call.text, side)}`" for side in node.elts)
    value = _printed(handed_in[1])
    return f"{left} ${equal}$ {right}" + (f" $= {value}$" if len(value) <= LONGEST / 10 else "")


def as_written(name: str, handed_in: Any, call: step_source.Call | None) -> Any:
    """The step with its computations unevaluated, or as it arrived where that is not possible."""
    return next(_candidates(handed_in, call.node(name) if call else None, call))


def _candidates(
    handed_in: Any, node: ast.expr | None, call: step_source.Call | None
) -> Iterator[Any]:
    """Forms of a step to display, best first: as written, as it arrived, without arithmetic."""
    again = None
    if call is not None and node is not None:
        again = ast.Expression(_Unevaluated().visit(parse(ast.unparse(node), "eval").body))
        yield from _evaluated(again, call)
    yield handed_in
    if call is not None and again is not None and not _is_series(again):
        with sp.evaluate(False):
            with _shallow():
                found = list(_evaluated(again, call))
            yield from found


@contextlib.contextmanager
def _shallow() -> Iterator[None]:
    """Context with a low recursion limit, since code that computes anyway may recurse without end.

    A browser's stack ends before the usual limit is reached, and the whole interpreter with it.
    """
    usual = sys.getrecursionlimit()
    depth = sum(1 for _ in traceback.walk_stack(None))
    sys.setrecursionlimit(min(usual, depth + DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _is_series(tree: ast.AST) -> bool:
    """Whether a series is computed, which takes a hundred times as long without arithmetic."""
    return any(isinstance(n, ast.Attribute) and n.attr == "series" for n in ast.walk(tree))


def _evaluated(tree: ast.Expression, call: step_source.Call) -> Iterator[Any]:
    """The value of an expression in the frame of the call; yields nothing if it has none."""
    names = {**call.known, OURS: NAMES}
    try:
        value = eval(compile(ast.fix_missing_locations(tree), "<as written>", "eval"), names)
    except Exception:  # an object that stands for a value need not do all that the value does
        return
    yield value


def _sides(found: Any) -> tuple[str, str, str]:
    """TeX of left side, relation and right side; a bare statement is all on the left."""
    if isinstance(found, tuple):
        return _tex(found[0]), "=", _tex(found[1])
    if isinstance(found, sp.core.relational.Relational):
        return _tex(found.lhs), SYMBOLS[str(getattr(found, "rel_op", ""))], _tex(found.rhs)
    if found in (sp.true, sp.false):
        return "", "", ""
    return _tex(found), "", ""


def _tex(side: Any) -> str:
    """TeX of one side; the same in every process.

    With no arithmetic done there are sums that differ by the order of their terms alone. They look
    the same, and sympy, to which they are not, would order what they stand in by a set: by the
    hash seed. So one of them stands for all.
    """
    alike: dict[Any, list[sp.Expr]] = {}
    for part in side.atoms(sp.Add) if isinstance(side, sp.Basic) else ():
        alike.setdefault(sp.default_sort_key(part), []).append(part)
    many = [parts for parts in alike.values() if len(parts) > 1]
    first = {part: min(parts, key=sp.srepr) for parts in many for part in parts}
    if not first:
        return _printed(side)
    with sp.evaluate(False):
        replaced = side.xreplace(first)
    return _printed(replaced)


class _Printer(LatexPrinter):
    """sympy's TeX, but a name of several letters does not look like a product of letters."""

    def _deal_with_super_sub(self, string: str, style: str = "plain") -> str:
        name, above = string.rstrip("'_"), [r"\prime"] * string.count("'")
        if match := TRANSPOSED.fullmatch(name):
            name, above = match[1], [r"\top"]
        head, supers, subs = split_super_sub(INFINITE.sub(r"\1_inf", name))
        head = r"\mathbf{1}" if head in ONES else _name(head or "")
        parts = {"_": [s if s.isupper() else _name(s) for s in subs]}
        parts["^"] = [*map(_name, supers), *above]
        marks = (f"{sign}{{{' '.join(tex)}}}" for sign, tex in parts.items() if tex)
        return head + "".join(marks)


def _name(text: str) -> str:
    """TeX of a part of a name: letters that sympy knows, a number, or an upright word."""
    if text == "inf":
        return r"\infty"
    if text in accepted_latex_functions and text not in COMMANDS:
        return f"\\{text}"
    tex = translate(text)
    return rf"\mathrm{{{text}}}" if tex == text and len(text) > 1 and text.isalpha() else tex


def _printed(side: Any) -> str:
    # sympy's printer simplifies exponents, which without arithmetic may never end
    with sp.evaluate(True):
        return _Printer({"mul_symbol": r"\,"}).doprint(side)


def _lines(left: str, relation: str, right: str) -> str:
    """TeX of a step on one line, or on two if it is too wide."""
    if _width(left) + _width(right) <= ONE_LINE:
        return f"{left} {relation} {right}".rstrip()
    return rf"\begin{{aligned}} & {left} \\ {relation}\; & {right} \end{{aligned}}"


def _width(tex: str) -> int:
    """Approximate width of a formula in characters."""
    return len(re.sub(r"\\(?:[a-zA-Z]+|,)|[{}^_\\ ]", "", tex))
