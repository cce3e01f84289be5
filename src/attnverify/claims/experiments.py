"""Part IV: experiments."""

from attnverify.claims.model import Claim

CLAIMS: list[Claim] = []
