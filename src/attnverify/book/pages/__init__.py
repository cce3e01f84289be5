"""The generated pages of the book: status, errata, dependency graph, index from claim to code."""
