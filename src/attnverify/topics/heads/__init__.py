"""What heads can compute: nearest keys, clipped lines, mixtures of experts, copying."""
