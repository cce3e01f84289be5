"""Whatever a model's folder holds: read as it says, or refused in one line, and nothing else.

Generated files, with a fixed seed: what comes out is a result or InputError, of one short line.
"""

import functools
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import attnverify as av
import modelzoo
from attninspect import configuration, load
from attninspect.command import ids_from
from attninspect.load import Folder, regular
from attnverify import cli
from attnverify.support.errors import InputError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "path", "##s", "are", "short", "."]


def seeded(cases: int):
    return settings(max_examples=cases, derandomize=True, deadline=None, database=None)


def outcome(call):
    """What a call gives; None where it refuses, which must be in one short line."""
    try:
        return call()
    except InputError as error:
        line = str(error)
        assert "\n" not in line and len(line) < 1200 and ": got " in line and ", expected" in line
        return None


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "model"
    modelzoo.model("bert").save_pretrained(made)
    (made / "vocab.txt").write_text("\n".join([*WORDS, *(f"w{i}" for i in range(12))]) + "\n")
    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """The same, for generated cases, which share it; each writes what it reads."""
    made = tmp_path_factory.mktemp("kept")
    modelzoo.model("bert").save_pretrained(made)
    return made


# ---------------------------------------------------------------- configurations


@functools.cache
def configs() -> dict[str, dict]:
    """A valid configuration of every case, as config.json states it."""
    found = {}
    for case, (name, options) in modelzoo.CASES.items():
        family = getattr(load.import_transformers(), name).model_type
        found[case] = {"model_type": family, **options}
    return found


def deep(levels: int, end: object = 1) -> object:
    for _ in range(levels):
        end = [end]
    return end


NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([10**6, 2**31, 2**63, 10**30, -(10**9), 1.0, 12.0, 1e-12, -0.5]),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e308]),
)
TEXTS = st.one_of(
    st.text("aZ09._/-\\\n\x1b\0\u00e9\u202e\u4e2d\ud800", max_size=12),
    st.sampled_from(["12", "1e-12", "true", "", "../x", "/dev/zero", "someone/x", "\x1b[2J"]),
    st.sampled_from(["x" * 10**5, "\ud800", "gelu", "eager", "bert", "dynamic"]),
)
SIMPLE = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=4),
    st.dictionaries(st.sampled_from(["rope_type", "factor", "x", ""]), SIMPLE, max_size=4),
    st.sampled_from([deep(300), {"a": deep(100)}, [10**40] * 9]),
)
FOREIGN = [*configuration.REFUSED, "_attn_implementation", "_attn_implementation_internal"]


@st.composite
def mutated(draw):
    """A valid configuration with one to three keys removed, changed or added."""
    body = dict(draw(st.sampled_from(list(configs().values()))))
    for _ in range(draw(st.integers(1, 3))):
        known = st.sampled_from(sorted({*body, *configuration.GROUPS, "num_labels", "id2label"}))
        what = draw(st.sampled_from(["remove", "change", "change", "change", "foreign", "other"]))
        if what == "remove":
            body.pop(draw(known), None)
        elif what == "change":
            key = draw(known)
            body[key] = draw(VALUES)
        else:
            names = st.sampled_from(FOREIGN) if what == "foreign" else st.text(max_size=9)
            body[draw(names)] = draw(VALUES)
    return body


@seeded(200)
@given(mutated())
def test_configurations(body):
    """Whatever transformers makes of it: a model without numbers, or one line."""
    made = outcome(lambda: Folder(Path("."), configuration.checked(body), (), ()).skeleton)
    assert made is None or all(weight.is_meta for weight in made.parameters())
    assert made is None or not {key for key in FOREIGN if body.get(key) is not None}


