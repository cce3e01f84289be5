"""Reports on many texts: all are read before the first is looked at; one table covers them all."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from attninspect import texts_page
from attninspect.chosen import Choice
from attninspect.command import as_csv
from attninspect.forward import Subject
from attninspect.inspect_model import inspect_subject
from attninspect.load import LARGEST_TEXTS, Folder, text_of
from attninspect.words import NAMED, top_length, undecided
from attnverify.runtime.campaign import Campaign, Finished, ran
from attnverify.runtime.tasks import Task
from attnverify.support import files
from attnverify.support.environment import digest_of, versions
from attnverify.support.errors import require
from attnverify.support.threads import one_thread
from attnverify.support.vocabulary import counted

FORMAT = "attnverify inspect texts 1"
REPORT, TEXTS, FIGURES, PIECES = "texts.json", "texts.csv", "figures.csv", "pieces"
HTML = "texts.html"

Row = dict[str, Any]

#: For every table of a report the columns that name a row, and the figures that depend on the text.
MAIN = {
    "lengths": (("length",), ("share", "share_whole", "norm")),
    "layers": (
        ("layer",),
        (
            *("residual", "residual_of_rest", "diameter", "factor", "bound"),
            *("over_threshold", "nearest_distance"),
        ),
    ),
    "heads": (
        ("layer", "head"),
        ("part", "moves", "sink", "itself", "gate", "entropy", "entropy_floor"),
    ),
    "scalar_lengths": (("length",), ("value",)),
    "scalar_heads": (("layer", "head"), ("direct", "through")),
}
PLACE = ("length", "layer", "head")

#: The files beside the pieces, with the columns of the two tables.
OWN = {
    REPORT: (),
    HTML: (),
    TEXTS: (
        *("text", "sha256", "tokens", "steps", "deciding_nothing", "largest_error_over_bound"),
        *("at", "rounding_of_output", "rounding_of_shares"),
        *("top_length", "top_share", "biases_share", "least_residual", "least_residual_layer"),
        *("rollout_rank_correlation", "number", "position"),
    ),
    FIGURES: (
        *("table", *PLACE, "figure", "mean", "deviation", "smallest", "median", "largest"),
        "texts",
    ),
}


def inspect_texts(
    campaign: Campaign,
    folder: Path,
    *,
    jobs: int | None = None,
    finished: Finished = lambda name, result: None,
    book: str = "",
) -> dict[str, Any]:
    """Look at the texts that were not looked at yet, write the merged tables; the merged report.

    folder: gets ``pieces``, with the report on every text, ``texts.json``, its two tables as CSV
    and a page. book: as for a report's page. jobs, finished: as in
    :func:`attnverify.runtime.campaign.ran`. Equal campaigns give equal files,
    byte by byte, wherever the pieces are computed.
    """
    with ran(campaign, folder / PIECES, jobs=jobs, finished=finished) as results:
        found = merged(campaign, results)
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        page = texts_page.html(found, lines(found), PIECES, book)
        tables = {TEXTS: as_csv(found["texts"]), FIGURES: as_csv(found["figures"])}
        made = {REPORT: text, **tables, HTML: page}
        files.write_all({folder / name: content for name, content in made.items()})
    return found


def merged(campaign: Campaign, reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report over all texts; ``reports`` are taken one at a time, in the texts' order."""
    values: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    rows, model, notes, said = [], {}, {}, None
    digests = campaign.settings["texts"]
    for (name, digest), each in zip(digests.items(), reports, strict=True):
        rows.append({"text": name, "sha256": digest, **_row(each)})
        model, said = each["model"], each.get("scalar") and each["scalar"]["name"]
        notes |= dict.fromkeys(each["notes"])  # what holds of one text alone is said, too
        for key, value in _figures(each):
            values[key].append(value)
    return {
        "format": FORMAT,
        "environment": versions(),
        "model": {**model, "sha256": campaign.settings["model"]},
        "proof": _proof(rows),
        "texts": rows,
        "figures": [_spread(key, each) for key, each in values.items()],
        "notes": list(notes),
        **({"number": said} if said else {}),
    }


