"""Checks of what modern decoders change."""
