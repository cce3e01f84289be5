"""`make proofs` on a small folder and on broken copies of it; these tests run the proof assistant.

They are left out of the suite, which needs no Rocq: `make test ARGS='-m rocq'` runs them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import proofs
from attnverify.verification import formal
from rocq import prover, record

pytestmark = pytest.mark.rocq

THEORY = """\
(** Shares of a whole. *)
Require Import Reals Lra.
Local Open Scope R_scope.

(** What is left of one. *)
Definition left_over (x : R) : R := 1 - x.

Theorem at_most_one (x : R) : 0 <= x -> left_over x <= 1.
Proof.
unfold left_over.
intros h.
lra.
Qed.

Theorem not_less : ~ (forall x : R, 0 <= x -> left_over x <= 0.99).
Proof. intros h. specialize (h 0). unfold left_over in h. lra. Qed.
"""
SCRIPT = """\
(* True with: (x : R) : -> (x : R) : 0 <= x -> *)
Require Import Reals Lra.
From AttnVerify Require Import Share.
Local Open Scope R_scope.

Theorem at_most_one (x : R) : left_over x <= 1.
Proof.
unfold left_over.
lra.
Qed.
"""
NAME, NEGATION = "AttnVerify.Share.at_most_one", "AttnVerify.Share.not_less"
SAME = "Exactly as registered."
LISTED = f"""\
[[theorem]]
claim = "paths.count"
name = "{NAME}"
says = "{SAME}"

[[neighbor]]
theorem = "{NAME}"
says = "0.99 in place of 1"
negation = "{NEGATION}"

[[neighbor]]
theorem = "{NAME}"
says = "without 0 <= x"
script = "formal/neighbors/sign.v"
"""
ALLOWED = """\
ClassicalDedekindReals.sig_forall_dec  # a search that ends or shows that it never will
FunctionalExtensionality.functional_extensionality_dep  # functions with equal values are equal
"""
UNUSED = """\
Classical_Prop.classic  # every proposition is true or false
ClassicalDedekindReals.sig_not_dec  # a negation and a double negation can be told apart
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A folder of theories with its record, and the copy in which it was compiled."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "formal" / "neighbors").mkdir(parents=True)
    (folder / "formal" / "_CoqProject").write_text("-Q . AttnVerify\nShare.v\n")
    (folder / "formal" / "Share.v").write_text(THEORY)
    (folder / "formal" / "neighbors" / "sign.v").write_text(SCRIPT)
    (folder / "formal" / "registered.toml").write_text(LISTED)
    (folder / "formal" / "axioms.txt").write_text(ALLOWED)
    assert make(folder, "--write") == 0
    return folder


def make(folder: Path, *options: str) -> int:
    """Exit code of `make proofs` in a folder."""
    places = ["--folder", str(folder / "formal"), "--copy", str(folder / "copy")]
    return proofs.main([*places, *options])


@pytest.fixture
def copied(good, tmp_path) -> Path:
    """The same, to be broken."""
    shutil.copytree(good, tmp_path / "broken")
    return tmp_path / "broken"


def test_the_record_says_what_the_prover_says(good):
    body = json.loads((good / "formal" / "checked.json").read_text(encoding="utf-8"))
    (theorem,), (negation, script) = body["theorems"], body["neighbors"]
    assert theorem["statement"] == "forall x : R, 0 <= x -> left_over x <= 1"
    assert theorem["sources"] == ["Share.v"] and theorem["says"] == SAME
    assert set(theorem["axioms"]) == set(body["axioms"]) == set(formal.allowed(good / "formal"))
    assert negation["statement"].startswith("~ (forall x : R, 0 <= x -> left_over x <= 0.99)")
    assert script["error"].startswith("line 9: ") and script["sources"][-1] == "neighbors/sign.v"
    (definition,) = body["definitions"]
    assert definition["name"] == "AttnVerify.Share.left_over"
    assert definition["text"].startswith("left_over = ") and "Rminus 1" in definition["text"]
    assert body["prover"] == prover.version()


def test_sources_stay_clean_and_a_second_run_finds_the_same(good, capsys):
    assert make(good) == 0
    assert "1 theorems for 1 claims, 2 false neighbors" in capsys.readouterr().out
    names = {p.name for p in (good / "formal").rglob("*") if p.is_file()}
    assert names == {
        "_CoqProject",
        "Share.v",
        "sign.v",
        "registered.toml",
        "axioms.txt",
        "checked.json",
    }


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    """An edit of one file of the folder."""

    def change(folder: Path) -> None:
        path = folder / "formal" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        text = text.replace(old, new, 1)
        if name == formal.RECORD:  # with a digest that fits: the run itself must notice
            body = json.loads(text)
            text = record.text({**body, "sha256": formal.seal(body)})
        path.write_text(text, encoding="utf-8")

    return change


