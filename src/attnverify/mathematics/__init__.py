"""The network: weights, forward pass, path decomposition, real and random encoders."""
