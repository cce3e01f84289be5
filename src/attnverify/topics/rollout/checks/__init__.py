"""Checks of the operator, of rollout's lengths and order, and of relevance propagation."""
