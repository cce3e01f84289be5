"""The second checker, coqchk: it reads what was compiled, and shares the kernel's rules only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rocq import prover, scan
from rocq.prover import ProofError


def check(copy: Path, allowed: Iterable[str]) -> None:
    """Have coqchk check every compiled theory and all it rests on, the prover's library included.

    Raises :class:`ProofError` if it refuses something or its summary names an axiom that is not
    allowed, or something whose check was switched off.
    """
    theories, _ = scan.listed(copy / "_CoqProject")
    names = [f"AttnVerify.{name.removesuffix('.v')}" for name in theories]
    done = prover.run("coqchk", "-silent", "-o", *prover.LOGICAL, *names, cwd=copy)
    if done.returncode:
        raise ProofError(f"coqchk: exit code {done.returncode}:\n{done.stderr[-2000:]}")
    wrong = summary(done.stdout + done.stderr, tuple(allowed))  # the summary is on either
    if wrong:
        raise ProofError("\n".join(f"coqchk: {words}" for words in wrong))


def summary(text: str, allowed: tuple[str, ...]) -> list[str]:
    """What the summary of coqchk says that it should not."""
    blocks = re.findall(r"^\* ([^:\n]*):((?:[^*]|\*(?! ))*)", text, re.M)
    parts = {title: body.split() for title, body in blocks}
    if "Axioms" not in parts:
        return [f"a summary without a list of axioms: {text[:200]!r}"]
    axioms = [name for name in parts.pop("Axioms") if name != "<none>"]
    found = [f"axiom {name}" for name in axioms if not f".{name}".endswith(_ends(allowed))]
    for title, body in parts.items():
        if title != "Theory" and body != ["<none>"]:
            found.append(f"{title}: {' '.join(body)}")
    return found


def _ends(allowed: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in allowed)
