"""What the book shows: Sphinx extension, generated pages, figures, styles."""
