"""Topic: how far a softmax row moves."""
