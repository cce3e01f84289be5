"""Topic: the entropy of an attention row."""
