"""The generated pages of the book: status, errata, formal proofs, findings."""
