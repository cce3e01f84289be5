"""Checks of the entropy floors."""
