"""The proof assistant: what `make proofs` builds, forbids, asks and writes down."""
