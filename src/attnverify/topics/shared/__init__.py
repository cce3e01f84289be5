"""Instances, formulas and criteria that the checks of several topics share."""
