"""The generated pages hold every claim and say what the registry says."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch

import evidence_files
import modelzoo
from attnverify.book.pages import errata
from attnverify.book.pages.__main__ import main, write
from attnverify.book.pages.common import (
    escape,
    number,
    read_evidence,
)
from attnverify.chapters import registry
from attnverify.chapters.lookup import checks_of
from attnverify.checking.check import Inequality
from attnverify.support.errors import InputError
from attnverify.verification.claim import Claim, Registry
from attnverify.verification.margins import best_ratio, measure
from places import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Text of the pages, with one partial claim, by file name."""
    root = tmp_path_factory.mktemp("book")
    evidence = evidence_files.write(root / "evidence.json", {"norms.submultiplicative": "unknown"})
    paths = write(evidence, root / "book" / "generated", ROOT)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_every_claim_is_on_the_status_page(pages):
    for id in registry:
        assert f"<{id}>`" in pages["status.md"], id


def test_every_chapter_has_its_advice_on_one_page(pages):
    """In the order of the book, with links that hold from another folder."""
    chapters = [path.stem for path in (ROOT / "notebooks").glob("*.md")]
    linked = re.findall(
        r"^- \*\*\{doc\}`[^`<]+ </notebooks/([\w-]+)>`\.\*\* \S", pages["practice.md"], re.M
    )
    assert sorted(linked) == sorted(chapters) and linked[0] == "start"
    targets = re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", pages["practice.md"])
    assert len(targets) > len(chapters) and all(t.startswith("/") for t in targets)


def test_failing_readings_of_neighbors_are_found_by_the_registry(tmp_path):
    """Each has a check or a twin that shows it, its work as a source, and what the run found."""
    evidence = evidence_files.write(tmp_path / "e.json")
    part = errata.text(read_evidence(evidence)).split("## Neighboring papers")[1]
    lines = [line for line in part.splitlines() if line.startswith("| ")][2:]
    found, works = errata.failing_readings(), (ROOT / "book/references.bib").read_text("utf-8")
    assert errata.NOT_CERTIFIED not in part
    for line, (claim, reading) in zip(lines, found, strict=True):
        assert line.startswith(f"| {reading.says} | {{cite}}`{reading.near}` | {reading.instance}")
        assert f"<{claim.id}>`" in line and f"<{reading.holds}>`" in line.split(" | ")[-1]
        check = registry.described(claim.id)[reading.check]
        exact = {"certified", "decided"} & set(check.kinds)
        assert reading.twin in check.twins if reading.twin else exact, reading.says
        assert re.search(rf"^@\w+{{{reading.near},$", works, re.M)
        assert "|" not in reading.says + reading.instance  # it would end the cell
    eighth = re.search(r"caption: VIII\.(.*?)caption:", (ROOT / "_toc.yml").read_text(), re.S)
    assert eighth
    for claim in registry.values():
        if claim.kind == "counterexample" and f"notebooks/{claim.notebook}\n" in eighth[1]:
            assert claim.refutes, claim.id
    assert {"sphere", "gap", "masks", "smoothing", "doubly"} <= {
        c.id.split(".")[0] for c, _ in found
    }


def test_a_failing_reading_without_its_evidence_is_not_called_certified(tmp_path):
    file = evidence_files.write(tmp_path / "e.json", let_pass=("gap.perron",))
    body = json.loads(file.read_text())
    for entry in body["claims"]:
        if entry["id"] == "sphere.hemisphere":
            for record in entry["evidence"]:
                record["outcome"] = "unknown"
    body["claims"] = [entry for entry in body["claims"] if entry["id"] != "entropy.selection"]
    file.write_text(json.dumps(body))
    part = errata.text(read_evidence(file)).split("## Neighboring papers")[1]
    bare = [line for line in part.splitlines() if errata.NOT_CERTIFIED in line]
    assert [re.findall(r"<([\w.-]+)>`", line)[0] for line in bare] == [
        "sphere.hemisphere",
        "entropy.selection",
        "gap.perron",
    ]


def test_only_published_claims_are_sharpened_or_refuted_and_it_is_said_by_what():
    for claim in registry.values():
        if claim.sharpens:
            assert registry[claim.sharpens].published, claim.id
            assert claim.here and claim.asserts == "holds", claim.id
        if claim.reads:
            read = registry[claim.reads]
            assert claim.published and claim.asserts == "holds", claim.id
            assert read.asserts == "fails" and claim.id in read.statement, claim.id
        if claim.published and claim.asserts == "fails" and claim.derived:
            assert claim.fails_because and claim.corrected_by, claim.id
    with pytest.raises(InputError, match="one.b: uses unknown claim 'one.a'"):
        Registry([Claim("one.b", "t", "lemma", "x", "norms", sharpens="one.a")])


def test_margins_are_those_of_inequalities():
    kinds = {(id, n): c for id in registry for n, c in checks_of(id).items()}
    for (id, name), check in kinds.items():
        assert (measure(registry, id, name) == "left/right") == isinstance(check, Inequality)
    found = [("transpose", "certified", 5.0), ("product", "attacked", 0.7)]
    found.append(("product", "certified", 0.5))
    records = [{"check": c, "kind": k, "ratio": r} for c, k, r in found]
    assert best_ratio(registry, "norms.submultiplicative", records) == 0.5
    assert best_ratio(registry, "norms.submultiplicative", records[:2]) == 0.7
    assert best_ratio(registry, "paths.count", []) is None


