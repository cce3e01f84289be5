"""Formal proofs without the proof assistant: the record against its sources, the scan, the pages.

What the assistant itself says is compared in test_proofs.py, by `make test ARGS='-m rocq'`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import proofs
from attnverify.book.pages import proofs as pages
from attnverify.chapters import registry
from attnverify.checking.records import Record
from attnverify.support.errors import InputError
from attnverify.verification import formal
from attnverify.verification.formal import CHECKED, DIFFERS, Theorem, checked
from rocq import prover, record, scan
from rocq.prover import ProofError

KNOWN = formal.registered()
THEOREMS = {t.name: t for t in KNOWN.theorems}
NEIGHBORS = {n.name: n for n in KNOWN.neighbors}


def test_every_theorem_is_for_a_claim():
    assert THEOREMS and {t.claim for t in KNOWN.theorems} <= set(registry)


@pytest.mark.parametrize("name", THEOREMS)
def test_the_record_is_of_these_sources(name):
    """Its axioms are listed; it has a neighbor; what fails in the book is negated, no more."""
    theorem, entry = THEOREMS[name], KNOWN.recorded(name)
    assert formal.trouble(name, KNOWN, claim=theorem.claim) == ""
    assert entry["says"] == theorem.says and entry["says"].strip()
    assert entry["statement"] and f"{formal.module(name)}.v" == entry["sources"][-1]
    assert [n for n in KNOWN.neighbors if n.theorem == name]
    negated = theorem.says.startswith(formal.EXACT[1])
    assert negated == (registry[theorem.claim].asserts == "fails")


@pytest.mark.parametrize("name", NEIGHBORS)
def test_every_neighbor_was_rejected(name):
    assert formal.trouble(name, KNOWN) == ""
    entry = KNOWN.recorded(name)
    assert bool(entry.get("statement")) != bool(entry.get("error"))


def test_the_record_holds_what_is_registered_and_nothing_else():
    """In the order of the list, written as `make proofs ARGS=--write` writes it."""
    body = KNOWN.record
    assert [e["name"] for e in body["theorems"]] == list(THEOREMS)
    assert [e.get("name") or e["script"] for e in body["neighbors"]] == list(NEIGHBORS)
    assert [e["theorem"] for e in body["neighbors"]] == [n.theorem for n in KNOWN.neighbors]
    path = KNOWN.folder / formal.RECORD
    assert path.read_text(encoding="utf-8") == record.text(body)


def test_every_axiom_is_listed_in_words_and_every_listed_one_is_used():
    used = {axiom for e in KNOWN.record["theorems"] for axiom in e["axioms"]}
    used |= set(KNOWN.record["negations use"])
    assert used == set(KNOWN.axioms) and set(KNOWN.record["axioms"]) == used
    assert all(KNOWN.axioms.values())


def test_no_theory_says_what_it_may_not():
    """No Admitted, axiom, parameter, unsafe flag; every theory is compiled."""
    assert scan.offences_in(KNOWN.folder) == []


TINY = """\
(** Axiom in a comment, "Admitted." too. (* Parameter x : nat. *) *)
Section S.
Variable n : nat.
Hypothesis h : n = n.
Definition twice := n + n.
Theorem zero : 0 + n = n. Proof. reflexivity. Qed.
End S.
"""
FORBIDDEN = {
    "Axiom x : False.": "assumes",
    "Local Axiom x : False.": "assumes",
    "#[local] Parameter x : False.": "assumes",
    "Conjecture x : 0 = 1.": "assumes",
    "Theorem x : False.\nProof.\nAdmitted.": "not complete",
    "Theorem x : False. Proof. admit. Defined.": "leaves a part",
    "Theorem x : False. Proof. (* y *) all: give_up. Qed.": "leaves a part",
    "Variable x : False.": "outside a section",
    "Hypotheses (x : False).": "outside a section",
    "Context (x : False).": "outside a section",
    "Module M.\nVariable x : False.\nEnd M.": "outside a section",
    "Section T. End T. Variable x : False.": "outside a section",
    "Unset Guard Checking.": "switches",
    "Local Unset Positivity Checking.": "switches",
    "#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n.": "switches",
    "Set Universe Polymorphism.": "rules",
    "Unset Universe Checking.": "switches",
    "Declare Module M : T.": "as given",
    "Module Type T. End T.": "as given",
    'Declare ML Module "m".': "as given",
    'Load "x".': "not listed",
    'Add LoadPath "x" as Y.': "not listed",
    "Theorem x : 0 = 0. Proof. native_compute. reflexivity. Qed.": "outside the kernel",
}


@pytest.mark.parametrize("text", FORBIDDEN)
def test_the_scan_finds(tmp_path, text):
    """At its line, after a clean theory; what stands in comments or strings does not count."""
    path = tmp_path / "Tiny.v"
    path.write_text(TINY)
    assert scan.offences(path) == []
    path.write_text(TINY + text + "\n")
    found = scan.offences(path)
    assert len(found) == 1 and FORBIDDEN[text] in found[0]
    assert found[0].startswith(f"Tiny.v, line {TINY.count(chr(10)) + 1}") or "\n" in text


def test_theories_are_listed_and_flags_are_not_smuggled_in(tmp_path):
    (tmp_path / "Tiny.v").write_text(TINY)
    project = tmp_path / "_CoqProject"
    project.write_text("-Q . AttnVerify\n-arg -w -arg none\n# a comment\nTiny.v\n")
    assert scan.offences_in(tmp_path) == []
    (tmp_path / "Other.v").write_text(TINY)
    assert scan.offences_in(tmp_path) == ["Other.v: is not listed in _CoqProject"]
    project.write_text("-Q . AttnVerify\n-arg -type-in-type\nTiny.v\nOther.v\nGone.v\n")
    assert scan.offences_in(tmp_path) == [
        "_CoqProject: -arg -type-in-type: only theories, -Q . AttnVerify and warnings",
        "Gone.v: is listed in _CoqProject and is not there",
    ]


@pytest.fixture
def sample(tmp_path) -> Path:
    """A small folder with a record that fits: one theorem, one negation, one script."""
    folder = tmp_path / "formal"
    (folder / "neighbors").mkdir(parents=True)
    (folder / "Tiny.v").write_text(TINY)
    (folder / "neighbors" / "one.v").write_text("From AttnVerify Require Import Tiny.\n")
    (folder / "axioms.txt").write_text("Logic.choice  # there is a choice\n")
    (folder / "registered.toml").write_text(LISTED)
    own = {"statement": "forall n : nat, 0 + n = n"}
    own |= {"sources": ["Tiny.v"], "sha256": formal.digest(folder, ["Tiny.v"])}
    names = ["Tiny.v", "neighbors/one.v"]
    head = {"theorem": ZERO}
    body = {
        "prover": "Coq 0.0",
        "axioms": {"Logic.choice": "Choice"},
        "negations use": ["Logic.choice"],
        "theorems": [
            {"claim": "paths.count", "name": ZERO, "says": SAME, "axioms": ["Logic.choice"]} | own
        ],
        "neighbors": [
            head | {"says": "1 for 0", "name": "AttnVerify.Tiny.not_one"} | own,
            head
            | {"says": "2 for 0", "script": "formal/neighbors/one.v", "error": "line 2: x"}
            | {"sources": names, "sha256": formal.digest(folder, names)},
        ],
        "definitions": [],
    }
    forge(folder / "checked.json", body)
    return folder


def forge(path: Path, body: dict) -> None:
    """Write a record with a digest of its own that fits."""
    path.write_text(record.text({**body, "sha256": formal.seal(body)}))


ZERO, SAME = "AttnVerify.Tiny.zero", "Exactly as registered."
LISTED = f"""
[[theorem]]
claim = "paths.count"
name = "{ZERO}"
says = "Exactly as registered."

