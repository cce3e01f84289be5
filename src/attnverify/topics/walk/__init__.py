"""Topic: random walks and the score of a token."""
