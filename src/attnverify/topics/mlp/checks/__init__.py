"""Checks of MLPs: their Lipschitz constants, the corollary as printed, the bounds over depth."""
