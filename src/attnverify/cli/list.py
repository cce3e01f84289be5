"""``attnverify list``: the claims in a table."""

from __future__ import annotations

from attnverify.cli.options import Ids, Json
from attnverify.cli.selection import select_ids
from attnverify.verification import printing


def list_claims(ids: Ids = None, as_json: Json = False) -> None:
    """List the claims with their kinds, titles and sources."""
    from attnverify.chapters import registry

    claims = registry.select(select_ids(ids or []))
    if as_json:
        rows = [{"id": c.id, "kind": c.kind, "title": c.title, "source": c.source} for c in claims]
        print(printing.as_json(rows))
        return
    table = printing.table("id", "kind", "title", "source")
    for c in claims:
        table.add_row(c.id, c.kind, c.title, c.source)
    printing.out.print(table)
