"""What the checks of several topics share: instances, cases, simulated laws, experiments."""
