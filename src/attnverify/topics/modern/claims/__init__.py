"""What modern decoders change: masks, positions, normalization, gates and groups."""

from attnverify.topics.modern.claims import both, heads, layers, masks, positions

CLAIMS = [
    *masks.CLAIMS,
    *positions.CLAIMS,
    *both.CLAIMS,
    *heads.CLAIMS,
    *layers.CLAIMS,
]
