"""Models of others: traced through their own forward pass, proved by reconstruction, reported."""
