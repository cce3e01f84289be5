"""Benchmarks of the path sums, the exact probability, the optimal center and the diameter.

``python -m benchmarks`` runs them and exits 1 on a missed bar.
"""
