"""Topic: what the two collapses mean for training."""
