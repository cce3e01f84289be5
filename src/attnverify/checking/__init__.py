"""Checks of one claim: forms, random instances, search, ball arithmetic, records of evidence."""