@seeded(100)
@given(VALUES)
def test_configurations_that_are_no_object(body):
    assert outcome(lambda: configuration.checked(body)) is None


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("value", ["someone/x", {"load_in_4bit": True}, True, "eager"])
def test_a_key_that_asks_for_more_is_refused_by_name(folder, monkeypatch, name, value):
    """Before transformers is asked for anything: no hub can be reached from there."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    monkeypatch.setattr(load, "import_transformers", lambda: pytest.fail("it was asked"))
    with pytest.raises(InputError, match=f"^model: got {name} in config.json, expected"):
        av.inspect(folder, [3, 4])


def test_no_hub_whatever_the_environment_says(folder, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "0")
    av.inspect(folder, [3, 4])
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"


# ---------------------------------------------------------------- token ids


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


LISTS = st.lists(SIMPLE, max_size=5).map(json.dumps).map(as_bytes)
LINES = st.lists(st.one_of(st.integers(), TEXTS).map(str), max_size=5).map(" ".join).map(as_bytes)
ODD = st.sampled_from([b"[" * 10**5, b"[1,", b"\xff\xfe", b"[1e9]", b"", b" ", b"\0", b"9" * 10**4])


@seeded(500)
@given(content=st.one_of(st.binary(max_size=20), LISTS, LINES, ODD))
def test_files_of_token_ids(kept, content):
    file = kept / "ids"
    file.write_bytes(content)
    found = outcome(lambda: ids_from(file))
    assert found is None or (found and all(type(each) is int for each in found))


# ---------------------------------------------------------------- weights

NAMES = ["part.safetensors", "../out.safetensors", "/etc/passwd", "..", ".", "", "sub/x", "link"]
MAPS = st.dictionaries(TEXTS, st.one_of(st.sampled_from(NAMES), SIMPLE), max_size=3)
INDICES = st.one_of(
    VALUES, st.fixed_dictionaries({"weight_map": st.one_of(MAPS, VALUES)}), MAPS
).map(json.dumps)


@seeded(300)
@given(content=st.one_of(INDICES.map(as_bytes), st.binary(max_size=20)))
def test_index_files(kept, content):
    """Only names of files in the folder are ever taken from an index."""
    part, whole = kept / "part.safetensors", kept / load.WEIGHTS
    if whole.exists():
        whole.rename(part)
        save_file({"x": torch.zeros(1)}, kept.parent / "out.safetensors")
        (kept / "link").symlink_to(kept.parent / "out.safetensors")
        (kept / "sub").mkdir()
    try:
        (kept / load.INDEX).write_bytes(content)
        found = outcome(lambda: Folder.of(kept))
        assert found is None or found.weights == ("part.safetensors",)
    finally:
        part.rename(whole)
        for name in ("link", load.INDEX):
            (kept / name).unlink()
        (kept / "sub").rmdir()


@seeded(200)
@given(st.data())
def test_damaged_weights(kept, data):
    """Cut, or with bytes of the header changed: numbers of that file, or one line."""
    whole = kept / load.WEIGHTS
    good = whole.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    near = data.draw(st.integers(0, 200))
    damage = data.draw(st.binary(min_size=1, max_size=9))
    bad = good[:at] if data.draw(st.booleans()) else good[:near] + damage + good[near + 1 :]
    try:
        whole.write_bytes(bad)
        outcome(lambda: Folder.of(kept).dtypes)
    finally:
        whole.write_bytes(good)


def test_weights_from_outside_the_folder(folder, tmp_path):
    """An index reads nothing but files of its folder, and the digest covers each of them."""
    tensors = safetensors.torch.load_file(folder / load.WEIGHTS)
    names = sorted(tensors)
    (folder / load.WEIGHTS).unlink()
    save_file({n: tensors[n] for n in names[::2]}, folder / "a.safetensors")
    save_file({n: tensors[n] for n in names[1::2]}, folder / "b.safetensors")
    places = {n: f"{'ab'[i % 2]}.safetensors" for i, n in enumerate(names)}
    (folder / load.INDEX).write_text(json.dumps({"weight_map": places}))
    before = Folder.of(folder).digest()
    expected = av.inspect(modelzoo.model("bert"), [3, 4]).lengths
    assert av.inspect(folder, [3, 4]).lengths == expected
    (folder / "other.safetensors").write_bytes(b"none of the model's")
    assert Folder.of(folder).digest() == before
    for change in (lambda t: t + 1, lambda t: t):
        save_file({n: change(tensors[n]) for n in names[1::2]}, folder / "b.safetensors")
        assert (Folder.of(folder).digest() == before) == (change(torch.zeros(1)) == 0)
    (folder / "b.safetensors").rename(tmp_path / "b.safetensors")
    for place in ("../b.safetensors", str(tmp_path / "b.safetensors")):
        moved = {n: place if v[0] == "b" else v for n, v in places.items()}
        (folder / load.INDEX).write_text(json.dumps({"weight_map": moved}))
        with pytest.raises(InputError, match="^model: got the file name .*, expected plain names"):
            av.inspect(folder, [3, 4])
    (folder / load.INDEX).write_text(json.dumps({"weight_map": places}))
    (folder / "b.safetensors").symlink_to(tmp_path / "b.safetensors")
    with pytest.raises(InputError, match="^model: got 'b.safetensors', a link that leads out"):
        av.inspect(folder, [3, 4])


def test_the_cache_of_a_hub_is_a_folder(folder, tmp_path):
    """Its snapshots hold links to its blobs, and these alone."""
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "1a2b", tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in folder.iterdir():
        file.rename(blobs / f"of-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/of-{file.name}")
    assert av.inspect(snapshot, "the path").model["family"] == "bert"
    (snapshot / "vocab.txt").unlink()
    (snapshot / "vocab.txt").symlink_to(__file__)
    with pytest.raises(InputError, match="^model: got 'vocab.txt', a link that leads out"):
        av.inspect(snapshot, "the path")


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8, torch.float8_e4m3fn])
def test_weights_that_are_no_floats(folder, dtype):
    tensors = safetensors.torch.load_file(folder / load.WEIGHTS)
    name = "encoder.layer.1.output.dense.weight"
    save_file({**tensors, name: tensors[name].to(dtype)}, folder / load.WEIGHTS)
    with pytest.raises(InputError, match=f"^model: got '{name}' of .* expected weights of float64"):
        av.inspect(folder, [3, 4])


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("score.weight", True),
        ("score_extra.weight", False),
        ("encoder.score.weight", False),
        ("cls.predictions.bias", True),
        ("xcls.bias", False),
        ("bert.pooler.dense.bias", True),
        ("encoder.layer.0.pooler.bias", False),
        ("embeddings.position_ids", True),
        ("embeddings.position_ids_extra", False),
        ("transformer.h.0.attn.masked_bias", True),
        ("h.0.attn.bias", True),
        ("h.0.attn.bias_k", False),
        ("layers.0.self_attn.rotary_emb.inv_freq", True),
    ],
)
def test_tensors_left_out_go_by_whole_names(name, unused):
    assert bool(load.UNUSED.fullmatch(name)) == unused


def test_a_tensor_that_nothing_explains(folder):
    tensors = safetensors.torch.load_file(folder / load.WEIGHTS)
    save_file({**tensors, "score_extra.weight": torch.zeros(2)}, folder / load.WEIGHTS)
    with pytest.raises(InputError, match="^model: got 1 tensors in .*score_extra.weight"):
        av.inspect(folder, [3, 4])


def test_sizes_without_weights_are_told_before_they_are_made(folder):
    """Some 10^12 numbers, each size within its limit."""
    file = folder / "config.json"
    sizes = {"hidden_size": 2**16, "num_attention_heads": 1, "num_hidden_layers": 100}
    file.write_text(json.dumps({**json.loads(file.read_text()), **sizes}))
    with pytest.raises(InputError, match="^model: got weights of .* numbers, where config.json"):
        av.inspect(folder, [3, 4])


# ---------------------------------------------------------------- folders


def pipe(file: Path) -> None:
    os.mkfifo(file)


def door(file: Path) -> None:
    at = os.open(file.parent, os.O_RDONLY)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{at}/{file.name}")
    finally:
        os.close(at)


ODD_FILES = {
    "pipe": pipe,
    "socket": door,
    "folder": Path.mkdir,
    "link out": lambda f: f.symlink_to("/etc/hostname"),
    "device": lambda f: f.symlink_to("/dev/zero"),
    "broken link": lambda f: f.symlink_to("nowhere"),
    "loop": lambda f: f.symlink_to(f.name),
    "empty": lambda f: f.write_bytes(b""),
    "zeros": lambda f: f.write_bytes(bytes(100)),
    "bytes": lambda f: f.write_bytes(b"\xff\xfe{}"),
    "deep": lambda f: f.write_bytes(b"[" * 10**5),
    "list": lambda f: f.write_bytes(b"[[1, 2]]"),
    "huge header": lambda f: f.write_bytes(b"\xff" * 7 + b"\x7f{}"),
}
PLACES = ("config.json", load.WEIGHTS, load.INDEX, "tokenizer.json", "vocab.txt", load.OPTIONS)


@pytest.mark.parametrize("kind", ODD_FILES)
@pytest.mark.parametrize("name", PLACES)
def test_odd_files(folder, name, kind):
    """No pipe is waited for and no device read: what is no regular file is never opened."""
    file = folder / name
    if name == load.INDEX:
        (folder / load.WEIGHTS).unlink()
    file.unlink(missing_ok=True)
    ODD_FILES[kind](file)
    assert outcome(lambda: av.inspect(folder, "the path")) is None


@pytest.mark.parametrize("name", ["..", "a/b", "/etc/passwd", "", ".", "a\0b", "a\\b", "x" * 999])
def test_names_that_are_not_plain(folder, name):
    assert outcome(lambda: regular(folder.resolve(), name)) is None


def test_a_name_that_is_no_text(folder, tmp_path):
    """The library of weights takes UTF-8 alone; a report names its texts."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.rename(odd)
    assert outcome(lambda: av.inspect(odd, [3])) is None
    assert outcome(lambda: av.inspect(odd / "none", [3])) is None
    from attninspect import texts

    (odd / os.fsdecode(b"\xfe.txt")).write_text("the path")
    assert outcome(lambda: texts.read([odd])) is None


