"""Make or check the paired .ipynb (without outputs) of every notebooks/*.md.

python tools/pair_notebooks.py            write the pairs
python tools/pair_notebooks.py --check    exit 1 if one is missing or out of step
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import jupytext
import nbformat
import yaml

ROOT = Path(__file__).resolve().parents[1]


def convert(source: Path) -> str:
    """The .ipynb text of a MyST notebook: no outputs, and cell ids that never change."""
    notebook = jupytext.read(source, fmt="md:myst")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    notebook.metadata.get("jupytext", {}).pop("text_representation", None)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def pairs(root: Path) -> dict[Path, str]:
    """Every .ipynb that has to exist below root/notebooks, with its text."""
    sources = sorted((root / "notebooks").glob("*.md"))
    return {source.with_suffix(".ipynb"): convert(source) for source in sources}


def problems(root: Path) -> list[str]:
    """What is out of step: pairs, leftovers, and the exact paths that the build excludes."""
    wanted, found = pairs(root), []
    for path, text in wanted.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.append(f"{path.relative_to(root)}: missing or out of step with its .md")
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if path not in wanted:
            found.append(f"{path.relative_to(root)}: no .md of this name")
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    listed = {p for p in config["exclude_patterns"] if p.endswith(".ipynb")}
    exact = {path.relative_to(root).as_posix() for path in wanted}
    found += [f"_config.yml, exclude_patterns: {p} is not listed" for p in sorted(exact - listed)]
    found += [f"_config.yml, exclude_patterns: {p} has no .md" for p in sorted(listed - exact)]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Command line: write the pairs, or with --check only report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="report only; exit 1 on a difference")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args(arguments)
    if not options.check:
        for path, text in pairs(options.root).items():
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(options.root)}")
    found = problems(options.root)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
