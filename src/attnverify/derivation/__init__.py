"""Derivations in sympy: the ledger, how steps are shown, and the record of what was read."""
