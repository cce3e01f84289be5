"""Mutants that are no errors: what the changed source computes is as right as what it replaces."""

#: Name of a mutant to the reason why nothing can tell it from the original.
EQUIVALENT: dict[str, str] = {}
