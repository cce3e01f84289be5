"""The text that the experiments read: shipped, checked by digest, the same on every Python."""

from __future__ import annotations

import hashlib
import json
import lzma
import platform

import pytest

import gather_texts
from attnverify import InputError
from attnverify.experiments import texts
from attnverify.experiments.locater import sources
from attnverify.experiments.shortpaths import tasks

#: SHA-256 of what the committed tables were trained and measured on, taken from the running
#: Python 3.11.7 before the text was shipped.
DOCUMENTATION = "627acf5dbd01b8c5d7884b3faae624442d5e2e9281e05cf34e2edff9df6df7ef"
WINDOWS = "fea936636493d5da7aa7d5e5d3ff846fd16a712233d4d9fb583297ad56697a05"
WORDS = "4474f81249fee190cd361770ce58fd5f39deaacd5adc60a97e522c6a17c6619a"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_text_is_that_of_the_committed_tables():
    assert sha256(json.dumps(sources.documentation()).encode()) == DOCUMENTATION
    windows, vocabulary = tasks.documentation_windows(16)
    assert sha256(windows.numpy().tobytes()) == WINDOWS and vocabulary == 2466
    assert sha256(" ".join(texts.words()).encode()) == WORDS


def test_the_tool_gathers_the_text_that_is_shipped_from_the_python_it_came_from():
    """On any other Python it gathers another one, whose digest would be refused."""
    of_this = platform.python_version() == texts.stored().python
    assert (sha256(gather_texts.gather()) == texts.DIGEST) is of_this


def test_the_license_comes_with_the_text():
    folder = texts.resources.files(texts.__name__)
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in (folder / "LICENSE-Python.txt").read_text()


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """A copy of the package's folder of texts that a test may spoil."""
    content = (texts.resources.files(texts.__name__) / texts.FILE).read_bytes()
    (tmp_path / texts.FILE).write_bytes(content)
    monkeypatch.setattr(texts.resources, "files", lambda name: tmp_path)
    return tmp_path / texts.FILE


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda b: lzma.compress(lzma.decompress(b).replace(b"heap", b"leap")), "with SHA-256"),
        (lambda b: b[:1000], "which cannot be read"),
        (lambda b: b"text", "which cannot be read"),
    ],
)
def test_another_text_is_refused(shipped, spoil, message):
    shipped.write_bytes(spoil(shipped.read_bytes()))
    with pytest.raises(InputError, match=f"^text: got .*{message}.*install"):
        texts.stored.__wrapped__()


def test_a_text_has_an_end():
    with pytest.raises(InputError, match="characters: got 400001, expected 0 to 400000"):
        sources.documentation(400_001)
