"""Topic: the eigenspectrum of the query-key matrix."""
