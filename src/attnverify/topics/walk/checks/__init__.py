"""Checks of the random-walk model: moments of a score and the law of a row."""