# ---------------------------------------------------------------- tokenizers


def tokenizer(**parts) -> str:
    model = {"type": "WordLevel", "vocab": {"a": 5, "[UNK]": 1}, "unk_token": "[UNK]"}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    base = {"version": "1.0", "added_tokens": [], "pre_tokenizer": None, "model": model}
    return json.dumps({**empty, **base, **parts})


def split(pattern: str) -> dict:
    parts = {"pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Split", **parts}


HOSTILE = {
    "backtracking": tokenizer(pre_tokenizer=split("(a+)+$")),
    "open": tokenizer(pre_tokenizer=split("(a")),
    "growing": tokenizer(
        normalizer={
            "type": "Sequence",
            "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 999}]
            * 4,
        }
    ),
    "ids": tokenizer(model={"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"}),
    "no vocabulary": tokenizer(model={"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}),
    "model": tokenizer(model={"type": "Program", "run": "x"}),
    "null": "null",
    "a text": '"x"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokenizers(folder, name, monkeypatch):
    """A pattern that gives up ends in a way of its own, which no ``except Exception`` sees."""
    monkeypatch.setattr(load, "MEMORY", 1 << 29)
    (folder / "tokenizer.json").write_text(HOSTILE[name])
    assert outcome(lambda: Folder.of(folder).encode("a" * 40 + "b")) is None


def test_a_tokenizer_that_takes_for_ever(folder, monkeypatch):
    """Each place of a long text is tried almost as long as the pattern's library allows."""
    monkeypatch.setattr(load, "SECONDS", 1)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "max_position_embeddings": 1000}))
    (folder / "tokenizer.json").write_text(tokenizer(pre_tokenizer=split("(a|aa)+c")))
    with pytest.raises(InputError, match="^model: got tokenizer.json, which does not work on this"):
        Folder.of(folder).encode(("a" * 26 + " ") * 1000)


