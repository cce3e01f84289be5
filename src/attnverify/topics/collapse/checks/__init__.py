"""Checks of rank collapse, in the composite value and in the diameter."""
