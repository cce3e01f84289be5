"""The three trained models: their text and baseline, their folders, their inputs, the criterion."""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path

import pytest
import torch

from attninspect.load import Folder
from attnverify import InputError, inspect
from attnverify.experiments import committed
from attnverify.experiments.engine import weights
from attnverify.experiments.trained_models import decoder, folders, looked, training


def test_no_document_is_learned_and_held_out():
    train, held_out = (bytes(part.tolist()) for part in decoder.corpus())
    assert 0.05 < len(held_out) / (len(train) + len(held_out)) < 0.15
    unseen = [part for part in held_out.split(decoder.BETWEEN) if len(part) > 60]
    assert len(unseen) > 100 and sum(part in train for part in unseen) / len(unseen) < 0.1


def test_the_baseline_is_a_law_and_the_one_of_its_formula():
    """After "ab" of "abab" by hand: a came once, one kind. p(a | b) = (1 + p(a)) / (1 + 1)."""
    tables = training.counted(b"abab", 2)
    alone = (2 + 2 / 256) / (4 + 2)  # a came twice of four, with two kinds
    wanted = -math.log2((1 + alone) / 2)
    assert training.bits_per_byte(tables, b"ba", skip=1) == pytest.approx(
        [-math.log2(alone), wanted]
    )
    for context in (b"a", b"b", b"z"):
        every = [training.bits_per_byte(tables, context + bytes([b]), skip=1) for b in range(256)]
        for order in range(2):
            assert sum(2.0 ** -bits[order] for bits in every) == pytest.approx(1.0)


def test_bytes_and_pieces_of_reactions_are_the_tokens():
    text = "def f(x):\n    return x\u00b2"
    ids, words = Folder.of(folders.decoder()).encode(text)
    assert ids == list(text.encode()) and len(words) == len(ids)
    reaction = "[Na+].BrC%11[Xx]>>Clc1cc1"
    ids, words = Folder.of(folders.albert()).encode(reaction)
    assert words[0] == "[CLS]" and words[-1] == "[SEP]"
    pieces = ["[Na+]", ".", "Br", "C", "%11", "[UNK]", ">>", "Cl", "c", "1", "c", "c", "1"]
    assert words[1:-1] == pieces
    for subject in looked.SUBJECTS:
        for index in range(len(looked.REACTIONS)):
            ids, words = Folder.of(subject.folder()).encode(subject.text(index))
            assert len(ids) <= 64 and "[UNK]" not in words, "rollout is compared up to 64 tokens"


def package(folder: Path, **content: bytes) -> Path:
    """A package rxnmapper whose model has these files."""
    inside = folder / "rxnmapper" / folders.INSIDE
    inside.mkdir(parents=True)
    (folder / "rxnmapper" / "__init__.py").write_text("raise RuntimeError('it was run')")
    for name in folders.DIGESTS:
        (inside / name).write_bytes(content.get(name.split(".")[0], b"{}"))
    return inside


class Harmful:
    """An object whose pickle would run a command."""

    def __reduce__(self):
        return eval, ("1/0",)


def test_other_weights_than_the_known_ones_are_not_opened(tmp_path, monkeypatch):
    package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match=r"pytorch_model.bin with SHA-256 .*rxnmapper 0.4.3"):
        folders.albert()
    assert not list((tmp_path / "cache").rglob("*.*"))


def test_a_known_pickle_runs_no_code_all_the_same(tmp_path, monkeypatch):
    """Even if the digest were that of a harmful file, ``weights_only`` refuses it."""
    out = io.BytesIO()
    torch.save(Harmful(), out)
    inside = package(tmp_path, pytorch_model=out.getvalue())
    found = {name: folders.hashlib.sha256((inside / name).read_bytes()) for name in folders.DIGESTS}
    digests = {name: digest.hexdigest() for name, digest in found.items()}
    monkeypatch.setattr(folders, "DIGESTS", digests)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "cache")
    with pytest.raises(pickle.UnpicklingError, match="[Ww]eights"):
        folders.albert()


def test_without_the_package_the_command_is_told(monkeypatch):
    monkeypatch.setattr(folders, "PACKAGE", "no_such_package")
    with pytest.raises(InputError, match="no package no_such.*--no-deps rxnmapper==0.4.3"):
        folders.albert()


