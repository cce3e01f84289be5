"""The registry: complete, acyclic, helpful about unknown ids."""

import re

import pytest

from attnverify import InputError
from attnverify.chapters import Claim, Registry, registry
from places import ROOT


def claim(id: str, **options) -> Claim:
    return Claim(id=id, title=id, kind="lemma", statement="s", notebook="n", **options)


def test_every_claim_has_checks_and_every_check_a_claim():
    assert {id for id in registry if registry.checks_of(id)} == set(registry)


def test_every_claim_has_a_twin():
    assert all(
        any(check.twins for check in checks.values())
        for checks in map(registry.checks_of, registry)
    )


@pytest.mark.parametrize("id", list(registry))
def test_claim_is_complete(id):
    entry = registry[id]
    assert entry.statement.strip() and entry.title
    assert entry.sources or entry.here, "neither published nor proved here"
    assert (ROOT / "notebooks" / f"{entry.notebook}.md").is_file()
    assert registry.ancestors(id) == sorted(registry.ancestors(id), key=list(registry).index)


@pytest.mark.parametrize("id", list(registry))
def test_sources_are_in_the_bibliography(id):
    bibliography = (ROOT / "book" / "references.bib").read_text()
    for source in registry[id].sources:
        assert f"{{{source.key}," in bibliography


@pytest.mark.parametrize("id", list(registry))
def test_statements_speak_in_words(id):
    """A reader meets mathematics, not a name of the code; other claims are linked by number."""
    statement = registry[id].statement.strip()
    assert not re.match(r"`|\{claim\}|In the model of", statement)
    assert "`" not in re.sub(r"\{claim\}`[^`]+`", "", statement), "a bare code identifier"


@pytest.mark.parametrize("symbol", ["g_i", "a_i"])
def test_a_symbol_of_the_walk_is_defined_where_a_score_is_read(symbol):
    """In the statement itself, in one of its own part that it names, or by a claim's name."""
    defined = re.compile(rf"{symbol} =|the \${symbol}\$ of {{claim}}")
    for entry in registry.select(["localization.*"]):
        named = re.findall(r"\{claim\}`(localization\.[^`]+)`", entry.statement)
        if re.search(rf"(?<![a-z]){symbol}", entry.statement):
            texts = [entry.statement, *(registry[id].statement for id in named)]
            assert any(map(defined.search, texts)), entry.id


def test_unknown_ids_name_the_nearest_match():
    with pytest.raises(
        InputError, match=r"got 'paths.cuont', expected a claim id \(did you mean 'paths.count'"
    ):
        registry["paths.cuont"]


def test_globs_select_in_order():
    assert [c.id for c in registry.select(["paths.c*", "attention.*"])] == [
        "attention.shift-invariance",
        "attention.qk-reduction",
        "paths.count",
    ]
    with pytest.raises(InputError, match="expected a claim id or a glob"):
        registry.select(["nothing.*"])


def test_a_selection_is_completed_by_what_its_statuses_depend_on():
    """What a claim rests on, what corrects it, what that rests on; nothing else."""
    small = Registry(
        [
            claim("lemma"),
            claim("other"),
            claim("sharp", uses=("lemma",)),
            claim("printed", asserts="fails", corrected_by="sharp"),
        ]
    )
    found = small.completed(small.select(["printed"]))
    assert [c.id for c in found] == ["lemma", "sharp", "printed"]
    assert small.completed([]) == []


def test_a_claim_may_not_rest_on_itself():
    circle = Registry([claim("a", uses=("b",)), claim("b", uses=("a",))])
    with pytest.raises(InputError, match="rests on itself"):
        circle.ancestors("a")


def test_an_unknown_use_is_refused():
    with pytest.raises(InputError, match="unknown claim 'b'"):
        Registry([claim("a", uses=("b",))])


def test_an_id_may_not_come_twice():
    with pytest.raises(InputError, match="twice"):
        Registry([claim("a"), claim("a")])
