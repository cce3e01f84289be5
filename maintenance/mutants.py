"""Plant small errors and count what notices them. `make mutants` calls this.

An error is planted in the memory of a forked process; no file is changed, and a run that is killed
leaves nothing behind. Evidence comes first, at a quick setting and with fixed seeds: the checks and
derivations that run the changed line, each with the twins that it rejects. Where evidence says
nothing, the tests run that name the module; for attninspect and experiments, which have no
evidence, those in their own folder of tests. The rules by which formulas are changed are in
mutation/rules.py, the errors of the engine in mutation/engine.py, and what is no error though it
looks like one in mutation/equivalent.py, with a reason each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

os.environ.update(OMP_NUM_THREADS="1", ATTNVERIFY_STORE="none")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("maintenance", "tools", "src", "tests")]

from attnverify.derivation import notebook_sources  # noqa: E402
from attnverify.support.environment import code_digest, installed, kind_of_machine  # noqa: E402
from attnverify.support.files import write_text  # noqa: E402
from mutation import engine, pieces, rules  # noqa: E402
from mutation.equivalent import EQUIVALENT  # noqa: E402
from mutation.trial import Outcome, in_child, try_mutant  # noqa: E402

AREAS = ("formulas", "methods", "engine", "attninspect", "experiments")
FOLDERS = ("attnverify/mathematics", "attninspect", "attnverify/experiments")
WORK = ROOT / "_build" / "mutants"
BASELINE_SECONDS = 900


def mutants(areas: Sequence[str]) -> list[rules.Mutant]:
    """All mutants of the areas, named uniquely."""
    found = engine.mutants(ROOT / "src") if "engine" in areas else []
    for folder in FOLDERS:
        for path in sorted((ROOT / "src" / folder).rglob("*.py")):
            found += rules.of_file(path, rules.module_of(path, ROOT / "src"))
    return [mutant for mutant in found if mutant.area in areas]


def state_of() -> str:
    """Digest of what the baseline follows from: package, notebooks, this tool, versions, machine.

    What is no error though it looks like one is named after the fact, so that list is no part.
    """
    tool = sorted((ROOT / "maintenance" / "mutation").glob("*.py"))
    files = [path for path in tool if path.name != "equivalent.py"]
    files += sorted(where.folder.glob("*.md")) if (where := notebook_sources.place()) else []
    texts = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    versions = [installed("encoder", "models"), kind_of_machine()]
    parts = [code_digest(), texts, versions, BASELINE_SECONDS]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def baseline(claims: Sequence[str] = ()) -> list[pieces.Piece]:
    """Every piece without an error; kept under ``_build`` until what it follows from changes."""
    kept = WORK / f"baseline-{state_of()[:16]}.json"
    if kept.is_file():
        return [_piece(entry) for entry in json.loads(kept.read_text())]
    found = []
    for name in pieces.all_names(claims):
        entry = in_child(lambda name=name: pieces.measure(name), BASELINE_SECONDS)
        if isinstance(entry, str):  # out of time
            entry = {"name": name, "seconds": 0, "lines": {}, "twins": [], "trouble": entry}
        found.append(entry)
        print(f"without an error: {name}, {entry['seconds']:.1f} s {entry['trouble']}", flush=True)
    if not claims:
        WORK.mkdir(parents=True, exist_ok=True)
        write_text(kept, json.dumps(found))
    return [_piece(entry) for entry in found]


def _piece(entry: dict) -> pieces.Piece:
    return pieces.Piece(**{**entry, "twins": tuple(entry["twins"])})


def trials(
    planted: Sequence[rules.Mutant], known: Sequence[pieces.Piece], processes: int
) -> list[Outcome]:
    """The outcomes, in the order of the mutants; one process forks a child for each mutant."""
    shares = [list(range(k, len(planted), processes)) for k in range(processes)]
    files = [WORK / f"outcomes-{os.getpid()}-{k}.jsonl" for k in range(processes)]
    WORK.mkdir(parents=True, exist_ok=True)
    workers = []
    for share, file in zip(shares, files, strict=True):
        pid = os.fork()
        if pid == 0:
            _be_a_worker(planted, share, known, file)
        workers.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers]
    found = dict(pair for file in files for pair in _outcomes(file))
    if any(codes) or len(found) != len(planted):
        raise SystemExit(
            f"mutants: {len(planted) - len(found)} of {len(planted)} were not tried "
            f"(processes ended with {codes}); the outcomes of the others stay in {WORK}"
        )
    for file in files:
        file.unlink()
    return [found[place] for place in sorted(found)]


def _outcomes(file: Path) -> Iterator[tuple[int, Outcome]]:
    """The places and outcomes that a worker wrote; one that was ended leaves half a line."""
    lines = file.read_text("utf-8").splitlines(keepends=True) if file.is_file() else []
    for line in lines:
        if line.endswith("\n"):
            place, entry = json.loads(line)
            yield place, Outcome(**entry)


def _be_a_worker(planted, share, known, file: Path) -> NoReturn:
    """Work and end the process, whose exit code and traceback tell of an error of the tool."""
    code = 1
    try:
        _work(planted, share, known, file)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _work(planted, share, known, file: Path) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for place in share:
            outcome = try_mutant(planted[place], known)
            stream.write(json.dumps([place, asdict(outcome)]) + "\n")
            stream.flush()
            print(f"{outcome.caught:9} {outcome.name}  [{outcome.by}]", flush=True)


def table(outcomes: Iterable[Outcome]) -> str:
    """Counts by area, and every survivor."""
    rows = [
        f"{'area':11}{'planted':>9}{'evidence':>10}{'tests only':>12}{'survived':>10}{'caught':>9}"
    ]
    outcomes = [o for o in outcomes if o.caught != "void"]
    equivalent = [o for o in outcomes if o.name in EQUIVALENT and o.caught == "survived"]
    counted = [o for o in outcomes if o not in equivalent]
    for area in AREAS:
        count = Counter(o.caught for o in counted if o.area == area)
        if total := sum(count.values()):
            caught = 100 * (total - count["survived"]) / total
            figures = (total, count["evidence"], count["tests"], count["survived"])
            cells = "".join(f"{f:>{w}}" for f, w in zip(figures, (9, 10, 12, 10), strict=True))
            rows.append(f"{area:11}{cells}{caught:>8.1f}%")
    rows += [f"survived: {o.name}" for o in counted if o.caught == "survived"]
    rows += [f"no error: {o.name} ({EQUIVALENT[o.name]})" for o in equivalent]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, try, print the table; 1 if a mutant survives that is not named as no error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--area", choices=AREAS, action="append", help="default: all")
    parser.add_argument("--sample", type=int, help="so many, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="only mutants whose name has this part")
    parser.add_argument(
        "--claim", action="append", default=[], help="evidence of these claims only"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the outcomes here")
    asked = parser.parse_args(arguments)
    planted = [m for m in mutants(asked.area or AREAS) if asked.only in m.name]
    if asked.sample is not None and asked.sample < len(planted):
        drawn = set(random.Random(asked.seed).sample(range(len(planted)), asked.sample))
        planted = [m for place, m in enumerate(planted) if place in drawn]
    met = any(mutant.area not in rules.TESTED for mutant in planted)
    known = baseline(asked.claim) if met else []
    outcomes = trials(planted, known, asked.processes)
    print(table(outcomes))
    if asked.json:
        write_text(asked.json, json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    return int(any(o.caught == "survived" and o.name not in EQUIVALENT for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
