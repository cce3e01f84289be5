"""Where the command writes: files checked before the run, any terminal, an interrupted run."""

import errno
import json
import os
import subprocess
import sys

import pytest

from attnverify import cli
from attnverify.chapters import registry
from attnverify.chapters.verify import verify
from attnverify.checking.search import Settings
from attnverify.cli.verify import Kinds
from attnverify.support import files
from attnverify.support.errors import InputError
from attnverify.support.vocabulary import (
    KINDS,
    MARKS,
    REPORT_VERSION,
    STATUS_COLORS,
    STATUSES,
    tally,
)
from attnverify.verification import verify as running
from attnverify.verification.claim import Origin

QUICK = ["--samples", "40", "--restarts", "2", "--steps", "5", "--jobs", "1"]
COUNT = ["verify", "paths.count", "--evidence", "certified", *QUICK]  # 4 claims, no search


@pytest.fixture
def run(capsys, monkeypatch):
    """The command in this process: exit code, standard output, standard error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["attnverify", *arguments])
        with pytest.raises(SystemExit) as exit:
            cli.main()
            raise SystemExit(0)
        return exit.value.code or 0, *capsys.readouterr()

    return command


@pytest.fixture
def not_run(monkeypatch):
    """A run that starts is a failure."""
    monkeypatch.setattr(running, "verify", lambda *a, **k: pytest.fail("the run started"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("folder", "which is a folder"),
        ("text.txt/below.json", "where nothing can be written"),
        ("text.txt", "which was not written by this program"),
        ("other.json", "which was not written by this program"),
        ("/dev/full", "expected a file or a standard stream"),
        ("/proc/report.json", "expected a file or a standard stream"),
    ],
)
def test_a_bad_target_is_told_before_the_run(run, not_run, tmp_path, target, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("a letter")
    (tmp_path / "other.json").write_text('{"format": 3}')
    code, out, err = run(*COUNT, "--json", str(tmp_path / target))
    assert (code, out) == (2, "") and err.startswith("attnverify: json: got ")
    assert message in err and err.count("\n") == 1
    assert (tmp_path / "text.txt").read_text() == "a letter"


@pytest.mark.parametrize("mask, mode", [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_file_is_as_readable_as_the_umask_lets_it_be(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        files.write_text(tmp_path / "report.json", "{}")
    finally:
        os.umask(before)
    (file,) = tmp_path.iterdir()
    assert file.name == "report.json" and file.stat().st_mode & 0o777 == mode


def test_a_read_only_file_is_told(tmp_path, monkeypatch):
    """By the answer of the system, which says yes to everything where tests run as root."""
    file = tmp_path / "report.json"
    file.touch()
    files.require_writable("json", file)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="which is read-only"):
        files.require_writable("json", file)


def test_a_full_disk_is_told_before_the_run(run, not_run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    code, _, err = run(*COUNT, "--json", str(tmp_path / "new" / "report.json"))
    assert code == 2 and "(No space left on device)" in err


def test_a_report_replaces_a_report_in_a_folder_that_is_made(run, tmp_path):
    file = tmp_path / "new" / "report.json"
    assert run(*COUNT, "--json", str(file))[0] == 0
    before = file.stat().st_ino
    assert run(*COUNT, "--json", str(file))[0] == 0
    assert file.stat().st_ino != before
    assert list(file.parent.iterdir()) == [file]


def test_the_report_goes_to_standard_output(run):
    code, out, err = run(*COUNT, "--json", "-")
    assert code == 0 and json.loads(out)["version"] == REPORT_VERSION
    assert "4 claims: 4 partial" in err


def test_a_report_that_cannot_be_written_is_printed(run, tmp_path, monkeypatch):
    def fail(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_text", fail)
    code, out, err = run(*COUNT, "--json", str(tmp_path / "report.json"))
    assert code == 2 and [c["id"] for c in json.loads(out)["claims"]][-1] == "paths.count"
    assert "4 claims: 4 partial" in err and "No space left on device" in err.splitlines()[-1]


def test_an_interrupted_run_reports_what_it_has(run, tmp_path, monkeypatch):
    gather = Origin.gather

    def stop_at_the_last(origin, claim, *arguments):
        if claim == "paths.count":
            raise KeyboardInterrupt
        return gather(origin, claim, *arguments)

    monkeypatch.setattr(Origin, "gather", stop_at_the_last)
    file = tmp_path / "report.json"
    code, out, _ = run(*COUNT, "--json", str(file))
    assert code == 130 and "interrupted" in out and "3 partial, 1 not checked" in out
    report = json.loads(file.read_text())
    statuses = {claim["id"]: claim["status"] for claim in report["claims"]}
    assert report["interrupted"] is True and statuses["paths.count"] == "not checked"
    with pytest.raises(running.Interrupted):
        verify(["paths.count"], Settings(), ["certified"], jobs=1)


@pytest.mark.parametrize("kinds", [[], ["sampeld"], ["sampled", "believed"]])
def test_an_unknown_kind_of_evidence_is_refused(kinds):
    with pytest.raises(InputError, match="^evidence: got .*expected .*sampled, attacked"):
        running.require_kinds(kinds)  # verify's own types refuse them already in the tests


def test_every_status_has_a_mark_and_a_color():
    assert set(STATUSES) == set(MARKS) == set(STATUS_COLORS)
    assert len(set(MARKS.values())) == len(set(STATUS_COLORS.values())) == len(STATUSES)
    assert list(Kinds) == list(KINDS)
    assert tally(["failed", "verified", "failed"]) == "1 verified, 2 failed"


def test_ids_are_whole_at_thirty_columns(run, monkeypatch):
    for name, value in {"COLUMNS": "30", "FORCE_COLOR": "1", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    _, out, _ = run("list")
    assert [id for id in registry if id not in out] == []
    longest = max(map(len, out.splitlines()))
    assert longest < 110, "the width is that of the terminal, not of a pipe"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_other_encodings_print_escapes(encoding):
    command = [sys.executable, "-m", "attnverify", "list"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for arguments in (command, [*command, "--json"]):
        done = subprocess.run(arguments, capture_output=True, env=environment, timeout=300)
        assert (done.returncode, done.stderr) == (0, b"")
        text = done.stdout.decode(encoding)
    titles = [claim.title for claim in registry.values()]
    assert [row["title"] for row in json.loads(text)] == titles
    assert any(not title.isascii() for title in titles), "no title needs an escape"


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"]])
def test_a_reader_that_leaves_is_no_error(arguments):
    command = [sys.executable, "-m", "attnverify", *arguments]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(write)
    assert done.stderr == ""


def test_a_full_standard_output_is_told_in_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "attnverify", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