AXIOM = "Axiom easy : forall x : R, left_over x <= 1.\n\nTheorem at_most_one"
ONE = '"ClassicalDedekindReals.sig_forall_dec"'
BROKEN = {
    "a changed definition, still true": (
        edit("Share.v", ":= 1 - x.", ":= 1 - x - 0."),
        ["checked.json is not what this run found", f"{NAME}: sha256", "left_over: text"],
    ),
    "a weaker statement": (
        edit("Share.v", "0 <= x -> left_over x <= 1.", "0 <= x -> left_over x <= 1 + 1."),
        [f"{NAME}: statement: recorded forall x : R, 0 <= x -> left_over x <= 1, found"],
    ),
    "an added axiom": (
        edit("Share.v", "Theorem at_most_one", AXIOM),
        ["Share.v, line 8: Axiom easy", "assumes something without a proof"],
    ),
    "an axiom of the library that is not listed": (
        edit("axioms.txt", "ClassicalDedekindReals.sig_forall_dec", "# none"),
        [f"{NAME}: uses ClassicalDedekindReals.sig_forall_dec, which axioms.txt does not list"],
    ),
    "a proof that is not complete": (
        edit("Share.v", "lra.\nQed.", "Admitted."),
        ["Share.v, line 12: Admitted", "ends a proof that is not complete"],
    ),
    "an edited statement in the record": (
        edit("checked.json", "left_over x <= 1", "left_over x <= 1/2"),
        [f"{NAME}: statement: recorded", "make proofs ARGS=--write"],
    ),
    "a record in another order": (
        edit("checked.json", '"format": "attnverify formal 1",\n', ""),
        ["the order, the axioms' types or the form of the record"],
    ),
    "a neighbor that is true after all": (
        edit("neighbors/sign.v", "(x : R) : left_over", "(x : R) : 0 <= x -> left_over"),
        ["neighbors/sign.v: compiles", "not rejected"],
    ),
    "a neighbor that fails before its proof": (
        edit("neighbors/sign.v", "Theorem", "Lemma one : 1 = 2.\nProof. lra. Qed.\nTheorem"),
        ["neighbors/sign.v, line 7: fails outside the last proof (lines 9 to 12)"],
    ),
    "a neighbor with a slip of the pen": (
        edit("neighbors/sign.v", "unfold left_over", "unfold left_ovr"),
        ["neighbors/sign.v: fails for another reason, as it also fails made true", "left_ovr"],
    ),
    "a theorem that does not exist": (
        edit("registered.toml", f'name = "{NAME}"', 'name = "AttnVerify.Share.at_most"'),
        ["AttnVerify.Share.at_most"],
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_copy_fails_with_a_clear_message(copied, capsys, what):
    change, words = BROKEN[what]
    change(copied)
    capsys.readouterr()
    assert make(copied) == 1
    said = capsys.readouterr().err
    assert said.startswith("proofs: ") and "Traceback" not in said
    for part in words:
        assert part in said, said


def test_what_is_written_after_a_change_is_what_is_found(copied):
    """The record is written whole; a broken theory leaves it as it was."""
    path = copied / "formal" / "checked.json"
    edit("Share.v", "What is left of one.", "What remains.")(copied)
    before = path.read_bytes()
    assert make(copied) == 1 and path.read_bytes() == before
    assert make(copied, "--write") == 0 and path.read_bytes() != before
    assert make(copied) == 0
    edit("Share.v", "left_over x <= 1.", "left_over x <= 0.")(copied)
    before = path.read_bytes()
    assert make(copied, "--write") == 1 and path.read_bytes() == before


@pytest.mark.slow
def test_the_second_checker_reads_what_was_compiled(copied, capsys):
    """It passes, and it notices a compiled file that was tampered with.

    It lists the axioms of all that is loaded, used or not: those of the reals' library are four.
    """
    listed = copied / "formal" / "axioms.txt"
    assert make(copied, "--coqchk") == 1
    said = capsys.readouterr().err
    assert "coqchk: axiom Coq.Logic.Classical_Prop.classic" in said
    listed.write_text(ALLOWED + UNUSED)
    assert make(copied, "--coqchk") == 0
    assert "coqchk: every theory checked again" in capsys.readouterr().out
    compiled = copied / "copy" / "Share.vo"
    body = bytearray(compiled.read_bytes())
    body[len(body) // 2] ^= 1
    compiled.write_bytes(bytes(body))
    from rocq import prover

    with pytest.raises(prover.ProofError, match="coqchk"):
        prover.check_again(copied / "copy", formal.allowed(copied / "formal"))
