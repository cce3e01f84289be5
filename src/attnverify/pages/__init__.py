"""The generated pages of the book: status, dependency graph, index from claim to code and back."""
