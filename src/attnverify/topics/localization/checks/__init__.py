"""Checks of signal propagation: its exact law, the normal approximation, the limit."""
