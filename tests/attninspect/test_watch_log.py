"""A log of a watch that is damaged, forged or on a full disk: an error of one line, or a page."""

import copy
import json
import random
import resource
import warnings

import pytest
import torch
from typer.testing import CliRunner

import attnverify as av
from attnverify.cli import app

DEEP = "[" * 100_000
#: In place of any value; a name in the angles stands for what json.dumps cannot write.
WRONG = [None, True, -1, 1.5, 1e308, 10**400, "", "10</title><script>alert(1)</script>", "\ud800"]
WRONG += [[], {}, [[]], float("nan"), float("inf"), "<1e999>", f"<{DEEP}>", f"<{'9' * 9000}>"]
BYTES = [b"\0", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b"\x1b[31m", b"{", b"\xef\xbb\xbf"]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def batch(seed: int = 0) -> torch.Tensor:
    return torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def log(model, tmp_path):
    watch = av.Watch(model, tmp_path / "log.jsonl", every=1)
    for step in range(2):
        watch.step(step, batch(step))
    return tmp_path / "log.jsonl"


def places(value, at=()):
    """Where every part of a piece of JSON stands."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def changed(body, how: str, draw: random.Random) -> str:
    """A line of the log with one change."""
    body = copy.deepcopy(body)
    *way, key = draw.choice([*places(body)])
    part = body
    for step in way:
        part = part[step]
    if how == "drop":
        del part[key]
    elif how == "extra":
        part[key] = {"more": 1, **part[key]} if isinstance(part[key], dict) else [part[key]] * 3
    elif how == "double":
        return json.dumps(body)[:-1] + f', "step": {json.dumps(draw.choice(WRONG[:9]))}}}'
    else:
        part[key] = draw.choice(WRONG) if how == "wrong" else [[part[key]]]
    text = json.dumps(body)
    return text.replace('"<', "").replace('>"', "") if '"<' in text else text


def mutated(valid: bytes, seed: int) -> bytes:
    draw = random.Random(seed)
    how = draw.choice(
        ["cut", "byte", "ends", "lines", "drop", "extra", "double", "wrong", "nested"]
    )
    if how == "cut":
        return valid[: draw.randrange(len(valid))]
    if how == "byte":
        at = draw.randrange(len(valid))
        return valid[:at] + draw.choice(BYTES) + valid[at + draw.randrange(2) :]
    lines = valid.splitlines(keepends=True)
    if how == "ends":
        return draw.choice([b"", BYTES[-1]]) + valid.replace(b"\n", draw.choice([b"\r\n", b"\r"]))
    if how == "lines":
        return b"".join(draw.choices([*lines, b"\n", b"null\n", b"{}\n"], k=draw.randrange(5)))
    at = draw.randrange(len(lines))
    lines[at] = changed(json.loads(lines[at]), how, draw).encode("utf-8", "surrogatepass") + b"\n"
    return b"".join(lines)


def ran(path) -> tuple[bool, str]:
    """Whether there is a page, and what was said; no other exception than that of a mistake."""
    result = CliRunner().invoke(app, ["watch", str(path)])
    assert isinstance(result.exception, av.InputError | None), repr(result.exception)
    return result.exit_code == 0, str(result.exception or result.output)


def test_300_changed_logs(model, log):
    """What is read can also be gone on with, and be read again; what is not, names its line."""
    valid, page, seen = log.read_bytes(), log.with_suffix(".html"), {True: 0, False: 0}
    for seed in range(300):
        log.write_bytes(mutated(valid, seed))
        good, said = ran(log)
        seen[good] += 1
        if good:
            assert "alert(1)" not in page.read_text()
            assert av.Watch(model, log, every=1).step(99, batch()) is not None, seed
            assert ran(log)[0] and log.read_bytes().endswith(b"\n"), seed
        else:
            assert said.startswith("log") and "log.jsonl" in said and ", expected " in said, seed
            assert "\n" not in said and len(said) < 600, seed
            before = log.read_bytes()
            if before:
                with pytest.raises(av.InputError, match="log"):
                    av.Watch(model, log, every=1)
            assert log.read_bytes() == before, seed
    assert min(seen.values()) > 30


def test_a_log_whose_lines_end_as_on_windows_is_gone_on_with(model, log):
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n") + b'{"step": 2, "lay')
    watch = av.Watch(model, log, every=1)
    assert watch.step(1, batch(1)) is None and watch.step(2, batch(2)) is not None
    steps = [record.step for record in av.Watch(model, log).records]
    assert steps == [0, 1, 2] and log.read_bytes().count(b"\r\n") == 3


def test_what_is_too_large_is_not_read(log):
    """A file of 3 GB that takes no room on the disk, and a line without an end."""
    with log.open("ab") as file:
        file.write(b" " * (5 << 20))
    said = "log, line 4 of log.jsonl: got a longer line, expected at most 4194304 bytes"
    assert ran(log) == (False, said)
    with log.open("r+b") as file:
        file.truncate(3 << 30)
    assert ran(log) == (
        False,
        f"log: got log.jsonl of {3 << 30} bytes, expected at most {64 << 20}",
    )


def test_a_full_disk_does_not_end_the_training(model, log):
    """One warning; what could not be written is there as soon as there is room."""
    watch, whole = av.Watch(model, log, every=1), log.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 50, before[1]))
    try:
        with pytest.warns(UserWarning, match="cannot be written, .*File too large") as told:
            found = [watch.step(step, batch(step)) for step in (2, 3)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(told) == 1 and all(found) and log.read_bytes() == whole
    with warnings.catch_warnings(action="error"):
        watch.step(4, batch(4))
    assert [record.step for record in av.Watch(model, log).records] == [0, 1, 2, 3, 4]


def test_a_log_that_cannot_be_written_is_told_before_the_training(model, tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    with pytest.raises(av.InputError, match="^log: got .*expected a file or a standard stream"):
        av.Watch(model, tmp_path / "log")
