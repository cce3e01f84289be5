"""Attention rollout and relevance propagation against the linear operator of a network."""
