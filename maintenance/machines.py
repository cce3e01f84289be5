"""Run the test suite as other machines would. `make machines` calls this.

Each machine is emulated by what decides the last digits of a float or the order of a set: the
instruction sets that torch, its matrix libraries, numpy and the C library may use, the number of
threads, the hash seed, the locale, and the folder that the run starts from.

Every machine builds the book by itself. Where its pages are, byte by byte, those for which the
browser's tests passed on another machine, these tests are not run again, and the table says so.
They are where the locale is another: a browser reads it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from attnverify.support.files import write_text

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "_build" / "machines"
WORKERS = 2  # as in the Makefile
SHOWN = 8  # failed tests that are named; the log has all
PAGES = ROOT / "_build" / "html"
SEEN = LOGS / "pages-seen.json"  # digests of pages that passed in a browser: on which machine

#: Files whose tests look at the built pages, in a browser, and at nothing else.
BROWSER_TESTS = (
    "book/test_accessibility.py",
    "book/test_folding.py",
    "book/test_interactive.py",
    "book/test_pages_claims.py",
    "book/test_pages_inpage.py",
    "book/test_reader.py",
)

#: Every library at the plainest instruction set that it offers a switch for.
PLAIN_KERNELS = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX512VL",
}


def threads(count: int) -> dict[str, str]:
    """Environment in which every numerical library uses ``count`` threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(count))


@dataclass(frozen=True)
class Machine:
    """One emulated machine: what is set in its environment, and whether it starts elsewhere.

    same_digits: floats come out bit by bit as on the machine at hand, because nothing that the
    arithmetic depends on differs.
    """

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    same_digits: bool = True


MACHINES = (
    Machine("this machine"),
    Machine("plainest kernels", PLAIN_KERNELS, same_digits=False),
    Machine("one thread", threads(1)),
    Machine("eight threads", threads(8)),
    Machine(
        "other hash seed, locale and folder",
        {"PYTHONHASHSEED": "4321", "LC_ALL": "C", "TZ": "Pacific/Auckland", "COLUMNS": "47"},
        elsewhere=True,
    ),
)


def find(name: str) -> Machine:
    """A machine by name."""
    return next(machine for machine in MACHINES if machine.name == name)


def _from_anywhere(argument: str) -> str:
    """A test's file by its whole path, as the run may start in another folder."""
    named = not argument.startswith("-") and (ROOT / argument.split("::")[0]).exists()
    return str(ROOT / argument) if named else argument


def run_tests(machine: Machine, arguments: list[str]) -> tuple[bool, str]:
    """Run pytest as ``machine`` would: whether it passed, and what to say of it."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "-m", "not rocq"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    found = [_from_anywhere(argument) for argument in arguments]
    if not any(argument.startswith(str(ROOT)) for argument in found):
        found.append(str(ROOT / "tests"))
    with tempfile.TemporaryDirectory(prefix="another folder ") as folder:
        done = subprocess.run(
            [*command, *found],
            cwd=folder if machine.elsewhere else ROOT,
            env={**os.environ, **machine.environment},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    log = _log(machine)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(done.stdout)
    return done.returncode == 0, _closing(done.stdout, log)


def _log(machine: Machine) -> Path:
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS / f"{machine.name.replace(', ', ' ').replace(' ', '-')}.log"


def run_all(machine: Machine) -> tuple[bool, str]:
    """Every test; those of a browser only where the pages are not as another machine's were."""
    rest = [f"--ignore={ROOT / 'tests' / name}" for name in BROWSER_TESTS]
    passed, closing = run_tests(machine, rest)
    looked_at = f"{digest(PAGES)} {digest(ROOT / 'tests')}"
    seen = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.is_file() else {}
    if looked_at in seen and not machine.elsewhere:
        return passed, f"{closing}\npages as on {seen[looked_at]}: not looked at again"
    good, second = run_tests(machine, [f"tests/{name}" for name in BROWSER_TESTS])
    if good:
        write_text(SEEN, json.dumps({looked_at: machine.name, **seen}))
    return passed and good, f"{closing}\n{second}"


def digest(folder: Path) -> str:
    """SHA-256 of the names and contents of all files below ``folder`` but the build's own marks."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    contents = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.startswith(".") and "__pycache__" not in path.parts
    }
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def _closing(text: str, log: Path) -> str:
    """The closing line of a test run and, of what failed, the first few tests."""
    lines = text.strip().splitlines()
    summary = [line for line in lines if re.search(r"\d+ (passed|failed|error)", line)]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    shown = failed[:SHOWN]
    if failed:
        shown.append(f"{len(failed)} in all; see {log.relative_to(ROOT)}")
    return "\n".join([*(summary[-1:] or lines[-1:]), *shown])


def main(arguments: list[str] | None = None) -> int:
    """Command line: exit code 0 if the tests pass on every machine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [machine.name for machine in MACHINES]
    parser.add_argument(
        "--machine", action="append", choices=names, help="only this one, or these in turn"
    )
    options, narrowed = parser.parse_known_args(arguments)
    passed = True
    for machine in map(find, options.machine or names):
        _log(machine).unlink(missing_ok=True)
        start = time.perf_counter()
        good, closing = run_tests(machine, narrowed) if narrowed else run_all(machine)
        seconds = time.perf_counter() - start
        passed &= good
        print(f"{machine.name:36} {seconds:7.1f} s  {closing}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
