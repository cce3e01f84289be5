"""The ledger takes only what sympy decides."""

import os
import subprocess
import sys

import pytest
import sympy as sp
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from attnverify import InputError, ledger
from attnverify.derivation import noncommuting

x, y = sp.Symbol("x", real=True), sp.Symbol("y", positive=True)
CLAIM = "norms.square-variant"


def square(side):
    return side**2


def test_a_true_step_is_taken_and_recorded():
    with ledger.recording() as entries:
        entry = ledger.derived(
            CLAIM, {"binomial": ((x + 1) ** 2, x**2 + 2 * x + 1)}, given="x real"
        )
    assert entries == [entry]
    assert (entry.claim, entry.role) == (CLAIM, "derived")
    (step,) = entry.steps
    assert (step.name, step.how) == ("binomial", "identity")
    assert (step.left, step.right) == ("(x + 1)**2", "x**2 + 2*x + 1")
    assert step.source == "((x + 1) ** 2, x**2 + 2 * x + 1)"
    assert entry.given == (("hypothesis", "x real"),)
    assert "[holds] binomial: (x + 1)**2 = x**2 + 2*x + 1" in repr(entry)


def test_recordings_nest_and_end():
    with ledger.recording() as outer:
        with ledger.recording() as inner:
            ledger.derived(CLAIM, {"square": ((x + 1) ** 2, x**2 + 2 * x + 1)})
        ledger.rejected(CLAIM, {"cube": ((-x) ** 3, x**3)})
    ledger.derived(CLAIM, {"later": (sp.diff(x**2, x), 2 * x)})
    assert [e.role for e in inner] == ["derived"]
    assert [e.role for e in outer] == ["rejected"]


@pytest.mark.parametrize(
    "step",
    [
        (x, x + 1),
        sp.Eq(x, 2 * x, evaluate=False),
        sp.Gt(0, 1),
        (
            noncommuting.matrices("A B")[0] * noncommuting.matrices("A B")[1],
            noncommuting.matrices("A B")[1] * noncommuting.matrices("A B")[0],
        ),
        (sp.Function("f")(x), sp.Function("g")(x)),
    ],
)
def test_a_false_or_undecided_step_raises(step):
    with pytest.raises(ledger.DerivationError, match="expected true"):
        ledger.derived(CLAIM, {"step": step})


def test_a_relation_must_be_decided():
    ledger.derived(CLAIM, {"positive": sp.Gt(y + 1, 1, evaluate=False)})
    with pytest.raises(ledger.DerivationError, match="undecided"):
        ledger.derived(CLAIM, {"unknown sign": x > 0})


def test_python_booleans_are_no_derivation():
    with pytest.raises(ledger.DerivationError, match="expected a pair or a sympy relation"):
        ledger.derived(CLAIM, {"because": True})


def test_no_steps_are_no_derivation():
    with pytest.raises(ledger.DerivationError, match="at least one"):
        ledger.derived(CLAIM, {})


def test_a_twin_must_be_false():
    ledger.rejected(CLAIM, {"wrong square": ((x + 1) ** 2, x**2 + 1)})
    with pytest.raises(ledger.DerivationError, match="expected false"):
        ledger.rejected(CLAIM, {"right square": ((x + 1) ** 2, x**2 + 2 * x + 1)})


def test_an_unknown_claim_names_its_nearest_match():
    with pytest.raises(InputError, match="did you mean 'norms.square-variant'"):
        ledger.derived("norms.square-varient", {"s": (x + x, 2 * x)})


@pytest.mark.parametrize("id", ["mine.square", "norms.nothing", "norm.square-variant"])
def test_only_a_kernel_takes_the_id_of_a_file_that_it_has_not_read(id):
    """No slip in an id of the book, and nothing where a derivation is evidence."""

    def hand_in():
        given = {"mine.other": "a fact"}
        return ledger.rejected(id, {"no square": ((x + 1) ** 2, x**2 + 1)}, given=given)

    with ledger.recording(), pytest.raises(InputError, match=f"got '{id}'"):
        hand_in()
    if id.startswith("mine"):
        assert hand_in().given == (("mine.other", "a fact"),)
    else:
        with pytest.raises(InputError, match=f"got '{id}'"):
            hand_in()


