"""``python -m attnverify.book.pages --evidence FILE --out FOLDER`` writes the generated pages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attnverify.book.pages import claim_map, errata, findings, practice, proofs, status
from attnverify.book.pages.common import read_evidence
from attnverify.support.errors import InputError
from attnverify.support.files import write_text


def write(evidence_file: Path, out: Path, root: Path = Path()) -> list[Path]:
    """Write the generated pages of the book in ``root`` into ``out`` and return their paths.

    Raises InputError, before anything is written, if the evidence file cannot be used.
    """
    evidence = read_evidence(evidence_file)
    pages = {
        "status.md": status.text(evidence, root),
        "errata.md": errata.text(evidence),
        "map.md": claim_map.text(evidence, root),
        "practice.md": practice.text(root),
        "findings.inc": findings.text(),  # parts of the landing page, and no pages themselves
        "tokens.inc": findings.moving_tokens(),
    }
    pages |= proofs.texts()  # parts of a page, too
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / name for name in pages]
    for path, text in zip(paths, pages.values(), strict=True):
        content = text.rstrip() + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            write_text(path, content)  # a page that is as it was is not read again
    return paths


def main(arguments: list[str] | None = None) -> int:
    """Command line: exit code 0, or 2 with one line on stderr for a file that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m attnverify.book.pages", description=__doc__)
    parser.add_argument(
        "--evidence",
        type=Path,
        required=True,
        metavar="FILE",
        help="written by `attnverify verify --json FILE`",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the book's folder of generated pages, book/generated",
    )
    options = parser.parse_args(arguments)
    try:
        write(options.evidence, options.out)
    except InputError as error:
        print(f"attnverify.book.pages: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
