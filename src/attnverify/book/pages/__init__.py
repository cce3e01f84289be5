"""The generated pages of the book: status, errata, map, formal proofs, findings."""
