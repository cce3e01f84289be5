"""Checks of claims that no chapter states yet: a folder for one prefix of ids."""
