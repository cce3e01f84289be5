"""No page writes a number as 3e-04 or a formula as x^2 <= 4 in what people read."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import evidence_files
from attnverify.book.pages.common import read_evidence
from attnverify.book.sphinx.extension import typeset_docstring
from attnverify.derivation.myst import CELL, code_cells
from attnverify.support.tables import Table
from attnverify.support.typeset import as_html, numbers
from places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.md"))
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[eE][-+]?\d+(?!\w|\.\d)")
ASCII = re.compile(rf"{NUMBER.pattern}|<=|>=|!=|->|\bsqrt\b|\^")
FENCE = re.compile(r"^(`{3,}|~{3,})(.*?)\n(.*?)^\1$", re.M | re.S)
OPTIONS = re.compile(r"---\n(.*?)^---$", re.M | re.S)
CODE = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`\n]*`", re.S)


def prose(text: str) -> str:
    """What a source shows as text: no code, no formulas; of code cells captions and alt texts."""

    def kept(fence: re.Match[str]) -> str:
        options = OPTIONS.match(fence[3])
        if fence[2].startswith(CELL):
            return options[1] if options else ""
        return fence[3] if fence[2].startswith("{") else ""

    return CODE.sub("", FENCE.sub(kept, text))


def nodes(path: Path) -> Iterator[ast.AST]:
    for cell in code_cells(path.read_text(encoding="utf-8")):
        yield from ast.walk(ast.parse(cell.source))


def steps(call: ast.Call) -> Iterator[str]:
    """Names of steps and given facts of a derivation."""
    given = [k.value for k in call.keywords if k.arg == "given"]
    texts = [k for d in call.args[1:] if isinstance(d, ast.Dict) for k in d.keys]
    texts += [v for d in given if isinstance(d, ast.Dict) for v in d.values]
    yield from (str(t.value) for t in texts if isinstance(t, ast.Constant))


@pytest.mark.parametrize("value", [3e-4, 2.9e-9, 1e-308, 1.5, 7e15, 1e300])
@pytest.mark.parametrize("form", [".0e", ".1e", ".3e", "g"])
def test_a_number_keeps_its_value_and_its_digits(value, form):
    plain = f"{value:{form}}"
    shown = numbers(f"at most {plain}, or less.")
    assert shown.startswith("at most ") and shown.endswith(", or less.")
    digits, ten, power = shown[8:-10].partition("10")
    power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    assert not NUMBER.search(shown)
    if "e" not in plain or plain.endswith("+00"):
        assert shown[8:-10] == plain.removesuffix("e+00")
    else:
        assert float(f"{digits.rstrip('·') or 1}e{power}") == float(plain)


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("2.99e-398", "2.99·10⁻³⁹⁸"),
        ("a digest 5e03ab and 1e5.2", "a digest 5e03ab and 1e5.2"),
        ("tau(S) <= tanh(Delta/4)", "τ(S) ≤ tanh(Δ/4)"),
        ("e^(kappa/2) - sqrt 2", "e<sup>κ/2</sup> − √2"),
        ("a_(l+1) <= C_l a_l^3", "a<sub>l+1</sub> ≤ C<sub>l</sub> a<sub>l</sub><sup>3</sup>"),
        ("||v||_inf, key_width, eta -> oo", "||v||<sub>∞</sub>, key_width, η → ∞"),
        ("1/v = [0.5 +/- 2.1e-09]", "1/v = [0.5 ± 2.1·10⁻⁹]"),
        ("the gamma integral at x*", "the gamma integral at x*"),
        ("w = e^{-z_j}, <b> & c", "w = e<sup>−z<sub>j</sub></sup>, &lt;b&gt; &amp; c"),
    ],
)
def test_a_formula_is_typeset(plain, shown):
    assert as_html(plain, html.escape) == shown


def test_prose_and_captions_are_typeset():
    for path in [*NOTEBOOKS, *(ROOT / "book").glob("*.md")]:
        found = prose(path.read_text(encoding="utf-8"))
        assert not [line for line in found.splitlines() if NUMBER.search(line)], path.name


def test_cells_print_typeset_numbers_and_steps():
    """A format such as :.1e is for a table, which is typeset, or for what ``numbers`` is given."""
    for path in NOTEBOOKS:
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                told = (ast.unparse(a) for a in node.args)
                plain = [a for a in told if not a.startswith("numbers(")]
                assert not any(re.search(r":[^{}]*[eg]\}", a) for a in plain), path.name
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("av.ledger."):
                shown = (re.sub("</?su[bp]>", "", as_html(step, str)) for step in steps(node))
                assert not [step for step in shown if ASCII.search(step)], path.name


def test_tables_and_generated_pages_are_typeset(tmp_path):
    shown = Table("at most 1e-05", ["< 1e-308"], [["2.0e-07"]])._repr_html_()
    assert shown.count("10⁻⁵") == 2 and "<td>" not in shown and not NUMBER.search(shown)
    assert "&lt; 10⁻³⁰⁸" in shown and "2.0·10⁻⁷" in shown
    body = json.loads(evidence_files.write(tmp_path / "a.json").read_text("utf-8"))
    entry = next(e for e in body["claims"] if e["evidence"] and e["twins"])
    entry["evidence"][0] |= {"detail": "off by 3e-04", "limits": "up to 1e+06"}
    entry["twins"][0]["detail"] = "1.0e-09"
    (tmp_path / "b.json").write_text(json.dumps(body), "utf-8")
    read = read_evidence(tmp_path / "b.json")
    record = read.records(entry["id"])[0]
    assert (record["detail"], record["limits"]) == ("off by 3·10⁻⁴", "up to 10⁶")
    assert read.twins(entry["id"])[0]["detail"] == "1.0·10⁻⁹"


def test_docstrings_are_typeset_but_for_what_is_typed():
    lines = ['|W_Q|^2 <= ``x^2``, see :func:`a_b`, as "sqrt(2)/4".', "", ">>> 2^3 <= 4", "1e-05"]
    typeset_docstring(None, "", "", None, None, lines)
    assert lines[0].replace("\\ ", "") == (
        r"\|W:sub:`Q`\|:sup:`2` ≤ ``x^2``, see :func:`a_b`, as \"sqrt(2)/4\".".replace('\\"', '"')
    )
    assert lines[2:] == [">>> 2^3 <= 4", "1e-05"]
