"""The experiments: the papers' measurements, made again. Each is a claim with a criterion."""

from attnverify.errors import InputError, nearest
from attnverify.experiments import (
    architectures,
    circle,
    collapses,
    locater,
    pathcounts,
    real_margins,
    real_spectra,
    shortpaths,
)
from attnverify.experiments import results as results
from attnverify.experiments.model import Experiment as Experiment
from attnverify.experiments.model import Settings as Settings
from attnverify.experiments.results import Result as Result
from attnverify.experiments.results import committed as committed

#: The experiments by name, in the order of the book.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        collapses.EXPERIMENT,
        architectures.EXPERIMENT,
        circle.EXPERIMENT,
        pathcounts.EXPERIMENT,
        shortpaths.SORTING,
        shortpaths.HULL,
        shortpaths.MEMORIZATION,
        locater.EXPERIMENT,
        real_spectra.EXPERIMENT,
        real_margins.EXPERIMENT,
    )
}


def find(name: str) -> Experiment:
    """An experiment by name; raises InputError with the nearest match for an unknown one."""
    if name not in EXPERIMENTS:
        hint = nearest(name, EXPERIMENTS)
        raise InputError(f"name: got {name!r}, expected one of {sorted(EXPERIMENTS)}{hint}")
    return EXPERIMENTS[name]


def run(name: str, settings: Settings | None = None) -> Result:
    """Run an experiment, in its quick setting unless told otherwise, and judge what came out."""
    return results.run(find(name), settings)
