"""Definitions that formulas of modern layers are compared with, entry by entry."""
