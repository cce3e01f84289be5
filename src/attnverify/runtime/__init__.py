"""How work runs: processes, clusters, long runs in pieces, and the cache of finished work."""
