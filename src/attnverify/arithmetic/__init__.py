"""One set of operations for floats, balls, rationals and symbols, chosen by argument type."""
