"""Topic: layer norm."""
