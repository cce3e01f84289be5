"""Topic: a network is a sum over paths."""
