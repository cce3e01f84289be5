"""Definitions that formulas of entropy are compared with, entry by entry."""
