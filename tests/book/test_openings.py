"""How a chapter opens and ends: its result, a picture, an example by hand, what to remember."""

import re

import pytest

from attnverify.chapters import registry
from places import ROOT

FILES = sorted((ROOT / "notebooks").glob("*.md"))
FIGURES = {name for p in FILES for name in re.findall(r"^ +name: (fig-\S+)$", p.read_text(), re.M)}


def opening(name: str) -> str:
    """What a reader sees before the first section."""
    return section(chapter(name))


def chapter(name: str) -> str:
    """The source of a chapter."""
    return (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")


def section(text: str) -> str:
    """What stands before the next section."""
    return re.split(r"^## ", text, maxsplit=1, flags=re.M)[0]


@pytest.mark.parametrize("name", [path.stem for path in FILES if path.stem != "start"])
def test_a_chapter_opens_with_question_or_result_picture_and_example(name):
    """The first page, which explains the words, comes to its example later."""
    text = opening(name)
    leads = [lead for lead in ("**The question.**", "**The result.**") if lead in text]
    first = text.index(leads[0])
    assert text[:first].splitlines()[-2].startswith("# "), "the question or the result comes first"
    assert "**The result.**" in leads and "**By hand.**" in text
    shown = re.findall(r"\{numref\}`(fig-[^`]+)`", text)
    assert shown or re.search(r"^ +name: fig-", text, re.M), "no picture"
    assert set(shown) <= FIGURES


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_a_chapter_says_its_idea_and_what_to_remember(name):
    """The idea stands before the proof of a theorem; experiments have none. Then what to do."""
    text = chapter(name)
    proved = [c for c in registry.values() if c.notebook == name and c.derived]
    assert "**Idea.**" in text or not proved
    ending = (
        r"^\*\*To remember\.\*\* [^\n]+\n\n\*\*For practice\.\*\* [^\n]+\n\n## What this does not"
    )
    assert re.search(ending, text, re.M)