def test_matrices_are_compared_entry_by_entry():
    A = sp.Matrix([[x, 1]])
    ledger.derived(CLAIM, {"scaled": (2 * A, A + A)})
    with pytest.raises(ledger.DerivationError):
        ledger.derived(CLAIM, {"scaled": (2 * A, 3 * A)})


@pytest.mark.parametrize("other", [sp.Matrix([[x], [1]]), sp.Matrix([[x, 1, 0]])])
def test_matrices_of_other_shapes_are_neither_equal_nor_a_twin(other):
    for hand_in in (ledger.derived, ledger.rejected):
        with pytest.raises(ledger.DerivationError, match="got shapes"):
            hand_in(CLAIM, {"same entries": (sp.Matrix([[x, 1]]), other)})


def test_an_undecided_sum_is_not_called_false():
    """sympy's own ``equals`` says False to this true identity, so its False does not count."""
    u = sp.Function("u", real=True)
    i, k, n = sp.symbols("i k n", integer=True, positive=True)
    mean, partition = sp.Sum(u(k), (k, 1, n)) / n, sp.Sum(sp.exp(u(k)), (k, 1, n))
    slack = sp.Sum(sp.exp(u(k) - mean) - 1 - (u(k) - mean), (k, 1, n))
    left = sp.exp(u(i) - mean) - n * sp.exp(u(i)) / partition
    right = sp.exp(u(i)) / partition * slack
    assert ledger.decide((left, right)) is not False
    values = {u(1): 2, u(2): -1, u(3): 3, u(i): 5}
    assert sp.simplify((left - right).subs(n, 3).doit().subs(values)) == 0


@pytest.mark.parametrize(
    "hand_in",
    [
        lambda: ledger.derived(CLAIM, {"one is one": (1, 1)}),
        lambda: ledger.derived(CLAIM, {"as it is": (x + 1, x + 1)}),
        lambda: ledger.derived(CLAIM, {"two numbers": (sp.Integer(2), sp.Rational(4, 2))}),
        lambda: ledger.derived(CLAIM, {"numbers": sp.Integer(1) < 2}),
        lambda: ledger.derived(CLAIM, {"because": sp.true}),
        lambda: ledger.derived(CLAIM, {"same": (sp.Matrix([[x]]), sp.Matrix([[x]]))}),
        lambda: ledger.derived(CLAIM, {"a factor": (x**2 * (y**2 / 3), (x * y) ** 2 / 3)}),
        lambda: ledger.derived(CLAIM, {"a value": (square(x).subs(x, 0), 0)}),
        lambda: ledger.derived(CLAIM, {"a function": (y * sp.tanh(sp.atanh(x)), x * y)}),
        lambda: ledger.derived(
            CLAIM, {"simplified": (sp.simplify(square(x + 1) - x**2 - 2 * x - 1), 0)}
        ),
        lambda: ledger.derived(CLAIM, {"a sign": sp.exp(x) + y > 0}),
        lambda: ledger.derived(CLAIM, {"roots": sp.sqrt(3) / 2 <= 4}),
        lambda: ledger.derived(CLAIM, dict([("unseen", (x, x))])),
    ],
)
def test_a_step_without_work_is_refused(hand_in):
    with pytest.raises(ledger.DerivationError, match="got sides that are the same.*or a limit"):
        hand_in()


@pytest.mark.parametrize(
    "hand_in",
    [
        lambda: ledger.rejected(CLAIM, {"numbers": sp.Integer(1) <= sp.Rational(9999, 10000)}),
        lambda: ledger.rejected(CLAIM, {"a pair": (sp.Rational(2, 3), sp.S.Half)}),
        lambda: ledger.rejected(CLAIM, {"not equal": sp.Ne(1 - 2 + 1, 0)}),
        lambda: ledger.rejected(CLAIM, {"less": y <= y * sp.Rational(999, 1000)}),
        lambda: ledger.rejected(CLAIM, {"half": (square(x + 1) / 2, square(x + 1))}),
        lambda: ledger.rejected(CLAIM, {"exp": 2 * sp.exp(1) <= sp.exp(1)}),
    ],
)
def test_a_neighbor_that_alters_no_formula_is_refused(hand_in):
    with pytest.raises(ledger.DerivationError, match="got a neighbor that compares.*expected one"):
        hand_in()