def test_a_long_text_gives_its_tokenizer_more_seconds(folder, monkeypatch):
    """One second more for each 100,000 characters; the job is not run here."""
    jobs = []

    def run(command, input, **options):
        jobs.append(json.loads(input)["seconds"])
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(load.subprocess, "run", run)
    for length in (10, 300_010):
        with pytest.raises(InputError, match="^model: got vocab.txt, which does not work on this"):
            Folder.of(folder)._asked(("vocab.txt",), {"texts": ["a" * length]})
    assert jobs == [load.SECONDS, load.SECONDS + 3]


def test_a_text_longer_than_any_the_model_takes(folder, monkeypatch):
    """Told by its size, before a tokenizer sees it."""
    monkeypatch.setattr(load.Folder, "_asked", lambda *given: pytest.fail("it was tokenized"))
    with pytest.raises(
        InputError, match="^text: got 40,000,000 characters, expected at most 4,096"
    ):
        av.inspect(folder, "the path" * 5_000_000)


def test_byte_pairs_are_those_of_gpt2(tmp_path):
    """vocab.json and merges.txt alone, against the tokenizer of transformers."""
    from transformers import GPT2TokenizerFast

    folder = tmp_path / "gpt2"
    letters = sorted(chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)])
    letters += [chr(256 + i) for i in range(256 - len(letters))]
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("\u0120", "p"), ("a", "t")]
    words = [*letters, *(a + b for a, b in merges), "<|endoftext|>"]
    modelzoo.model("gpt2", vocab_size=len(words)).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    made = Folder.of(folder)
    own = GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    for text in ("the path at\n\n 12  \u00e9\U0001f600", " the<|endoftext|>the", "\t'll  the "):
        assert made.encode_all({"t": text[:16]})[0][0] == own(text[:16])["input_ids"]
    assert made.read[-2:] == ("vocab.json", "merges.txt")
    assert av.inspect(folder, "the path").inputs["tokens"] == 4


