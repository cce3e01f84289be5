"""What modern decoders change: masks, positions, normalization, gates and groups."""

from attnverify.claims.modern import heads, layers, masks, positions

CLAIMS = [
    *masks.CLAIMS,
    *positions.CLAIMS,
    *heads.CLAIMS,
    *layers.CLAIMS,
]
