"""Topic: one attention layer as the papers write it."""