# ---------------------------------------------------------------- the command


def refused(words: list[str], monkeypatch, capfd) -> str:
    """The one line that the command ends with, at exit code 2."""
    monkeypatch.setattr(sys, "argv", ["attnverify", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, error = capfd.readouterr()
    assert ended.value.code == 2 and out == ""
    lines = [line for line in error.splitlines() if line.strip()]  # a bar ends in a blank one
    assert len(lines) == 1 and lines[0].startswith("attnverify: "), error
    return lines[0]


def test_the_command_refuses_in_one_line_and_writes_nothing(folder, tmp_path, monkeypatch, capfd):
    body = json.loads((folder / "config.json").read_text())
    changes = {
        "heads": {"num_attention_heads": 0},
        "words": {"hidden_size": "12"},
        "kernel": {"_attn_implementation": "someone/x"},
        "layers": {"num_hidden_layers": 10**6},
    }
    out = tmp_path / "report"
    for change in changes.values():
        (folder / "config.json").write_text(json.dumps({**body, **change}))
        line = refused(["inspect", str(folder), "--out", str(out)], monkeypatch, capfd)
        assert f"got {next(iter(change))}" in line or "config.json" in line
    (folder / "config.json").write_text(json.dumps(body))
    ids = tmp_path / "ids"
    ids.write_text("[1.5, 2]")
    line = refused(
        ["inspect", str(folder), "--tokens", str(ids), "--out", str(out)], monkeypatch, capfd
    )
    assert "tokens: got 1.5 in 'ids'" in line
    (folder / "tokenizer.json").write_text(HOSTILE["backtracking"])
    (tmp_path / "text").write_text("a" * 40 + "b")
    words = ["inspect", str(folder), "--text", str(tmp_path / "text"), "--out", str(out)]
    assert "tokenizer.json, which does not work" in refused(words, monkeypatch, capfd)
    (folder / load.WEIGHTS).unlink()
    pipe(folder / load.WEIGHTS)
    assert "model.safetensors', which is no file" in refused(words, monkeypatch, capfd)
    assert not list(out.glob("*"))


def test_every_tensor_is_read_once(folder):
    with ExitStack() as stack:
        names = [name for _, name, _ in Folder.of(folder)._listed(stack)]
    assert len(names) == len(set(names)) == len(safetensors.torch.load_file(folder / load.WEIGHTS))
