"""Sphinx extension of the book: claims, evidence, links, search, downloads."""
