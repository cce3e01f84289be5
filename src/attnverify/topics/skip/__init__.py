"""Topic: skip connections."""
