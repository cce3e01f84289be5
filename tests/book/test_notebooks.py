"""The notebooks: their derivations are decided, and every claim has one. The strict book build
executes the whole of them (tests/book/test_pages.py)."""

import ast
import hashlib
import re
import subprocess
import symtable
import sys
from itertools import product
from pathlib import Path

import jupytext
import pytest

from attnverify import InputError, cli
from attnverify.chapters import registry
from attnverify.chapters.verify import verify
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources, run_cells
from attnverify.derivation.myst import Cell, code_cells
from attnverify.verification import check_cells, derived_evidence
from attnverify.verification.report import Report
from places import ROOT

NOTEBOOKS = sorted({claim.notebook for claim in registry.values()})
FILES = sorted((ROOT / "notebooks").glob("*.md"))
CODE = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.M | re.S)
OPTIONS = re.compile(r"\A---\n.*?^---\n", re.M | re.S)  # caption and alternative text of a figure


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_givens_say_what_they_stand_on(name):
    """A plain text would count as a hypothesis of the statement, whatever it says."""
    for cell in notebook_sources.load(name).cells:
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.keyword) and node.arg == "given":
                assert not isinstance(node.value, ast.Constant | ast.JoinedStr), ast.unparse(node)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_claim_has_its_box_and_its_evidence(name):
    text = (ROOT / "notebooks" / f"{name}.md").read_text()
    for claim in registry.values():
        if claim.notebook == name:
            assert f"```{{claim}} {claim.id}" in text
            assert re.search(rf"```\{{evidence\}}[^\n]*{re.escape(claim.id)}", text), claim.id


