"""Topic: what modern decoders change: masks, positions, shared heads, norms, gates."""
