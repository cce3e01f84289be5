"""Topic: MLPs."""
