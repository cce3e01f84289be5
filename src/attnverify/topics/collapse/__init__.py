"""Topic: rank collapse, as published, as repaired, and sharp."""
