"""What a reader sees below a check cell that runs in a notebook."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from attnverify.chapters import cells
from attnverify.checking import declare


@pytest.fixture
def run():
    """Runs a cell in a shell of its own and returns what it shows."""
    shell = InteractiveShell.instance()

    def shown(source):
        with capture_output() as captured:
            shell.run_cell(source, store_history=True)
        assert "Traceback" not in captured.stdout + captured.stderr
        return [output.data for output in captured.outputs]

    with declare.collecting():
        shown("import attnverify as av")
        yield shown
    InteractiveShell.clear_instance()


def test_each_check_of_a_chapter_has_a_row(run):
    tables = [shown for cell in cells.cells("layernorm") for shown in run(cell.source)]
    rows = [row for shown in tables for row in shown["text/plain"].splitlines()[2:]]
    names = [name for checks in cells.declared("layernorm").values() for name in checks]
    assert [row.split("  ")[0] for row in rows] == names
    for row in rows:
        rejected, _, twins = row.split("  ")[-1].strip().partition(" of ")
        assert rejected == twins
    assert all(shown["text/html"].count("<table") == 1 for shown in tables)


SUM = """@av.inequality("mine.sum", "x[n]", 2)
def square_of_the_sum(x):
    return av.ops.square(av.ops.sum(x, -1)), %s * av.ops.sum(av.ops.square(x), -1)
"""
LAST = 'square_of_the_sum.equal(x=[1, 1]).false("in place of <", at=[{"x": [0, 0]}])'


def test_a_cell_that_goes_on_with_a_check_shows_it_and_another_one_nothing(run, monkeypatch):
    assert run(SUM % "2") == []
    (shown,) = run(LAST)
    row, note = shown["text/plain"].splitlines()[2:]
    assert row.split()[:4] + row.split()[-4:] == ["square", "of", "the", "sum", "1", "1", "of", "2"]
    assert "'in place of <' is not rejected" in note
    assert "in place of &lt;" in shown["text/html"]
    assert run("square_of_the_sum") == [shown] and run("def nothing(): pass") == []
    monkeypatch.setenv("ATTNVERIFY_BUILDING", "1")
    assert run("square_of_the_sum") == []


def test_a_false_statement_shows_its_instance(run):
    (shown,) = run(SUM % "1" + LAST)
    lines = shown["text/plain"].splitlines()
    assert lines[2].split()[4:7] == ["false"] * 3
    assert "square of the sum, sampled: false" in lines[3] and " at x (2,) = " in lines[3]


def test_an_error_is_one_line(run):
    (shown,) = run(SUM % "no_such" + LAST)
    head, row, note = shown["text/plain"].splitlines()[1:]
    assert head.split("  ")[0] == "check" and row.endswith("error")
    assert "NameError: name 'no_such' is not defined (line 3 of the cell)" in note
