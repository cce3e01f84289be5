"""What pyproject.toml cannot say: a wheel carries the notebooks, with their digests.

Their derivation cells are part of the evidence. An editable install reads them where they are.
"""

import hashlib
import json
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithNotebooks(build_py):
    """Copy notebooks/*.md into the package and write digests.json beside them."""

    def notebooks(self):
        found = sorted((ROOT / "notebooks").glob("*.md"))
        if not found:
            raise FileNotFoundError("notebooks/*.md: found none, expected those of the book")
        return found

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
        (target / "digests.json").write_text(json.dumps(digests, indent=1) + "\n", "utf-8")

    def get_source_files(self):
        """Files that a source distribution needs besides the package's own."""
        return super().get_source_files() + [f"notebooks/{p.name}" for p in self.notebooks()]


setup(cmdclass={"build_py": BuildWithNotebooks})