def test_a_neighbor_is_an_altered_formula_or_its_value():
    neighbors = {
        "a formula at a number": square(sp.Integer(3)) <= 8,
        "a place": (x**2 / y).subs({x: 3, y: 1}) <= 8,
        "a limit": (sp.limit(sp.tanh(x / 2) / x, x, 0), 1),
        "a function's value": sp.tanh(1) <= sp.tanh(sp.Rational(99, 100)),
        "an exponent": (y**2, y**3),
        "matrices": (sp.Matrix([[1, 1]]) * sp.ones(2, 1), sp.Matrix([[1]])),
    }
    entry = ledger.rejected(CLAIM, neighbors)
    assert [step.name for step in entry.steps] == list(neighbors)


def test_what_sympy_computes_as_it_builds_is_work():
    """The sides arrive as one expression; the source says what was done."""
    bound = {"bound to a name": (sp.diff(x**2, x), 2 * x)}
    more = {}
    for power in (2, 3):
        more |= {f"power {power}": (sp.diff(x**power, x), power * x ** (power - 1))}
    entry = ledger.derived(CLAIM, {"in place": sp.exp(1) <= 4, **bound, **more})
    assert [step.source for step in entry.steps][:2] == [
        "sp.exp(1) <= 4",
        "(sp.diff(x**2, x), 2 * x)",
    ]


def test_a_given_stands_on_a_claim_or_on_a_word():
    step = {"double": (sp.diff(x**2, x), 2 * x)}
    given = {"norms.submultiplicative": "|AB| <= |A| |B|", "notation": "x is a length"}
    entry = ledger.derived("norms.residual-centers", step, given=given)
    assert entry.given == tuple(given.items())
    assert 'href="norms.html#claim-norms-submultiplicative"' in entry.as_markdown()
    assert "|AB| <= |A| |B| (norms.submultiplicative)" in repr(entry)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("norms.submultiplicatve", "did you mean 'norms.submultiplicative'"),
        ("because", "expected the id of a claim or one of hypothesis, notation"),
        ("paths.count", "which the claim does not rest on, expected it among its uses"),
    ],
)
def test_a_given_that_is_tied_to_nothing_is_refused(key, message):
    with pytest.raises(InputError, match=message):
        ledger.derived(
            "norms.residual-centers", {"d": (sp.diff(x**2, x), 2 * x)}, given={key: "so it is"}
        )


def test_a_step_is_shown_as_it_is_written():
    """sympy integrates as it builds; the page shows the integral."""
    t = sp.Symbol("t")
    (shown,) = ledger.derived(CLAIM, {"i": (sp.integrate(t, (t, 0, x)), x**2 / 2)}).shown
    assert shown == "$$\n\\int\\limits_{0}^{x} t\\, dt = \\frac{x^{2}}{2}\n$$"
    (shown,) = ledger.derived(CLAIM, {"d": (sp.diff(x**2, x).subs(x, 3), 6)}).shown
    assert shown == ("$$\n\\left. \\frac{d}{d x} x^{2} \\right|_{\\substack{ x=3 }} = 6\n$$")
    (shown,) = ledger.derived(CLAIM, {"l": (sp.limit(sp.sin(t) / t, t, 0), 1)}).shown
    assert "\\lim_{t \\to 0^+}" in shown and "= 1" in shown
    (shown,) = ledger.derived(CLAIM, {"r": sp.tanh(2) <= 4}).shown
    assert shown == "$$\n\\tanh{\\left(2 \\right)} \\leq 4\n$$"


def test_a_rejected_step_is_shown_as_false():
    (shown,) = ledger.rejected(CLAIM, {"r": sp.pi <= 3}).shown
    assert shown == "$$\n\\pi \\nleq 3\n$$"
    (shown,) = ledger.rejected(CLAIM, {"r": (x + 1, x)}).shown
    assert shown == "$$\nx + 1 \\neq x\n$$"


def test_sides_that_look_alike_are_shown_as_they_are_written():
    """Without arithmetic where TeX tells them apart, else by their source."""
    one = sp.Matrix([[x]])
    (shown,) = ledger.derived(CLAIM, {"sum": (sp.det(one) + x, 2 * x)}).shown
    assert shown == "$$\nx + x = 2\\,x\n$$"
    (shown,) = ledger.derived(CLAIM, {"call": (sp.det(one), x)}).shown
    assert shown == "`sp.det(one)` $=$ `x` $= x$"


