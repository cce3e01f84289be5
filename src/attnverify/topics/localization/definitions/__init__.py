"""Definitions that formulas of localization are compared with, entry by entry."""
