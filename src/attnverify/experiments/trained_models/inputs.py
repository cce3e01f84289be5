"""What each of the three models reads: English, reactions, held-out documentation strings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from attnverify.experiments.trained_encoder.passages import passage
from attnverify.experiments.trained_models import folders
from attnverify.experiments.trained_models.corpus import corpus

#: Reactions of textbooks as SMILES: aspirin, an ester, acetanilide, a biaryl, an ether; then five
#: with names, by the alphabet: aldol, Claisen, Diels and Alder, Friedel and Crafts, Wittig.
REACTIONS = (
    "OC(=O)c1ccccc1O.CC(=O)OC(C)=O>>CC(=O)Oc1ccccc1C(=O)O",
    "OC(=O)c1ccccc1.OCC>>CCOC(=O)c1ccccc1",
    "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1",
    "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "CCBr.Oc1ccc(C)cc1>>CCOc1ccc(C)cc1",
    "O=Cc1ccccc1.CC(=O)c1ccccc1>>O=C(C=Cc1ccccc1)c1ccccc1",
    "CCOC(C)=O.CCOC(C)=O>>CCOC(=O)CC(C)=O",
    "C=CC=C.O=C1OC(=O)C=C1>>O=C1OC(=O)C2CC=CCC12",
    "c1ccccc1.CC(=O)Cl>>CC(=O)c1ccccc1",
    "O=Cc1ccccc1.C=P(c1ccccc1)(c1ccccc1)c1ccccc1>>C=Cc1ccccc1",
)
WORDS = 24  # of a passage, at most 64 tokens, so that rollout is compared
BYTES = 64


class Subject(NamedTuple):
    """A model by its folder, and the texts that it is looked at with."""

    name: str
    folder: Callable[[], Path]
    text: Callable[[int], str]


def documentation(index: int) -> str:
    """The held-out bytes of a window; windows do not overlap. ASCII, so bytes are letters."""
    start = index * 16 * BYTES
    return bytes(corpus().held_out[start : start + BYTES].tolist()).decode("ascii", "replace")


SUBJECTS = (
    Subject("encoder", folders.minilm, lambda index: passage(index, WORDS)),
    Subject("ALBERT", folders.albert, lambda index: REACTIONS[index]),
    Subject("decoder", folders.decoder, documentation),
)
