"""The evidence that the built book shows: every claim in the quick setting, every twin rejected."""

import json

import pytest

from attnverify.chapters import registry
from attnverify.checking.search import Settings
from attnverify.verification import formal

CHECKS = {id: registry.checks_of(id) for id in registry}

# The first of these tests may have to build the book.
pytestmark = pytest.mark.timeout(3000)


@pytest.fixture(scope="module")
def report(built_book) -> dict:
    """The evidence file of the build."""
    return json.loads((built_book.parent / "evidence.json").read_text(encoding="utf-8"))


def test_it_is_the_quick_setting(report):
    quick = Settings()
    for name in ("samples", "restarts", "steps", "seed"):
        assert report["settings"][name] == getattr(quick, name)
    assert [claim["id"] for claim in report["claims"]] == list(registry)


@pytest.mark.parametrize("id", list(registry))
def test_every_kind_of_evidence_passes_and_every_twin_is_rejected(report, id):
    (found,) = [claim for claim in report["claims"] if claim["id"] == id]
    assert [r for r in found["evidence"] if r["outcome"] != "pass"] == []
    expected = {(kind, name) for name, check in CHECKS[id].items() for kind in check.kinds}
    if registry[id].derived:
        expected.add(("derived", registry[id].notebook))
    expected |= {("formal", theorem.name) for theorem in formal.theorems_of(id)}
    assert {(r["kind"], r["check"]) for r in found["evidence"]} == expected
    assert [t for t in found["twins"] if not t["rejected"]] == []
    twins = {(name, twin.title) for name, check in CHECKS[id].items() for twin in check.twins}
    assert twins <= {(t["check"], t["twin"]) for t in found["twins"]}
    if registry[id].derived:
        assert registry[id].notebook in {t["check"] for t in found["twins"]}, "none of a derivation"
