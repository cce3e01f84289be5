"""Topic: localization under a query-key eigenspectrum."""
