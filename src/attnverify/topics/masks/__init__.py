"""Topic: masks as graphs."""