[[neighbor]]
theorem = "{ZERO}"
says = "1 for 0"
negation = "AttnVerify.Tiny.not_one"

[[neighbor]]
theorem = "{ZERO}"
says = "2 for 0"
script = "formal/neighbors/one.v"
"""


def outcome(folder: Path) -> tuple[str, str, list[bool]]:
    """Outcome and detail of the theorem's record, and the neighbors that count as rejected."""
    (found,), twins = formal.evidence_of("paths.count", formal.read(folder))
    return found.outcome, found.detail, [t.rejected for t in twins]


def test_a_record_that_fits_is_evidence(sample):
    (found,), twins = formal.evidence_of("paths.count", formal.read(sample))
    assert (found.kind, found.check, found.outcome) == ("formal", ZERO, "pass")
    assert found.limits == SAME and found.detail == "Coq 0.0; axioms: Logic.choice"
    assert [t.rejected for t in twins] == [True, True]
    assert twins[1].detail == "the proof script fails: line 2: x"
    assert formal.evidence_of("paths.decomposition", formal.read(sample)) == ([], [])


def test_a_changed_source_is_not_the_one_that_was_checked(sample):
    """One character of a comment is enough; the script of a neighbor is a source of its own."""
    with (sample / "neighbors" / "one.v").open("a") as file:
        file.write(" ")
    kind, detail, twins = outcome(sample)
    assert kind == "unknown" and "neighbors/one.v is not what was checked" in detail
    assert twins == [True]
    (sample / "Tiny.v").write_text(TINY.replace("comment", "komment"))
    kind, detail, twins = outcome(sample)
    assert kind == "unknown" and "Tiny.v is not what was checked" in detail
    assert "make proofs ARGS=--write" in detail and twins == []


