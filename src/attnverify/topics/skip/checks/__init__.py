"""Checks of skip connections, one head and several."""
