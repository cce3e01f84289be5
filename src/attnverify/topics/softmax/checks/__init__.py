"""Checks of the softmax lemmas."""
