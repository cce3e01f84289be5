"""One way to write a file: links are followed, nothing of the system is touched, all or none."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from attnverify.support import files
from attnverify.support.errors import InputError, RunError

WRITE = """
import sys
from pathlib import Path
from attnverify.support import files
print("before")
path = Path(sys.argv[1])
files.require_writable("out", path)
files.write_text(path, "text\\n")
print("after")
"""


def test_a_link_is_followed(tmp_path):
    """Also over a second link, and one that leads to no file yet."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "old.json").write_text("{}")
    (tmp_path / "second").symlink_to("far/old.json")
    for name, end in (("first", "second"), ("new", "far/new.json")):
        (tmp_path / name).symlink_to(end)
        files.write_text(tmp_path / name, "text")
        assert (tmp_path / name).is_symlink() and (tmp_path / end).read_text() == "text"
    assert (tmp_path / "second").is_symlink()
    assert sorted(p.name for p in (tmp_path / "far").iterdir()) == ["new.json", "old.json"]


def test_a_circle_of_links_is_told(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match=r"^out: got \S*circle, which leads to .*symbolic links"):
        files.require_writable("out", tmp_path / "circle")


@pytest.mark.parametrize(
    ("stream", "lines"), [(1, ["before", "text", "after"]), (2, ["text", "before", "after"])]
)
def test_a_standard_stream_gets_the_text(tmp_path, stream, lines):
    """In its order where it is the one that is printed to, whose file is not replaced."""
    (tmp_path / "link").symlink_to(f"/proc/self/fd/{stream}")
    command = [sys.executable, "-c", WRITE, str(tmp_path / "link")]
    how = {"stderr": subprocess.STDOUT, "env": {**os.environ, "PYTHONUNBUFFERED": ""}}
    with (tmp_path / "to").open("w") as out:
        subprocess.run(command, stdout=out, check=True, **how)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **how)
    assert (tmp_path / "to").read_text() == done.stdout == "\n".join([*lines, ""])
    assert (tmp_path / "link").is_symlink()


def test_a_named_pipe_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    files.require_writable("out", tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(tmp_path / "pipe", "text")
    assert os.read(end, 10) == b"text" and (tmp_path / "pipe").is_fifo()
    os.close(end)


@pytest.mark.parametrize("leads", ["/dev/full", "/proc/self/comm", "/proc/new", "/sys/new"])
def test_nothing_of_the_system_is_written_to(tmp_path, leads):
    (tmp_path / "link").symlink_to(leads)
    with pytest.raises(InputError, match="own files are not written to.*expected a file or a sta"):
        files.require_writable("out", tmp_path / "link")
    with pytest.raises(OSError, match="own files are not written to"):
        files.write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()


def test_all_files_are_written_or_none(tmp_path):
    """On a disk that is full at the second: the process may write files of so many bytes."""
    (tmp_path / "a").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.write_all({tmp_path / "a": "new", tmp_path / "b": "b" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "a").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_half_a_pair_has_its_escape(tmp_path):
    files.write_text(tmp_path / "a.json", '"\ud800"')
    assert (tmp_path / "a.json").read_text() == '"\\ud800"'


@pytest.mark.parametrize("kind", [InputError, RunError])
def test_an_error_is_one_line_that_a_terminal_can_show(kind):
    name = Path("a\x1b[31m\n\u202e\x9b\N{PARAGRAPH SEPARATOR}\u00e9")
    assert str(kind(f"out: got {name}")) == r"out: got a\x1b[31m\n\u202e\x9b\u2029é"