def test_a_folder_is_made_once_and_says_last_that_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "root", lambda: tmp_path)
    folder = folders.decoder()
    names = {file.name for file in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json"}
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert folders.decoder() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    (folder / "config.json").unlink()
    (folder / "model.safetensors").write_bytes(b"half")
    folders.decoder()
    assert (folder / "model.safetensors").stat().st_size > 10**5


@pytest.mark.parametrize("subject", looked.SUBJECTS, ids=lambda subject: subject.name)
def test_the_three_are_traced_to_rounding(subject):
    """Here in float32, where the table has float64."""
    report = inspect(subject.folder(), text=subject.text(1), dtype="float32")
    assert 0 < report.proof["largest_error_over_bound"] <= 1
    assert report.rollout is not None and report.rollout["tokens"] == report.inputs["tokens"]


def test_the_weights_are_those_of_the_configuration_and_small():
    found = weights.committed(decoder.NAME)
    assert {k: v.shape for k, v in found.items()} == {
        name: value.shape for name, value in decoder.model().named_parameters()
    }
    assert 4 * sum(value.numel() for value in found.values()) < 5 * 10**6


def test_a_byte_is_scored_once_with_half_a_context_before_it():
    """With a module that knows the position: logits that name the byte itself."""
    length = decoder.corpus().held_out.numel()
    half = decoder.CONTEXT // 2
    every = decoder.windows(torch.arange(length), decoder.CONTEXT, half)[:, 1:][:, half:]
    flat = every.flatten()
    assert torch.equal(flat, torch.arange(half + 1, int(flat[-1]) + 1))
    assert int(flat[-1]) + 1 == (length - decoder.CONTEXT - 1) // half * half + decoder.CONTEXT + 1


def test_metrics_of_the_training_are_of_text_that_is_held_out():
    goals = decoder.Goals(3, batch=2, context=64, unseen=5)
    held_out = decoder.corpus().held_out
    assert torch.equal(goals.unseen.flatten()[:64], held_out[:64]) and goals.unseen.shape == (5, 65)
    training_text = bytes(decoder.corpus().train.tolist())
    assert not any(bytes(window.tolist()) in training_text for window in goals.unseen)
    assert all(bytes(window.tolist()) in training_text for window in goals.pieces[:: 10**5])


def test_criteria_are_undecided_without_their_rows():
    assert training.judge([]).holds is None and looked.judge([]).holds is None
    missing = [row for row in committed("three-models").rows if row["model"] != "ALBERT"]
    assert looked.judge(missing).holds is None


# ---------------------------------------------------------------- what a training is made of


def test_the_decoder_starts_smaller_where_it_writes():
    """Eight writers; a deviation of 4,096 numbers or more is known to 5/sqrt(8192)."""
    for name, value in decoder.start(decoder.model(), 7).items():
        if "norm" not in name and value.numel() >= 4096:
            writers = 8 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
            size = float(value.std()) * math.sqrt(writers * value.shape[-1])
            assert size == pytest.approx(1, abs=5 / math.sqrt(8192)), name


def test_texts_of_the_decoder_begin_every_1024_bytes():
    held_out = bytes(decoder.corpus().held_out.tolist())
    for index in range(3):
        piece = held_out[1024 * index : 1024 * index + 64]
        assert looked.documentation(index) == piece.decode("ascii", "replace")


def scores(own, *others):
    """The decoder's bits per byte, and those after 0, 1, .. bytes."""
    rows = [{"kind": "n-gram", "order": n, "bits": bits} for n, bits in enumerate(others, 1)]
    return [{"kind": "training", "bits": 0.0}, {"kind": "decoder", "bits": own}, *rows]


def test_the_decoder_is_compared_with_counting_after_one_byte():
    others = (5.0, 4.0, 3.0, 2.5, 2.0, 1.5)
    assert training.judge(scores(3.9, *others)).holds is True
    assert training.judge(scores(4.0, *others)).holds is False
    assert training.judge(scores(3.0, *others)).ratio == 0.75
    assert training.judge(scores(2.4, *others), before=3).holds is True
    assert training.judge(scores(3.9, *others[:5])).holds is None


# ---------------------------------------------------------------- what is looked at


def test_boundaries_of_the_criterion_on_three_models():
    """Each part at both sides of its number; the decoder counts for bounds and thresholds alone."""
    same = {"error_over_bound": 1.0, "shares": [0.8, 0.2], "paths": [100, 101], "same_top": 0.49}
    rows = [{"kind": "text", "model": model, **same} for model in ("encoder", "ALBERT", "decoder")]
    rows += [
        {"kind": "layer", "model": model, "over_threshold": [20.5], "why": None}
        for model in ("encoder", "ALBERT")
    ]
    rows += [{"kind": "layer", "model": "decoder", "over_threshold": [None], "why": "gates"}]
    rows += [
        {"kind": "head", "model": "ALBERT", "layer": layer, "head": 3, "entropy": entropies}
        for layer, entropies in ((1, [0.0, 0.09]), (2, [0.9, 0.26]))
    ]
    found = looked.judge(rows)
    assert found.holds is True and found.ratio == 1.0 and found.cases == 3
    for place, key, value in (
        (2, "error_over_bound", 1.001),
        (1, "shares", [0.79, 0.21]),
        (0, "shares", [1.21, -0.21]),
        (0, "paths", [1, 1]),
        (1, "same_top", 0.5),
        (3, "over_threshold", [20.0]),
        (4, "over_threshold", [30.0, 20.0]),
        (5, "why", None),
        (6, "entropy", [0.0, 0.1]),
        (7, "entropy", [0.9, 0.25]),
    ):
        spoiled = [row | {key: value} if n == place else row for n, row in enumerate(rows)]
        assert looked.judge(spoiled).holds is False, (place, key)
    for key, value in {"shares": [0.5, 0.5], "paths": [2, 1], "same_top": 0.9}.items():
        other = [row | {key: value} if n == 2 else row for n, row in enumerate(rows)]
        assert looked.judge(other).holds is True, key
