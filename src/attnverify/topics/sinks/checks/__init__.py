"""Checks of sinks, softmax-plus-one and massive activations."""
