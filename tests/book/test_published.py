"""What the head of a page says of it."""

from attnverify.book.sphinx import published


def test_titles_and_texts_are_escaped_and_addresses_need_one():
    tags = published.tags('a "b" <c>', "text & more", "Book", "")
    assert '"a &quot;b&quot; &lt;c&gt;"' in tags and "text &amp; more" in tags
    assert "og:url" not in tags
    tags = published.tags("a", "b", "Book", "https://x.invalid/p.html")
    assert '"og:url" content="https://x.invalid/p.html"' in tags
