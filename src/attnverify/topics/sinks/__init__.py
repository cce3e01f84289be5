"""Attention sinks, gates, softmax-plus-one and massive activations."""