@pytest.mark.parametrize(
    ("name", "tex"),
    [
        ("root", r"\mathrm{root}"),
        ("root_k", r"\mathrm{root}_{k}"),
        ("W_QK", "W_{QK}"),
        ("D_top", r"D_{\mathrm{top}}"),
        ("rho_inf", r"\rho_{\infty}"),
        ("finf", r"f_{\infty}"),
        ("xi1", r"\xi_{1}"),
        ("one", r"\mathbf{1}"),
        ("x1T", r"x_{1}^{\top}"),
        ("x_i'", r"x_{i}^{\prime}"),
        ("TV", r"\mathrm{TV}"),
        ("xbar", r"\bar{x}"),
    ],
)
def test_a_name_of_many_letters_is_no_product_of_letters(name, tex):
    """As a symbol, as a function and as a factor: upright, its marks set, apart from the others."""
    symbol, function, q = sp.Symbol(name), sp.Function(name), sp.Symbol("q", real=True)
    (shown,) = ledger.derived(CLAIM, {"s": ((symbol + 1) * q, symbol * q + q)}).shown
    assert f"{tex}\\,q" in shown or f"q\\,{tex}" in shown
    (shown,) = ledger.derived(CLAIM, {"f": ((function(q) + 1) * q, function(q) * q + q)}).shown
    assert rf"{tex}{{\left(q \right)}}" in shown


def test_numbers_are_shown_with_what_they_are_the_values_of():
    """A reader cannot learn from "1 = 0 does not hold" what was compared."""
    root, four = sp.sqrt(x**2).subs(x, sp.sqrt(2)), sp.Integer(4)
    (shown,) = ledger.rejected(CLAIM, {"r": (root**2, four - 3)}).shown
    assert shown == r"`root**2` $= 2 \neq 1 =$ `four - 3`"
    (shown,) = ledger.rejected(CLAIM, {"r": four <= root}).shown
    assert shown == r"`four` $= 4 \nleq \sqrt{2} =$ `root`"
    (shown,) = ledger.derived(CLAIM, {"d": root * root < 3}).shown
    assert shown == r"`root * root` $= 2 < 3$"
    (shown,) = ledger.rejected(CLAIM, {"r": 2 * sp.tanh(1) <= sp.tanh(2)}).shown
    assert "`" not in shown  # the formula says what the source would


def test_what_never_ends_without_arithmetic_is_given_up_early():
    """The function ends once its argument is computed; a browser's stack would end before that."""
    deepest, two = [], sp.Matrix([[2]])

    def down(value):
        deepest.append(value)
        return x if value == 0 else down(value - 1)

    (shown,) = ledger.derived(CLAIM, {"down": (down(sp.det(two)), x)}).shown
    assert shown == "`down(sp.det(two))` $=$ `x` $= x$"
    assert 100 < len(deepest) < 300 and sys.getrecursionlimit() > 500


def test_wide_steps_take_two_lines():
    y = sp.symbols("y1:20", real=True)
    (shown,) = ledger.derived(CLAIM, {"wide": (sum(y) ** 2, sp.expand(sum(y) ** 2))}).shown
    assert shown.startswith("`")  # nobody reads 190 products
    (shown,) = ledger.derived(CLAIM, {"w": (sum(y), sp.diff(sum(y) * x, x))}).shown
    assert "aligned" in shown


def test_steps_are_shown_only_to_somebody():
    with ledger.recording():
        assert ledger.derived(CLAIM, {"sum": (sp.diff(x**2, x), 2 * x)}).shown == ()
    with ledger.recording(formulas=True) as entries:
        ledger.derived(CLAIM, {"sum": (sp.diff(x**2, x), 2 * x)})
    assert len(entries[0].shown) == 1
    assert ledger.derived(CLAIM, {"sum": (sp.diff(x**2, x), 2 * x)}).cell == 0


@pytest.mark.parametrize("step", [(x, 1.0 * x), sp.Lt(0.5, 1, evaluate=False)])
def test_a_float_is_no_exact_number(step):
    with pytest.raises(ledger.DerivationError, match="got the float .*, expected exact numbers"):
        ledger.derived(CLAIM, {"step": step})


