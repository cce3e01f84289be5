"""Two experiments on a trained encoder: its query-key spectra, and its margins."""