def names(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The names of the notebook that a cell binds, and those that it reads in any scope."""
    symbols = table.get_symbols()
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    read = {s.get_name() for s in symbols if s.is_referenced()}
    scopes = list(table.get_children())
    while scopes:
        inner = scopes.pop()
        read |= {s.get_name() for s in inner.get_symbols() if s.is_global() and s.is_referenced()}
        scopes += inner.get_children()
    return bound, read


def bound_anew(cells: list[Cell], tag: str = notebook_sources.TAG) -> list[str]:
    """Names that a tagged cell reads and that another cell bound last, in the order of the book.

    Derivations, and checks, run alone and among all cells; such a name would stand for two things.
    Cells of numbers do not run with the checks, so no check before one meets what it binds.
    """
    others, numbers = set[str](), set[str]()
    found, kept = [], set()
    for cell in cells:
        bound, read = names(symtable.symtable(cell.source, "cell", "exec"))
        if tag in cell.tags:
            found += sorted((others | numbers) & read - bound)
            others, numbers = others - bound, numbers - bound
            kept |= read if tag == check_cells.TAG else set()  # functions, which may run later
        elif "numbers" in cell.tags:
            numbers |= bound - imported(cell)
        else:
            others |= bound - imported(cell)
    return sorted({*found, *(others & kept)})


def imported(cell: Cell) -> set[str]:
    """What a cell imports is the same thing in every cell."""
    found = symtable.symtable(cell.source, "cell", "exec").get_symbols()
    return {s.get_name() for s in found if s.is_imported()}


@pytest.mark.parametrize("tag", [notebook_sources.TAG, check_cells.TAG])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_derivations_and_checks_use_no_name_of_other_cells(path, tag):
    assert bound_anew(code_cells(path.read_text()), tag) == []


def test_a_name_bound_anew_is_seen():
    first, last = (
        Cell("x = 1", (notebook_sources.TAG,), 1),
        Cell("y = x", (notebook_sources.TAG,), 3),
    )
    assert bound_anew([first, Cell("x = 2", (), 2), last]) == ["x"]
    assert bound_anew([first, Cell("y = 2", (), 2), last]) == []
    checks = [Cell("def f(): return z", ("check",), 1), Cell("z = 1", (), 3)]
    assert bound_anew(checks, "check") == ["z"] and bound_anew(checks[:1], "check") == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_code_cells_are_short(path):
    for cell in CODE.findall(path.read_text(encoding="utf-8")):
        code = OPTIONS.sub("", cell)
        lines = [s for s in code.splitlines() if s.strip() and not s.startswith(":")]
        assert len(lines) <= 25, lines[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_cells_are_those_that_jupytext_reads(path):
    """The package's own reader and jupytext agree on sources, tags and order."""
    read = [c for c in jupytext.read(path, fmt="md:myst").cells if c.cell_type == "code"]
    cells = code_cells(path.read_text(encoding="utf-8"))
    assert [(c.source, c.tags) for c in cells] == [
        (c.source, tuple(c.metadata.get("tags", ()))) for c in read
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_cell_shows_what_it_changes(path):
    """A cell that ends with a call that changes its object in place would print all of it."""
    for cell in code_cells(path.read_text(encoding="utf-8")):
        last = ast.parse(re.sub(r"(?m)^[%!].*", "", cell.source)).body[-1:]
        for call in (node.value for node in last if isinstance(node, ast.Expr)):
            function = getattr(call, "func", None)
            assert not getattr(function, "attr", "").endswith("_"), cell.source


def test_a_cell_inside_another_block_is_text():
    text = "````\n```{code-cell}\n1\n```\n````\n```{code-cell} x\n:tags: [a, 'b']\n\n2\n```\n"
    assert code_cells(text) == [Cell("2", ("a", "b"), 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```{code-cell}\n:tags: derivation\n1\n```\n", "line 2, expected :tags:"),
        ("```{code-cell}\n---\ntags: [derivation]\n---\n1\n```\n", "got tags in a block"),
        ("\n```{code-cell}\n1\n", "{code-cell} in line 2 without end"),
    ],
)
def test_a_cell_that_cannot_be_read_is_refused(text, message):
    """A derivation that is overlooked could not fail."""
    with pytest.raises(InputError, match=message):
        code_cells(text)


#: Cells show formulas: short named functions on one line, imports where the reader needs them,
#: numbers as the defaults of knobs.
IGNORED = "B007,B008,B018,B020,B023,B905,E402,E501,E703,E731,E741,I001"


def linted(folder: Path, files: list[Path]) -> str:
    """What ruff says of the check cells, which run alone, and of the others, by their lines."""
    for path, part in product(files, ("check", "other")):
        lines: list[str] = []
        for cell in code_cells(path.read_text(encoding="utf-8")):
            if (check_cells.TAG in cell.tags) == (part == "check"):
                lines += [""] * (cell.line - 1 - len(lines)) + cell.source.splitlines()
        (folder / f"{path.stem}.{part}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--config", ROOT / "pyproject.toml", "--extend-ignore", IGNORED, "--no-cache"]
    options += ["--extend-select", "F821", "--extend-per-file-ignores", "*.other.py:F821"]
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_code_cells_pass_the_linter(tmp_path):
    assert linted(tmp_path, FILES).strip() == "All checks passed!"


def test_the_linter_names_the_line_of_the_notebook(tmp_path):
    cells = "```{code-cell} ipython3\n\nimport os\n```\n```{code-cell}\n:tags: [check]\n\nos\n```\n"
    (tmp_path / "bad.md").write_text("# Bad\n\n" + cells)
    said = linted(tmp_path, [tmp_path / "bad.md"])
    assert "bad.other.py:5:8: F401" in said and "bad.check.py:10:1: F821" in said


#: What check cells may import: a module, or what is in it.
IMPORTED = "attnverify.(mathematics|arithmetic|chapters|checking)|dataclasses|flint|fractions|"
IMPORTED += "functools|itertools|math|numpy|sympy|torch|attnverify$"


def not_for_checks(source: str) -> list[str]:
    """What a check cell imports that it may not, and private names that it takes from others.

    ``_replace`` of a named tuple is public.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [alias.name for alias in node.names]
            modules = [node.module or "."] if isinstance(node, ast.ImportFrom) else named
            found += [name for name in modules if not re.match(rf"({IMPORTED})(\.|$)", name)]
            found += [name for name in [*modules, *named] if re.search(r"(^|\.)_", name)]
        if isinstance(node, ast.Attribute) and re.match("_(?!_|replace$)", node.attr):
            found.append(node.attr)
    return found


def test_check_cells_import_public_names_of_mathematics_alone():
    for path in FILES:
        cells = code_cells(path.read_text(encoding="utf-8"))
        found = [not_for_checks(cell.source) for cell in cells if check_cells.TAG in cell.tags]
        assert not any(found), (path.stem, found)
    wrong = "import os\nfrom attnverify.book import figures\nfrom math import _x\nf = math._y"
    assert not_for_checks(wrong) == ["os", "attnverify.book", "_x", "_y"]
    assert (
        not_for_checks("from attnverify import figures\nimport attnverify.mathematics.norms") == []
    )


TRUE = "import attnverify as av, sympy as sp\nx = sp.Symbol('x')\n" + (
    "av.ledger.derived('paths.count', {'right': (sp.diff(x**2, x), 2 * x)})"
)


ZERO = "division by zero"


def notebook(folder: Path, *cells: str, tags: str = f":tags: [{notebook_sources.TAG}]\n\n") -> Path:
    """Write n.md with these cells; returns the folder."""
    body = "\n".join(f"```{{code-cell}} ipython3\n{tags}{cell}\n```\n" for cell in cells)
    (folder / "n.md").write_text(body, encoding="utf-8")
    return folder


def outcome(folder: Path) -> tuple[str, str]:
    """Outcome and detail of the derivation of paths.count in n.md."""
    done = run_cells.run(notebook_sources.load("n", folder))
    (record,), _ = derived_evidence.records(registry["paths.count"], done, reviewed=False)
    return record.outcome, record.detail


def test_a_true_derivation_passes(tmp_path):
    assert outcome(notebook(tmp_path, TRUE)) == ("pass", "right")


def test_an_error_after_the_steps_fails_them(tmp_path):
    assert outcome(notebook(tmp_path, TRUE, "1 / 0")) == ("fail", "ZeroDivisionError: " + ZERO)
    assert outcome(notebook(tmp_path, TRUE + "\n1 / 0"))[0] == "fail"


def test_a_failing_derivation_is_reported(tmp_path):
    wrong = TRUE.replace("(sp.diff(x**2, x), 2 * x)", "(x, x + 1)")
    seen, detail = outcome(notebook(tmp_path, wrong))
    assert seen == "fail" and "step 'right': false" in detail


@pytest.mark.parametrize("later", ["1 / 0", "raise SystemExit(0)", "import no_such_module", "1 +"])
def test_an_error_late_in_a_notebook_fails_what_came_before(tmp_path, later):
    """The claim is handed in, a later cell raises: the derivations do not count."""
    assert outcome(notebook(tmp_path, TRUE, later))[0] == "fail"


def test_a_notebook_without_the_claim_leaves_it_unknown(tmp_path):
    assert outcome(notebook(tmp_path, "x = 1"))[0] == "unknown"


def test_only_tagged_cells_run(tmp_path):
    seen, detail = outcome(notebook(tmp_path, "1 / 0", tags=""))
    assert seen == "unknown" and "no derivation" in detail


LIGHT = """
import sys
from pathlib import Path
for name in ("torch", "numpy", "scipy", "flint", "jupytext", "yaml"):
    sys.modules[name] = None  # as if not installed
from attnverify.derivation import notebook_sources, run_cells
done = run_cells.run(notebook_sources.load("n", Path(sys.argv[1])))
sys.exit(done.error or len(done.entries) - 1)
"""


def test_derivations_need_neither_torch_nor_numpy(tmp_path):
    """A page in a browser runs them too."""
    command = [sys.executable, "-c", LIGHT, notebook(tmp_path, TRUE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def derived(**options) -> Report:
    """A run of one claim's derivation."""
    return verify(["paths.count"], Settings(), ["derived"], jobs=1, **options)


def test_without_notebooks_a_claim_is_not_checked(tmp_path):
    """Nothing ran, so nothing failed and nothing is refuted."""
    report = derived(notebooks_folder=tmp_path)
    (record,) = report.records["paths.count"]
    assert record.outcome == "unknown"
    assert record.detail.startswith("not checked: no derivations found")
    assert report.standing["paths.count"].status not in ("verified", "refuted", "failed")
    assert not report.as_claimed


def test_a_report_names_the_derivations_that_ran(tmp_path, monkeypatch):
    """Origin and SHA-256, for the checkout, for a folder by path and for one by the environment."""
    name = registry["paths.count"].notebook
    content = (ROOT / "notebooks" / f"{name}.md").read_bytes()
    (tmp_path / f"{name}.md").write_bytes(content)
    seen = [derived().as_json(), derived(notebooks_folder=tmp_path).as_json()]
    monkeypatch.setenv(notebook_sources.NOTEBOOKS, str(tmp_path))
    seen.append(derived().as_json())
    entries = [report["derivations"][name] for report in seen]
    assert {e["sha256"] for e in entries} == {hashlib.sha256(content).hexdigest()}
    assert [e["origin"] for e in entries] == [
        "the notebooks beside the package's source",
        f"the folder asked for by notebooks: {tmp_path}",
        f"the folder asked for by {notebook_sources.NOTEBOOKS}: {tmp_path}",
    ]


def test_the_command_takes_a_folder_and_says_what_ran(tmp_path, monkeypatch, capsys):
    name = registry["paths.count"].notebook
    notebook(tmp_path, TRUE).joinpath("n.md").rename(tmp_path / f"{name}.md")
    options = ["--evidence", "derived", "--jobs", "1", "--notebooks", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["attnverify", "verify", "paths.count", *options])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    said = " ".join(capsys.readouterr().out.split())
    digest = hashlib.sha256((tmp_path / f"{name}.md").read_bytes()).hexdigest()
    origin = f"{name}.md, the folder asked for by notebooks: {tmp_path}, SHA-256 {digest}"
    assert f"derivations: {origin}" in said
    assert exit.value.code == 1 and "not checked: no derivations found" in said  # its ancestors


@pytest.mark.parametrize("asked", ["missing", "n.md"])
def test_what_is_asked_for_must_be_a_folder(tmp_path, monkeypatch, asked):
    notebook(tmp_path, TRUE)
    with pytest.raises(InputError, match="expected a folder of notebooks"):
        notebook_sources.load("n", tmp_path / asked)
    monkeypatch.setenv(notebook_sources.NOTEBOOKS, str(tmp_path / asked))
    with pytest.raises(InputError, match=f"{notebook_sources.NOTEBOOKS}: got"):
        notebook_sources.load("n")


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "n.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="n.md, which is no UTF-8"):
        notebook_sources.load("n", tmp_path)


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A package that carries one notebook, in a folder like those of an installation."""
    shipped = tmp_path / "site-packages" / "attnverify" / "notebooks"
    shipped.mkdir(parents=True)
    notebook(shipped, TRUE)
    digest = hashlib.sha256((shipped / "n.md").read_bytes()).hexdigest()
    (shipped / notebook_sources.DIGESTS).write_text(f'{{"n.md": "{digest}"}}')
    monkeypatch.setattr(notebook_sources, "PACKAGE", shipped.parent)
    return shipped


def test_shipped_derivations_are_checked_by_digest(installed):
    assert notebook_sources.load("n").origin == "shipped with the installed package"
    notebook(installed, "x = 1")
    with pytest.raises(InputError, match="n.md with SHA-256 .*, which is not the one shipped"):
        notebook_sources.load("n")
    (installed / notebook_sources.DIGESTS).write_text("[1")
    with pytest.raises(InputError, match="broken digests.json"):
        notebook_sources.load("n")


def test_an_installation_without_notebooks_looks_nowhere_else(installed, monkeypatch):
    """Neither in the current folder nor where a checkout would have them."""
    for folder in (installed.parents[2] / "notebooks", installed.parents[1] / "notebooks"):
        folder.mkdir()
        notebook(folder, TRUE)
    monkeypatch.chdir(installed.parents[1])
    (installed / notebook_sources.DIGESTS).unlink()
    source = notebook_sources.load("n")
    assert source.cells == () and not source.found