def test_a_float_in_a_relation_that_came_evaluated_is_seen():
    with pytest.raises(ledger.DerivationError, match="got the float 1.5.*, expected exact numbers"):
        ledger.derived(CLAIM, {"step": sp.sqrt(2) < 1.5})
    with pytest.raises(ledger.DerivationError, match="got the float 1.4"):
        ledger.rejected(CLAIM, {"step": sp.sqrt(2) < 1.4})


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_notebook_shows_every_box_of_a_cell_once(shell):
    lines = [
        "import sympy as sp, attnverify as av",
        "x = sp.Symbol('x', real=True)",
        "sum = {'sum': ((x + 1)**2, x**2 + 2 * x + 1)}",
        "first = av.ledger.derived('norms.square-variant', sum)",
        "av.ledger.rejected('norms.square-variant', {'no sum': (x + x, 3 * x)})",
    ]
    with capture_output() as captured:
        shell.run_cell("\n".join(lines), store_history=True)
    shown = [out.data["text/markdown"] for out in captured.outputs]
    assert ["sum" in text and "Derived" in text for text in shown] == [True, False]
    assert "no sum <small>✗ no identity</small>" in shown[1] and "\\neq" in shown[1]
    with capture_output() as captured:
        shell.run_cell("first", store_history=True)
    assert len(captured.outputs) == 1


SHOWN = """
import sympy as sp
from attnverify.derivation import typeset_steps as shown
T = sp.Symbol("T", positive=True)
square = -(T - 1)**2
with sp.evaluate(False):
    side = (T - 1) * (T - 1) + square
print(shown.step("centered", (side, 0), None, True))
"""


def test_a_formula_looks_the_same_in_every_process():
    """sympy orders by a set where two sums differ by the order of their terms alone."""
    command = [sys.executable, "-c", SHOWN]
    seeds = [{**os.environ, "PYTHONHASHSEED": str(seed)} for seed in range(4)]
    running = [subprocess.Popen(command, env=e, stdout=subprocess.PIPE, text=True) for e in seeds]
    found = {process.communicate()[0] for process in running}
    assert len(found) == 1 and r"- \left(T - 1\right)^{2}" in found.pop()


@pytest.mark.parametrize("hand_in", [ledger.derived, ledger.rejected])
@pytest.mark.parametrize(
    "step",
    [
        (sp.nan, x),
        (x, x + sp.nan),
        (sp.oo - sp.oo, sp.Integer(0)),
        (sp.tan(sp.pi / 2), -sp.tan(sp.pi / 2)),
        (sp.log(0), -sp.log(0)),
        (sp.zoo, sp.zoo),
        (sp.zoo, sp.Integer(1)),
        (sp.AccumBounds(-1, 1), sp.AccumBounds(-1, 1)),
    ],
)
def test_no_number_is_neither_equal_nor_another(hand_in, step):
    with pytest.raises(ledger.DerivationError, match="got no number"):
        hand_in(CLAIM, {"nothing": step})


def test_two_infinities_are_equal_and_their_difference_is_not_asked_for():
    assert ledger.decide((sp.oo, sp.Sum(1, (sp.Symbol("k"), 1, sp.oo)).doit())) is True
    assert ledger.decide((sp.oo, -sp.oo)) is False
    assert ledger.decide((sp.zoo, sp.zoo)) is ledger.decide((x + sp.zoo, x + sp.zoo)) is None


@pytest.mark.parametrize("hand_in", [ledger.derived, ledger.rejected])
def test_matrices_without_entries_are_no_step(hand_in):
    with pytest.raises(ledger.DerivationError, match="expected entries to compare"):
        hand_in(CLAIM, {"nothing": (sp.zeros(0, 2), sp.zeros(0, 2))})


def test_a_value_at_a_point_is_one_that_the_assumptions_allow():
    """Steps that hold for such numbers alone; and some that hold for none of them."""
    odd, low = sp.Symbol("o", odd=True), sp.Symbol("l", negative=True)
    root = sp.sqrt(low**4 - 2 * low**3 + low**2)
    for step in ((sp.floor((odd + 1) / 2), (odd + 1) / 2), (root, low**2 - low)):
        assert ledger.decide(step) is not False
    for step in ((odd, 5 - odd), (root, low - low**2)):
        assert ledger.decide(step) is False
    assert ledger.decide((sp.sqrt(2 + sp.sqrt(3)), (sp.sqrt(6) + sp.sqrt(2)) / 2)) is True