def test_an_axiom_that_is_not_listed_is_told(sample):
    (sample / "axioms.txt").write_text("# none\n")
    kind, detail, twins = outcome(sample)
    assert kind == "unknown" and "axioms.txt does not list Logic.choice" in detail
    assert twins == [True]


def test_a_record_of_another_claim_or_none_is_told(sample):
    path = sample / "checked.json"
    forge(path, json.loads(path.read_text().replace('"paths.count"', '"paths.decomposition"')))
    assert "has AttnVerify.Tiny.zero for paths.decomposition" in outcome(sample)[1]
    path.unlink()
    kind, detail, twins = outcome(sample)
    assert kind == "unknown" and "checked.json has no AttnVerify.Tiny.zero" in detail
    assert twins == []


@pytest.mark.parametrize("text", ["{", "[]", '{"theorems": [1], "neighbors": []}', '{"prover": 1}'])
def test_a_broken_record_is_refused(sample, text):
    (sample / "checked.json").write_text(text)
    with pytest.raises(InputError, match="checked.json"):
        formal.read(sample)


EDITS = {
    "statement": lambda body: body["theorems"][0].update(statement="0 = 1"),
    "negations": lambda body: body.update({"negations use": []}),
    "neighbor": lambda body: body["neighbors"].pop(),
}


@pytest.mark.parametrize("part", EDITS)
def test_a_record_that_was_edited_by_hand_is_refused(sample, part):
    path = sample / "checked.json"
    body = json.loads(path.read_text())
    EDITS[part](body)
    path.write_text(record.text(body))
    with pytest.raises(InputError, match=r"checked.json with contents that do not match its own"):
        formal.read(sample)


def test_a_foreign_axiom_is_told_before_anything_is_recorded():
    """Of a theorem, and of the negations together."""
    found = {"theorems": [{"name": "t", "axioms": ["a", "b"]}], "negations use": ["a", "c"]}
    assert proofs._foreign(found, {"a": "", "b": "", "c": ""}) == []
    assert proofs._foreign(found, {"a": "", "c": ""}) == [
        "t: uses b, which axioms.txt does not list"
    ]
    assert proofs._foreign(found, {"a": "", "b": ""}) == [
        "a negation of a neighbor: uses c, which axioms.txt does not list"
    ]