def _row(report: Mapping[str, Any]) -> Row:
    """The main figures of one text."""
    proof, rollout, scalar = report["proof"], report["rollout"] or {}, report.get("scalar")
    none = {"length": None, "share": None}
    top = top_length(report["lengths"], proof["rounding_of_shares"]) or none
    biases = next(row["share"] for row in report["lengths"] if row["length"] == "biases")
    measured = [row for row in report["layers"] if row["residual"] is not None]
    low = min(measured, key=lambda r: r["residual"], default={"layer": None, "residual": None})
    return {
        "tokens": report["inputs"]["tokens"],
        **proof,
        "top_length": top["length"],
        "top_share": top["share"],
        "biases_share": biases,
        "least_residual": low["residual"],
        "least_residual_layer": low["layer"],
        "rollout_rank_correlation": rollout.get("rank_correlation"),
        **({"number": scalar["value"], "position": scalar["position"]} if scalar else {}),
    }


def _figures(report: Mapping[str, Any]) -> Iterable[tuple[tuple[Any, ...], float]]:
    """((table, its place, figure), value) for every figure that is defined."""
    own = _row(report)
    for name in texts_page.FIGURES:
        if own.get(name) is not None:
            yield ("texts", *[None] * len(PLACE), name), own[name]
    for table, (place, names) in MAIN.items():
        for row in report.get(table, []):
            at = tuple(row[key] if key in place else None for key in PLACE)
            for name in names:
                if row[name] is not None:
                    yield (table, *at, name), row[name]


def _spread(key: tuple[Any, ...], values: list[float]) -> Row:
    """A figure at one place over the texts where it is defined; deviation: over n - 1."""
    table, *at, name = key
    row: Row = {"table": table, **dict(zip(PLACE, at, strict=True)), "figure": name}
    row |= {"mean": fmean(values), "deviation": stdev(values) if len(values) > 1 else None}
    row |= {"smallest": min(values), "median": median(values), "largest": max(values)}
    return row | {"texts": len(values)}


def _proof(rows: list[Row]) -> Row:
    """The proof over all texts: the steps, and the largest error over its bound with its place."""
    worst = max(rows, key=lambda row: row["largest_error_over_bound"])
    return {
        "texts": len(rows),
        **{key: sum(row[key] for row in rows) for key in ("steps", "deciding_nothing")},
        "largest_error_over_bound": worst["largest_error_over_bound"],
        "at": worst["at"],
        "text": worst["text"],
    }


def lines(report: Mapping[str, Any]) -> list[str]:
    """The lines that the terminal shows."""
    proof, model = report["proof"], report["model"]
    largest = proof["largest_error_over_bound"]
    first = (
        f"Reconstruction: {counted(proof['steps'], 'step')} over "
        f"{counted(proof['texts'], 'text')} compared with the model's own forward pass in "
        f"{model['dtype']}, largest error over its derived bound {largest:.3g} "
        f"(at most 1), in {proof['text']} at {proof['at']}.{undecided(proof)}"
    )
    found = [first]
    for row in report["figures"]:
        if row["table"] == "lengths" and row["figure"] == "share":
            spread = f"{row['smallest']:.3f} to {row['largest']:.3f}, median {row['median']:.3f}"
            what = row["length"] if isinstance(row["length"], str) else f"length {row['length']}"
            found.append(f"share of {what}: {spread} in {counted(row['texts'], 'text')}")
    return [*found, *_number_lines(report), *report["notes"]]


def _number_lines(report: Mapping[str, Any]) -> Iterable[str]:
    """The number over the texts, and the heads that give most of it in the mean."""
    for row in report["figures"]:
        if row["figure"] == "number":
            texts = counted(row["texts"], "text")
            yield f"The number: {report['number']}, {_mean(row)} in {texts}."
    heads = [row for row in report["figures"] if row["figure"] == "direct"]
    if listed := sorted(heads, key=lambda row: -abs(row["mean"]))[:NAMED]:
        told = (f"{row['layer']}.{row['head']} ({_mean(row)})" for row in listed)
        yield f"Of the heads most comes from {', '.join(told)}, directly."


def _mean(row: Mapping[str, Any]) -> str:
    spread = "" if row["deviation"] is None else f", standard deviation {row['deviation']:.3g}"
    return f"mean {row['mean']:+.4g}{spread}"


EXPECTED = "a folder of .txt files, or a file with one text a line"


