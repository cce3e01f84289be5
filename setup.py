"""What pyproject.toml cannot say: a wheel carries the notebooks, with digests, and the theories.

Derivation cells and formal proofs are part of the evidence. An editable install reads both where
they are.
"""

import hashlib
import json
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithEvidence(build_py):
    """Copy notebooks/*.md (with digests.json beside them) and formal/ into the package."""

    def notebooks(self):
        """Those of the book, in its order."""
        toc = (ROOT / "_toc.yml").read_text("utf-8")
        names = re.findall(r"^ *- file: (notebooks/\S+)$", toc, re.M)
        if not names:
            raise FileNotFoundError("_toc.yml: found no notebooks, expected those of the book")
        return [ROOT / f"{name}.md" for name in names]

    def theories(self):
        """The theories and what is recorded of them; none of what a prover wrote beside them."""
        patterns = ("*.v", "neighbors/*.v", "*.toml", "*.md", "axioms.txt", "checked.json")
        found = [p for pattern in patterns for p in sorted((ROOT / "formal").glob(pattern))]
        if not any(p.name == "checked.json" for p in found):
            raise FileNotFoundError("formal/checked.json: not found, expected the record of proofs")
        return [ROOT / "formal" / "_CoqProject", *found]

    def run(self):
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "attnverify", "notebooks")
        target.mkdir(parents=True, exist_ok=True)
        digests = {}
        for source in self.notebooks():
            content = source.read_bytes()
            (target / source.name).write_bytes(content)
            digests[source.name] = hashlib.sha256(content).hexdigest()
        for source in self.theories():
            copy = Path(self.build_lib, "attnverify", source.relative_to(ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
        (target / "digests.json").write_text(json.dumps(digests, indent=1) + "\n", "utf-8")

    def get_source_files(self):
        """Files that a source distribution needs besides the package's own."""
        own = [ROOT / "_toc.yml", *self.notebooks(), *self.theories()]
        return super().get_source_files() + [p.relative_to(ROOT).as_posix() for p in own]


setup(cmdclass={"build_py": BuildWithEvidence})
