"""Topic: tokens on the unit sphere, normalized after attention."""
