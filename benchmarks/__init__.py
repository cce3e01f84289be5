"""Benchmarks of the path sums; ``python -m benchmarks`` runs them and exits 1 on a missed bar."""