@dataclass(frozen=True)
class Look:
    """How every text is looked at: the model's folder, and the options of ``av.inspect``."""

    model: Path
    dtype: str = "float64"
    device: str = "cpu"
    layers: tuple[int, ...] | None = None
    brief: bool = False
    scalar: tuple[tuple[str, Any], ...] = ()

    @property
    def choice(self) -> Choice | None:
        """The number that is taken apart in every text; raises InputError."""
        return Choice.of_options(dict(self.scalar)) if self.scalar else None


def read(paths: Sequence[Path]) -> dict[str, str]:
    """Texts by name, in order: "a.txt" of a folder, "lines.txt:3" for a line that is not blank.

    Raises InputError (argument ``texts``) for what is no text and for equal names.
    """
    found: dict[str, str] = {}
    for path in paths:
        for name, text in (_files if path.is_dir() else _lines)(path):
            odd = f"the file name {name!r}"
            require(name.isprintable(), "texts", odd, "a name that can be printed")
            require(name not in found, "texts", f"two texts {name}", "texts of different names")
            found[name] = text
    return found


def _files(folder: Path) -> list[tuple[str, str]]:
    files = sorted(file for file in folder.glob("*.txt") if file.is_file())
    require(bool(files), "texts", f"{folder}, which holds no .txt file", EXPECTED)
    total = sum(file.stat().st_size for file in files)
    given = f"{total:,} bytes in {folder}"
    require(total <= LARGEST_TEXTS, "texts", given, f"at most {LARGEST_TEXTS:,}")
    return [(file.name, text_of(file, "texts", LARGEST_TEXTS)) for file in files]


def _lines(file: Path) -> list[tuple[str, str]]:
    require(file.is_file(), "texts", f"{file}, which is not there", EXPECTED)
    lines = enumerate(text_of(file, "texts", LARGEST_TEXTS).splitlines(), 1)
    found = [(f"{file.name}:{number}", line) for number, line in lines if line.strip()]
    require(bool(found), "texts", f"{file}, which is empty", EXPECTED)
    return found


def campaign(look: Look, texts: dict[str, str]) -> Campaign:
    """The campaign with a piece for each text; raises InputError for one that cannot be read."""
    folder = Folder.of(look.model)
    own, encoded = folder.digest(), folder.encode_all(texts)
    if look.choice is not None:
        _require_everywhere(look.choice, folder, dict(zip(texts, encoded, strict=True)))
    settings: dict[str, Any] = {
        "attninspect": digest_of(Path(__file__).parent),
        "model": own,
        "dtype": look.dtype,
        "device": look.device,
        "layers": look.layers,
        "brief": look.brief,
        "scalar": dict(look.scalar),
        "texts": {n: hashlib.sha256(t.encode()).hexdigest() for n, t in texts.items()},
    }
    tasks = [Task(n, piece, (look, own, *e)) for n, e in zip(texts, encoded, strict=True)]
    return Campaign("inspect texts", settings, tasks)


def _require_everywhere(choice: Choice, folder: Folder, texts: Mapping[str, Any]) -> None:
    """Raise InputError unless the number is one of every text, as far as that is seen without runs.

    texts: name to ids and tokens.
    """
    if choice.kind == "logit":
        choice.entries(None, folder.tokens)
    for name, (ids, _) in texts.items():
        given = f"at {choice.at} for {name}, a text of {len(ids)} tokens"
        require((choice.at or 1) <= len(ids), "scalar", given, "a position that all texts have")


def piece(look: Look, own: str, ids: list[int], words: list[str]) -> dict[str, Any]:
    """The report on one text as JSON; one thread, so that its figures are the same everywhere."""
    subject, number = _loaded(look, own)
    with one_thread():
        found = inspect_subject(subject, ids, words, look.layers, look.brief, number=number)
    return found.as_json()


@lru_cache(maxsize=1)
def _loaded(look: Look, own: str) -> tuple[Subject, Choice | None]:
    """The model that the campaign is about, and the number of it, read once a process."""
    folder = Folder.of(look.model)
    same = folder.digest() == own
    require(same, "model", f"other files in {look.model}", "those that the run began with")
    choice = look.choice
    subject = Subject.of(folder, look.dtype, look.device, choice.kind if choice else "")
    ready = subject.model if subject.whole is None else subject.whole
    return subject, choice and choice.of_model(ready, folder)
