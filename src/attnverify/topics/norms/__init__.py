"""Topic: the composite value, the residual and the diameter."""
