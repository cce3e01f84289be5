"""The experiments: the papers' measurements, made again. Each is a claim with a criterion.

>>> import attnverify as av
>>> sorted(av.experiments.EXPERIMENTS)[:3]
['architectures', 'both-collapses', 'circle']
>>> av.experiments.find("path-counts").claim
'experiment.path-counts'
"""

from attnverify.experiments import (
    architectures,
    circle,
    default_initialization,
    locater,
    pathcounts,
    phase_diagram,
    random_attention,
    shortpaths,
    trained_copying,
    training_failures,
)
from attnverify.experiments.engine import results as results
from attnverify.experiments.engine.model import Experiment as Experiment
from attnverify.experiments.engine.model import Settings as Settings
from attnverify.experiments.engine.results import Result as Result
from attnverify.experiments.engine.results import committed as committed
from attnverify.experiments.trained_encoder import margins, silent_heads, spectra
from attnverify.experiments.trained_models import lengths, looked, parallel, training
from attnverify.support.errors import InputError, nearest

#: The experiments by name, in the order of the book.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        phase_diagram.EXPERIMENT,
        architectures.EXPERIMENT,
        circle.EXPERIMENT,
        pathcounts.EXPERIMENT,
        shortpaths.SORTING,
        shortpaths.HULL,
        shortpaths.MEMORIZATION,
        locater.EXPERIMENT,
        spectra.EXPERIMENT,
        margins.EXPERIMENT,
        silent_heads.EXPERIMENT,
        random_attention.EXPERIMENT,
        training.EXPERIMENT,
        looked.EXPERIMENT,
        lengths.EXPERIMENT,
        parallel.EXPERIMENT,
        trained_copying.EXPERIMENT,
        default_initialization.EXPERIMENT,
        training_failures.EXPERIMENT,
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