WRONG = {
    LISTED.replace("[[theorem]]", "[[theorem]"): "registered.toml",
    LISTED.replace("says =", "sais ="): "registered.toml: .*'sais'",
    LISTED.replace('"1 for 0"', "1"): "registered.toml: says is no text",
    LISTED.replace("AttnVerify.Tiny.not_one", "not_one"): "expected AttnVerify.THEORY.THEOREM",
    LISTED + LISTED: "twice",
    LISTED.replace(f'theorem = "{ZERO}"', 'theorem = "AttnVerify.Tiny.one"'): "a neighbor of",
    LISTED.replace("script = ", "negation = ")
    .replace("negation = ", "script = ", 1)
    .replace('script = "AttnVerify.Tiny.not_one"\n', ""): "expected a negation or a script",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_list_is_refused(sample, text):
    (sample / "registered.toml").write_text(text)
    with pytest.raises(InputError, match=WRONG[text]):
        formal.read(sample)


def test_claims_are_partial_when_a_theory_is_edited(tmp_path, monkeypatch):
    """The whole way: a copy of the project's theories, one edited, and the status of a claim."""
    from attnverify.verification.status import own, required

    copy = tmp_path / "formal"
    shutil.copytree(KNOWN.folder, copy)
    first = KNOWN.theorems[0]
    claim = registry[first.claim]
    edited = copy / f"{formal.module(first.name)}.v"
    edited.write_text(edited.read_text(encoding="utf-8") + "\n")
    broken = formal.read(copy)
    monkeypatch.setattr(formal, "registered", lambda: broken)
    records, twins = formal.evidence_of(claim.id)
    assert ("formal", first.name) in required(registry, claim)
    assert own(registry, claim, records, twins).status == "not checked"
    others = [Record(kind, n, "pass", None, 1, 0.0, "") for kind, n in required(registry, claim)]
    found = [*records, *(r for r in others if r.kind != "formal")]
    assert own(registry, claim, found, []).status == "partial"


def test_the_mark_says_whether_the_statement_is_the_registered_one():
    passing = {"kind": "formal", "outcome": "pass", "limits": "Exactly as registered; spelled out."}
    other = {**passing, "limits": "one head only"}
    assert checked([{**passing, "limits": "As registered, for two heads."}]) == CHECKED
    assert checked([passing]) == checked([passing, other]) == CHECKED
    assert checked([other]) == DIFFERS
    assert checked([]) == checked([{**passing, "kind": "derived"}]) == ""
    assert checked([passing, {**other, "outcome": "unknown"}]) == ""
    exact, words, other = (Theorem("a", "b", f"{s}.") for s in (*formal.SAME[::2], "One head"))
    assert exact.exact and exact.same and words.same and not words.exact and not other.same


ANSWER = """\
Axioms:
A.long_name_of_an_axiom
  : forall P : nat -> Prop,
    P 0
B.short : False
C.f is assumed to be guarded.
"""


def test_what_is_no_axiom_with_a_type_is_not_overlooked():
    """A check that was switched off is an assumption under its own words: no list has them."""
    found = prover.axioms(ANSWER)
    assert found == {
        "A.long_name_of_an_axiom": "forall P : nat -> Prop, P 0",
        "B.short": "False",
        "C.f is assumed to be guarded.": "",
    }
    assert prover.axioms("Closed under the global context\n") == {}


SUMMARY = """
CONTEXT SUMMARY
===============

* Theory: Set is predicative

* Axioms:
    Coq.Logic.choice

* Inductives whose positivity is assumed: <none>
"""


def test_the_summary_of_the_second_checker_is_read():
    assert prover.summary(SUMMARY, ("Logic.choice",)) == []
    assert prover.summary(SUMMARY, ("choice.Logic", "oice")) == ["axiom Coq.Logic.choice"]
    bad = SUMMARY.replace("<none>", "AttnVerify.T.t")
    assert prover.summary(bad, ("choice",)) == [
        "Inductives whose positivity is assumed: AttnVerify.T.t"
    ]
    assert prover.summary("", ()) != []


def test_differences_name_the_theorem_and_the_part():
    now = {"prover": "Coq 1", "theorems": [{"name": "t", "statement": "a", "sha256": "1"}]}
    now |= {"neighbors": [], "definitions": [{"name": "d", "text": "x"}]}
    assert record.differences(now, json.loads(json.dumps(now))) == []
    before = json.loads(json.dumps(now))
    before["theorems"][0]["statement"] = "b"
    assert record.differences(before, now) == ["t: statement: recorded b, found a"]
    other = before | {"prover": "Coq 2"}  # another version may word it otherwise
    assert record.differences(other, now) == []
    other["theorems"][0]["sha256"] = "2"
    assert record.differences(other, now) == ["t: sha256: recorded 2, found 1"]
    assert record.differences({}, now) == ["t: is found and not recorded"]
    gone = before | {"theorems": [], "definitions": now["definitions"]}
    assert record.differences(now, gone) == ["t: is recorded and not found"]
    order = dict(reversed(now.items()))
    assert record.differences(order, now) == [
        "the order, the axioms' types or the form of the record"
    ]


def test_the_proof_of_a_script_is_found(tmp_path):
    path = tmp_path / "one.v"
    path.write_text(
        "Lemma a : True.\nProof. exact I. Qed.\n\nLemma b : False.\nProof.\nauto.\nQed.\n"
    )
    assert record.proof(path) == (5, 7)
    path.write_text("Lemma a : True.\n")
    with pytest.raises(ProofError, match="expected a theorem with"):
        record.proof(path)
    with pytest.raises(ProofError, match="not there"):
        record.proof(tmp_path / "two.v")


def test_without_the_prover_the_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(prover.shutil, "which", lambda name: None)
    assert proofs.main([]) == 1
    said = capsys.readouterr().err
    assert "needs Rocq (Coq): coqc" in said
    assert "apt-get install --no-install-recommends make coq libcoq-mathcomp-ssreflect" in said


def test_an_unknown_claim_is_refused_before_anything_is_compiled(sample, tmp_path, monkeypatch):
    text = LISTED.replace("paths.count", "paths.cuont")
    (sample / "registered.toml").write_text(text)
    with pytest.raises(ProofError, match="AttnVerify.Tiny.zero: 'paths.cuont' is no claim"):
        proofs.check(sample, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_the_dictionary_names_definitions_that_statements_reach():
    """Every name of it is in the record, once; every word has a prose of its own."""
    recorded = [entry["name"] for entry in KNOWN.record["definitions"]]
    entries = list(pages.dictionary(KNOWN))
    names = [name for entry in entries for name in entry.get("names", ())]
    assert set(names) <= set(recorded) and len(names) == len(set(names))
    assert len({entry["prose"].strip() for entry in entries}) == len(entries) > 5


def test_show_prints_the_formal_statement(capsys, monkeypatch):
    """With the name, the prover and how the two statements differ; nothing for other claims."""
    from attnverify.cli.show import show

    first = KNOWN.theorems[0]
    show(first.claim, checks=False)
    said = " ".join(capsys.readouterr().out.split())
    assert f"{first.name}: machine-checked, {KNOWN.record['prover']}" in said
    assert " ".join(formal.statement(first.name).split()) in said
    assert " ".join(first.says.split()) in said
    show(next(id for id in registry if not formal.theorems_of(id)), checks=False)
    assert "formal" not in capsys.readouterr().out


def test_a_run_of_formal_evidence_alone():
    """It takes no task of its own, and it is told in the report with its twins."""
    from attnverify.chapters.verify import verify
    from attnverify.checking.search import Settings
    from attnverify.verification.verify import tasks_in

    first = KNOWN.theorems[0]
    report = verify([first.claim], Settings(), ["formal"])
    assert tasks_in(registry, [first.claim], ["formal"]) == 0
    assert [r.kind for r in report.records[first.claim]] == ["formal"]
    assert report.as_claimed and all(t.rejected for t in report.twins[first.claim])
    assert report.standing[first.claim].status == "partial"


def test_a_script_is_made_true_in_all_places_at_once():
    """Numbers as wholes; what the comment names must occur elsewhere."""
    text = "(* True with: 128 -> 1024; 1024 -> 8192 *)\nLemma a : 128 < 1024 < 10240.\n"
    assert record.made_true(text, "a.v").splitlines()[1] == "Lemma a : 1024 < 8192 < 10240."
    for wrong, words in (
        ("Lemma a : 1 = 1.", "expected a comment"),
        ("(* True with: 1 *) Lemma a : 1 = 1.", "expected a comment"),
        ("(* True with: 2 -> 1 *) Lemma a : 1 = 1.", "'2' does not occur"),
    ):
        with pytest.raises(ProofError, match=words):
            record.made_true(wrong, "a.v")
