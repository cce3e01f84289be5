"""Definitions that formulas of rank collapse are compared with, entry by entry."""
