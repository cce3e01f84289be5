"""What the book takes from inside Sphinx and its theme is there, and its absence is told."""

from __future__ import annotations

import pytest

from attnverify.book.sphinx import private_interfaces


def test_every_private_interface_is_there():
    """After an upgrade this says what has to be written anew, before a page does."""
    assert private_interfaces.missing() == []


@pytest.mark.parametrize(
    ("kind", "entry", "told"),
    [
        (
            "ATTRIBUTES",
            ("sphinxcontrib.katex", "KaTeXServer.gone"),
            "sphinxcontrib.katex.KaTeXServer.gone",
        ),
        ("TEXTS", ("sphinx", "themes/basic/layout.html", "no such text"), "no such text"),
        ("TEXTS", ("sphinx", "themes/basic/gone.js", ""), "sphinx/themes/basic/gone.js"),
    ],
)
def test_one_that_is_gone_is_named(monkeypatch, kind, entry, told):
    monkeypatch.setattr(private_interfaces, kind, (*getattr(private_interfaces, kind), entry))
    (found,) = private_interfaces.missing()
    assert told in found
