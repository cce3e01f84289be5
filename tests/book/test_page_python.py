"""The files of Python for the pages: pinned, checked, kept; said so where they cannot be had."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import build_book
import serve
from attnverify.book.build import npm, page_python


def test_where_npm_cannot_be_reached_pages_go_without_and_the_build_says_so(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv(page_python.WITHOUT, raising=False)
    monkeypatch.setattr(npm, "FOLDER", tmp_path)
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    build_book.fetch_python()
    said = capsys.readouterr().out
    assert "warning: no page runs derivations: npm pack pyodide@" in said
    assert "ECONNREFUSED" in said and said.count("\n") == 1
    assert not page_python.available() and list(tmp_path.iterdir()) == []
    for stage in (build_book.compile_python, lambda: build_book.add_python(tmp_path / "html")):
        stage()
    assert list(tmp_path.iterdir()) == []


def test_npm_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch):
    def silent(arguments, *, env, timeout, **options):
        assert timeout <= 300 and env["npm_config_fetch_retries"] == "1"
        raise subprocess.TimeoutExpired(arguments, timeout)

    monkeypatch.setattr(npm.subprocess, "run", silent)
    with pytest.raises(npm.NotFetchedError, match="timed out after"):
        npm.download(page_python.PYODIDE, tmp_path)


def test_a_book_without_python_is_out_of_date_when_python_can_be_had(tmp_path, monkeypatch):
    monkeypatch.delenv(page_python.WITHOUT, raising=False)
    monkeypatch.setattr(npm, "FOLDER", tmp_path)
    without = build_book.source_hash(tmp_path, ())
    for package in (page_python.PYODIDE, page_python.MPL):
        (tmp_path / package).mkdir()
    assert page_python.available() and build_book.source_hash(tmp_path, ()) != without
    monkeypatch.setenv(page_python.WITHOUT, "1")
    assert build_book.source_hash(tmp_path, ()) == without


def test_pages_go_without_if_the_environment_asks(monkeypatch, capsys):
    monkeypatch.setenv(page_python.WITHOUT, "1")
    monkeypatch.setattr(npm, "fetch", lambda package: pytest.fail("asked for"))
    build_book.fetch_python()
    assert "no page runs derivations" in capsys.readouterr().out
    assert not page_python.available()


def test_another_package_than_the_pinned_one_fails_the_build(tmp_path, monkeypatch):
    def other(package: str, folder: Path) -> Path:
        (folder / "a.tgz").write_bytes(b"other")
        return folder / "a.tgz"

    monkeypatch.delenv(page_python.WITHOUT, raising=False)
    monkeypatch.setattr(npm, "FOLDER", tmp_path)
    monkeypatch.setattr(npm, "download", other)
    with pytest.raises(build_book.StageError, match="expected sha512-"):
        build_book.fetch_python()


def test_library_files_are_those_of_their_wheel(monkeypatch):
    names = [name for name, _ in page_python.library_files("mpmath")]
    assert "mpmath/__init__.py" in names and not [n for n in names if "/tests/" in n]
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"changed")
    with pytest.raises(page_python.PythonError, match="not as its wheel recorded it"):
        list(page_python.library_files("mpmath"))


def test_the_package_s_files_hold_what_derivations_need_and_no_checks():
    names = {name for name, _ in page_python.package_files()}
    assert {"attnverify/derivation/ledger.py", "attnverify/book/inpage/session.py"} <= names
    assert not [n for n in names if "/checks" in n or "/experiments/" in n]


def test_files_compiled_before_are_used_again(tmp_path, monkeypatch):
    made = page_python._digest([("a.py", b"1")])
    assert made != page_python._digest([("a.py", b"2")])
    (tmp_path / f"part-{made}.zip").write_bytes(b"kept")
    monkeypatch.setattr(page_python, "_compile", lambda *_: pytest.fail("compiled again"))
    found = page_python.compiled({"part": [("a.py", b"1")]}, tmp_path)
    assert found["part"].read_bytes() == b"kept"


def test_the_server_takes_another_port_if_its_own_is_taken(tmp_path):
    with serve.serve(tmp_path, 0) as first, serve.serve(tmp_path, first.server_port) as second:
        assert second.server_port not in (0, first.server_port)
