"""Topic: the spectral gap of attention."""
