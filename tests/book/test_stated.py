"""Numbers in the text of chapters are those that a cell computes."""

import ast
import re

import pytest

from attnverify import InputError, stated
from attnverify.chapters import cells
from attnverify.derivation.myst import code_cells, fences
from places import ROOT

FILES = sorted((ROOT / "notebooks").glob("*.md"))
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\da-zA-Z_]|\.\d)")
THOUSANDS = re.compile(r"(?<=\d)(?:\\,|,)(?=\d{3})")
#: A statement is read and recorded with its claim.
NO_TEXT = ("{claim}", "{reading}", "{evidence}")
NAMES = re.compile(r"(\{\w+\})?`[^`]*`|<[\w./:-]+>|\(https?:[^)]*\)")


def numbers(text: str) -> list[str]:
    """The numbers in the text of a chapter and in its captions."""
    lines = text.split("\n---\n", 1)[1].splitlines()
    for info, start, own in fences("\n".join(lines)):
        if info.startswith("{code-cell}"):  # captions
            kept = own[: own.index("---", 1)] if own[0] == "---" else []
        else:
            kept = [] if info.startswith(NO_TEXT) else own
        blank = [""] * (len(own) + 1 - len(kept))
        lines[start - 1 : start + len(own) + 1] = ["", *kept, *blank]
    return NUMBER.findall(THOUSANDS.sub("", NAMES.sub(" ", "\n".join(lines))))


def handed_in(text: str) -> tuple[set[str], set[float]]:
    """The numbers that cells state, and those that cells start from."""
    nodes = [n for c in code_cells(text) for n in ast.walk(ast.parse(code(c.source)))]
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "av.stated"]
    keys = [ast.literal_eval(k).lstrip("<> -") for n in calls for k in n.args[0].keys]  # type: ignore
    given = [str(n.value) for n in nodes if isinstance(n, ast.Constant) and n not in keys]
    numerals = {float(v) for v in given if NUMBER.fullmatch(v)}
    return {k.replace(",", "") for k in keys}, numerals


def code(source: str) -> str:
    """A cell without commands of the shell."""
    return re.sub(r"(?m)^[%!].*", "", source)


def not_stated(text: str) -> list[str]:
    """Decimals with two digits after the point and whole numbers of three that no cell has."""
    keys, numerals = handed_in(text)
    long = [n for n in dict.fromkeys(numbers(text)) if re.fullmatch(r"\d{3,}|\d+\.\d{2,}", n)]
    return [n for n in long if n not in keys and float(n) not in numerals]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_cells_state_the_numbers_in_the_text(path):
    text = path.read_text()
    assert not_stated(text) == []
    assert handed_in(text)[0] <= set(numbers(text)), "stated, but not in the text"
    cells.declared(path.stem)  # runs those cells


TOY = """---
---

At $x = 0.25$ it is 0.707; `0.11`, 12 and 0.5 are short, and so is {cite}`b2024`.

```{code-cell}
---
mystnb:
  figure:
    caption: |
      The root is 1\\,414 or 0.35.
---
av.stated({"0.707": y, "> 1,414": 2 * y, "-0.5": y})
x = 0.25
```
"""


def test_a_changed_number_is_not_stated():
    assert not_stated(TOY) == ["0.35"]
    for digits, wrong in (("0.25", "0.26"), ("0.707", "0.708"), ("1\\,414", "1\\,415")):
        changed = TOY.replace(digits, wrong, 1)
        assert not_stated(changed) == [*{wrong.replace("\\,", "")} - {"0.35"}, "0.35"]


@pytest.mark.parametrize(
    ("number", "value", "right"),
    [
        ("0.58", 0.57735, "0.58"),
        ("0.57", 0.57735, "0.58"),
        ("> 0.57", 0.57735, "> 0.57"),
        ("> 0.58", 0.57735, "> 0.57"),
        ("< 0.57", 0.57735, "< 0.58"),
        ("0.13", 0.125, "0.12"),
        ("13,885", 13884, "13884"),
        ("-2.19", -2.1972, "-2.20"),
    ],
)
def test_a_number_is_the_value_to_its_last_digit(number, value, right):
    if number in (right, "0.13"):  # a tie is rounded either way
        stated({number: value})
    else:
        with pytest.raises(InputError, match=re.escape(f"expected '{right}'")):
            stated({number: value})
