"""What modern decoders change: masks, positions, normalization, gates and groups."""

from attnverify.topics.modern.claims import heads, layers, masks, positions

CLAIMS = [
    *masks.CLAIMS,
    *positions.CLAIMS,
    *heads.CLAIMS,
    *layers.CLAIMS,
]
