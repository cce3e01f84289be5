"""The four findings of the landing page: drawn from the formulas, alike in every build."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from attnverify.book.pages import findings
from attnverify.chapters import registry

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def figures():
    """The pictures of the page, parsed."""
    found = re.findall(r"<svg .*?</svg>", findings.text(), flags=re.DOTALL)
    return [ElementTree.fromstring(text) for text in found]


def test_each_finding_has_a_described_picture_of_its_own(figures):
    assert len(figures) == len(findings.FINDINGS) == 4
    assert all(len(figure.attrib["aria-label"]) > 40 for figure in figures)
    ids = Counter(e.attrib["id"] for figure in figures for e in figure.iter() if "id" in e.attrib)
    assert max(ids.values()) == 1  # they stand on one page


def test_pictures_take_the_color_of_the_text(figures):
    for figure in figures:
        text = ElementTree.tostring(figure, encoding="unicode")
        assert "#000000" not in text and figure.attrib["fill"] == "currentColor"
        assert "width" not in figure.attrib and "viewBox" in figure.attrib


def test_the_page_is_the_same_in_every_build():
    assert findings.text() == findings.text()


def test_the_claims_it_names_exist():
    named = re.findall(r"\{claim\}`[^`]*<([\w.-]+)>`", findings.text())
    assert len(named) >= 5 and all(id in registry for id in named)