def test_numbers_show_how_near_one_is():
    shown = [number(x) for x in (None, 0.0, 1e-7, 0.5, 1 - 3.16e-8, 1.0, 1.0607)]
    assert shown == ["–", "0.0000", "1.0·10⁻⁷", "0.5000", "1\xa0−\xa03.2·10⁻⁸", "1.0000", "1.0607"]


def test_escaped_text_is_plain():
    assert escape("S_l * |x| <= `a`[b]") == r"S\_l \* \|x\| \<= \`a\`\[b\]"


def broken(body: dict, **changes) -> str:
    return json.dumps({**body, **changes})


def test_bad_evidence_files_are_refused(tmp_path, capsys):
    """Exit code 2, one line that says what is wrong, and the pages of before stay."""
    good = evidence_files.write(tmp_path / "good.json")
    out = tmp_path / "book" / "generated"
    arguments = ["--out", str(out), "--evidence"]
    assert main([*arguments, str(good)]) == 0
    before = (out / "status.md").read_text()
    body = json.loads(good.read_text())
    first = body["claims"][0]
    bad = {
        "which does not exist": None,
        "truncated": good.read_text()[:1000],
        "expected a file written by": "[]",
        "got version 7": broken(body, version=7),
        "Record: got other fields or types": broken(
            body, claims=[{**first, "evidence": [{**first["evidence"][0], "kind": "guessed"}]}]
        ),
        "TwinRecord: got other": broken(body, claims=[{**first, "twins": [{"twin": "x"}]}]),
        "refuted_at: got 0.99": broken(
            body,
            claims=[
                {**first, "evidence": [{**first["evidence"][0], "ratio": 0.9, "refuted_at": 0.99}]}
            ],
        ),
    }
    for words, text in bad.items():
        file = tmp_path / "bad.json"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        assert main([*arguments, str(file)]) == 2
        message = capsys.readouterr().err
        assert message.startswith("attnverify.book.pages: evidence: got ") and words in message
        assert message.count("\n") == 1
    assert (out / "status.md").read_text() == before
    with pytest.raises(InputError, match="evidence: got"):
        read_evidence(tmp_path)


def test_a_status_follows_from_the_records_and_not_from_the_file(tmp_path):
    """Whoever writes *verified* beside a failure, or beside nothing, changes no page."""
    id = "norms.submultiplicative"
    file = evidence_files.write(tmp_path / "e.json", {id: "fail"})
    body = json.loads(file.read_text())
    entry = next(claim for claim in body["claims"] if claim["id"] == id)
    assert entry["status"] == read_evidence(file).status(id) == "failed"
    entry |= {"status": "verified", "reasons": []}
    file.write_text(json.dumps(body))
    assert read_evidence(file).status(id) == "failed" and read_evidence(file).reasons(id)
    entry |= {"evidence": [], "twins": []}
    file.write_text(json.dumps(body))
    assert read_evidence(file).status(id) == "not checked"


def test_pages_of_equal_evidence_are_equal(pages, tmp_path):
    file = evidence_files.write(tmp_path / "e.json", {"norms.submultiplicative": "unknown"})
    again = {p.name: p.read_text() for p in write(file, tmp_path / "book" / "generated")}
    assert again == pages


def test_pages_know_no_times(tmp_path):
    """They are others in each run, which would be a reason to write pages again."""
    file = evidence_files.write(tmp_path / "e.json")
    assert file.read_text().count('"seconds"') > 100
    assert "seconds" not in json.dumps(dict(read_evidence(file).claims))


def test_code_of_the_practice_page_logs_the_relative_residual(pages):
    """The two columns, with and without the first token, of the states that the model returns."""
    code, _, _ = re.findall(r"```python\n(.*?)```", pages["practice.md"], re.S)
    model, ids = modelzoo.model("bert").double(), torch.tensor([[3, 4, 5, 6]])
    found = {"model": model, "inputs": {"input_ids": ids}}
    exec(code, found)
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states[1:]
    assert len(found["rows"]) == len(states) == model.config.num_hidden_layers
    for row, state in zip(found["rows"], states, strict=True):
        for value, tokens in zip(row, (state[0], state[0, 1:]), strict=True):
            center = torch.ones(len(tokens), 1).double() @ tokens.mean(0, keepdim=True)
            assert math.isclose(value, float((tokens - center).norm() / tokens.norm()))
    model(input_ids=ids)
    assert len(found["rows"]) == len(states), "a hook is left"


def test_code_of_the_practice_page_estimates_an_initialization(pages, capsys):
    """A cosine before the first of twelve layers and after each; they rise."""
    _, code, _ = re.findall(r"```python\n(.*?)```", pages["practice.md"], re.S)
    exec(code, {})
    cosines = json.loads(capsys.readouterr().out)
    assert len(cosines) == 13 and cosines[0] == 0 and cosines == sorted(cosines)


def test_code_of_the_practice_page_watches_a_training(pages, tmp_path, monkeypatch, capsys):
    """Its log has a line for every hundredth step, and no head has fallen where nothing changed."""
    _, _, code = re.findall(r"```python\n(.*?)```", pages["practice.md"], re.S)
    monkeypatch.chdir(tmp_path)
    batches = [{"input_ids": torch.tensor([[3, 4, 5, 6]])}] * 201
    exec(code, {"model": modelzoo.model("bert"), "batches": batches})
    assert len((tmp_path / "watch.jsonl").read_text().splitlines()) == 1 + 3
    assert capsys.readouterr().out == "[]\n"
