"""How work runs: processes, long runs in pieces, and the cache of finished work."""
