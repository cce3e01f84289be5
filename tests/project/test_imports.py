"""What is imported when: the claims, the ledger and the listing commands do without torch."""

import ast
import importlib
import inspect
import os
import subprocess
import sys

import pytest

import attnverify
from attnverify import verification
from attnverify.support import lazy

HEAVY = ["torch", "numpy", "scipy", "matplotlib"]
EXACT = ["flint", "sympy"]  # sympy loads flint by itself where it is installed
COMMAND = "import sys; from attnverify import cli; sys.argv = ['attnverify', {}]; cli.main()"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from attnverify import claims; claims.registry['paths.count']", [*HEAVY, *EXACT, "rich"]),
        ("import attnverify; attnverify.symbolic.equal; attnverify.ledger.derived", HEAVY),
        ("from attnverify.runtime import workers", [*HEAVY, *EXACT]),
        (COMMAND.format("'--help'"), [*HEAVY, *EXACT, "attnverify.chapters"]),
        (COMMAND.format("'list', 'paths.*'"), [*HEAVY, *EXACT]),
        (COMMAND.format("'show', 'paths.count'"), [*HEAVY, *EXACT]),
    ],
)
def test_nothing_heavy_is_imported(code, absent):
    printed(code, absent)


def printed(code: str, absent: list[str], **environment: str) -> list[str]:
    """The lines that code prints in a process that imports none of these."""
    tell = f"print('loaded:', [m for m in {absent} if m in sys.modules], file=sys.stderr)"
    code = f"import sys, atexit\natexit.register(lambda: {tell})\n{code}"
    command, environment = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "loaded: []"
    return done.stdout.splitlines()


def test_finished_work_is_read_without_what_computes(tmp_path):
    """The same table, and how many pieces were found. What is not there, processes compute."""
    code = COMMAND.format("'verify', 'paths.count', '--samples', '20', '--steps', '2'")
    first, second = (
        printed(code, [*HEAVY, *EXACT], ATTNVERIFY_STORE=str(tmp_path)) for _ in range(2)
    )
    (more,) = (line for line in second if line not in first)
    assert more.startswith("6 pieces of evidence were found before")
    assert [line for line in second if line != more] == first
    assert sum("verified" in line for line in first) == 5


def stated(package) -> dict[str, str]:
    """The names in the package's block for type checkers, as its table should give them."""
    tree = ast.parse(inspect.getsource(package))
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    found = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom) and line.module
        for name in line.names:
            inside = hasattr(importlib.import_module(line.module), "__path__")
            found[name.asname] = f"{line.module}{'.' if inside else ':'}{name.name}"
    return found


@pytest.mark.parametrize("package", [attnverify, verification])
def test_type_checkers_see_the_table_of_public_names(package):
    assert stated(package) == package.PUBLIC
    assert [name for name in dir(package) if name[:2] != "__"] == sorted(package.PUBLIC)
    assert all(getattr(package, name) is not None for name in package.PUBLIC)


def test_a_public_name_is_the_module_itself():
    import attnverify.mathematics.norms

    assert attnverify.norms is sys.modules["attnverify.mathematics.norms"]
    assert attnverify.spectrum is sys.modules["attnverify.mathematics.eigenspectrum"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'attnverify' has no attribute 'normz'"):
        _ = attnverify.normz
    get, names = lazy.attributes("attnverify", {"x": "math:pi"})
    assert "x" in names()
    with pytest.raises(AttributeError):
        get("y")
