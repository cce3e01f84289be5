"""Rows of softmax entry by entry."""

from attnverify.chapters.entries import softmax as softmax_row  # noqa: F401
