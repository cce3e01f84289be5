"""Derivations that run in the reader's browser: Python side, scripts, style."""
