"""Benchmarks of the path sums and of the exact probability.

``python -m benchmarks`` runs them and exits 1 on a missed bar.
"""
