"""Topic: attention as the posterior mean of a mixture."""
