"""Derivations in sympy: the ledger, how steps are shown, and the reviewed record of all steps."""
