"""The formulas of the theorems, each written once, in any arithmetic of ``ops``."""
