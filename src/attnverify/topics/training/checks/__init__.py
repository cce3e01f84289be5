"""Checks of the claims on training."""
