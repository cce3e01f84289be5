"""Tables of results: what an experiment measured, with everything needed to measure it again."""

from __future__ import annotations

import json
import math
import shlex
import time
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from attnverify.experiments.engine.model import Experiment, Row, Settings
from attnverify.support.environment import machine, versions
from attnverify.support.errors import require
from attnverify.support.files import read_json, write_text
from attnverify.support.tables import Table as Table
from attnverify.support.threads import one_thread


def plus_minus(value: float, error: float) -> str:
    """A value and its standard error, to two digits of the error and at most three decimals."""
    decimals = 0
    while decimals < 3 and 0 < error < 10 ** (1 - decimals):
        decimals += 1
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


FORMAT = "attnverify experiment 1"
LARGEST = 16 << 20  # bytes


@dataclass(frozen=True)
class Result:
    """What one run of an experiment measured.

    settings: quick, seed, device, and the names of the user's model and text if given; machine:
    system, architecture and number of cores; verdict: the criterion on these rows.
    """

    experiment: str
    command: str
    settings: dict[str, Any]
    versions: dict[str, str]
    machine: dict[str, Any]
    seconds: float
    verdict: dict[str, Any]
    rows: list[Row]


def run(experiment: Experiment, settings: Settings | None = None) -> Result:
    """Run an experiment with a fixed number of threads and judge what it measured.

    Raises InputError for settings that do not fit, and for a figure that is NaN or infinite.
    """
    settings = settings or Settings()
    require_fit(experiment, settings)
    if settings.folder is not None:
        settings.folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with one_thread():
        rows = experiment.run(settings)
    seconds = round(time.perf_counter() - start, 1)
    _require_finite(rows)
    verdict = experiment.judge(rows).as_json()
    if not judged(experiment, settings):
        verdict["holds"] = None
    return Result(
        experiment.name,
        _command(experiment, settings),
        _kept(settings),
        versions(),
        machine(),
        seconds,
        verdict,
        rows,
    )


def judged(experiment: Experiment, settings: Settings) -> bool:
    """Whether the criterion is judged in this setting."""
    return experiment.quick_decides or not settings.quick


def require_fit(experiment: Experiment, settings: Settings) -> None:
    """Raise InputError for a model or a text that the experiment does not take or is not there."""
    taken = {"model": experiment.takes_model, "text": experiment.takes_text}
    for name, takes in taken.items():
        given = getattr(settings, name)
        expected = f"no {name}: the experiment {experiment.name!r} takes none"
        require(given is None or takes, name, given, expected)
    model, text = settings.model, settings.text
    require(model is None or model.is_dir(), "model", model, "an existing folder with a model")
    require(text is None or text.is_file(), "text", text, "an existing text file")


def _require_finite(rows: list[Row]) -> None:
    for number, row in enumerate(rows):
        for key, value in row.items():
            numbers = value if isinstance(value, list) else [value]
            finite = all(math.isfinite(v) for v in numbers if isinstance(v, float))
            given = f"{value} in row {number}"
            require(finite, key, given, "finite figures: it over- or underflowed")


def _command(experiment: Experiment, settings: Settings) -> str:
    words = ["attnverify experiment", experiment.name, *(["--quick"] if settings.quick else [])]
    words += [f"--seed {settings.seed}", f"--device {settings.device}"]
    return " ".join(
        [*words, *(f"--{key} {shlex.quote(value)}" for key, value in _own(settings).items())]
    )


def _own(settings: Settings) -> dict[str, str]:
    """The names of the user's model and text, without their places on the machine."""
    given = {"model": settings.model, "text": settings.text}
    return {key: path.name for key, path in given.items() if path is not None}


def _kept(settings: Settings) -> dict[str, Any]:
    kept = {"quick": settings.quick, "seed": settings.seed, "device": settings.device}
    return kept | _own(settings)


def save(path: Path, result: Result) -> None:
    """Write a result as JSON, one row a line."""
    body = {"format": FORMAT, **asdict(replace(result, rows=[]))}
    head = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)
    rows = ",\n  ".join(json.dumps(r, ensure_ascii=False, allow_nan=False) for r in result.rows)
    before, _, after = head.rpartition("[]")
    write_text(path, f"{before}[\n  {rows}\n ]{after}\n")


def load(path: Path) -> Result:
    """Read a result; raises InputError that says what is wrong with the file."""
    with read_json(path, "file", "table of results", LARGEST) as body:
        if body.pop("format") != FORMAT or not all(isinstance(r, dict) for r in body["rows"]):
            raise ValueError(f"no {FORMAT!r}")
        return Result(**body)


def seed(name: str) -> int:
    """The seed of the run whose table comes with the package."""
    return committed(name).settings["seed"]


def committed(name: str) -> Result:
    """The result of the full setting that comes with the package."""
    folder = resources.files("attnverify.experiments") / "results"
    with resources.as_file(folder / f"{name}.json") as path:
        return load(path)
