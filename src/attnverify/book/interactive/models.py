"""Shares of path lengths in the three trained models, from the committed table."""

from __future__ import annotations

import functools
import json
from typing import Any

from attnverify import experiments
from attnverify.book.interactive.drawing import Drawing, Mark, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.experiments.trained_models import looked

FIRST = 6  # the number of the first text of the table
LAST = FIRST + looked.TEXTS[False] - 1
DEEPEST, BIASES = 12, 13.6  # the largest length, and the place of the biases
PLOT = Plot(
    (-0.7, BIASES + 0.7),
    (-0.65, 0.85),
    "path length",
    "share",
    {**{float(k): str(k) for k in range(0, DEEPEST + 1, 2)}, BIASES: "biases"},
    {-0.5: "−0.5", 0.0: "0", 0.5: "0.5"},
)
CAPTION = (
    "<b>Try:</b> press a model's name, then move through its five texts. <b>It shows</b> that the "
    "lengths with most of the paths have small net shares in what distinguishes the tokens of the "
    "output. <b>It does not show</b> how large the parts are, as parts cancel, nor what the model "
    "would do without them: attention, gates and normalization are held."
)


@functools.cache
def models() -> list[dict[str, Any]]:
    """By model its name, the number of paths by length, and the shares and biases of each text."""
    rows, found = experiments.committed("three-models").rows, []
    for subject in looked.SUBJECTS:
        texts = looked.select(rows, "text", subject.name)
        told = [{"shares": row["shares"], "biases": row["biases"]} for row in texts]
        found.append({"name": subject.name, "paths": texts[0]["paths"], "texts": told})
    return found


def draw(values: Values) -> Drawing:
    """Shares of the output and of the number of paths, by length, and the biases."""
    model = models()[round(values["model"]) - 1]
    number = round(values["text"])
    row = {**model["texts"][number - FIRST], "paths": model["paths"]}
    output, paths = looked.long_paths(row)
    half, total = (len(row["paths"]) - 1) // 2, sum(row["paths"])
    lines = {
        "bars": [(float(k), share) for k, share in enumerate(row["shares"])],
        "biases": [(BIASES, row["biases"])],
        "paths": [(float(k), n / total) for k, n in enumerate(row["paths"])],
    }
    texts = {
        "name": model["name"],
        "number": f"{number}",
        "half": f"{half}",
        "long": (paths, 3),
        "net": (output, 3),
        "short": (sum(row["shares"][: half + 1]), 3),
        "bias": (row["biases"], 3),
    }
    return Drawing(lines, {}, texts)


def models_figure(model: float = 2.0, text: float = 6.0) -> Figure:
    """Shares by path length of experiment.three-models.

    model: 1 for the encoder, 2 for the ALBERT, 3 for the decoder; text: 6 to 10. Errors: InputError
    for a value outside its slider.
    """
    names = {subject.name: k for k, subject in enumerate(looked.SUBJECTS, 1)}
    labelled = "model: " + ", ".join(f"{k} {name}" for name, k in names.items())
    return Figure(
        name="models",
        label="shares of path lengths in three trained models",
        description="Bars over the path length: the share of each length in the output, and apart "
        "that of the biases. A line: its share in the number of paths, largest at long lengths.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "bars": Mark("bars", "measured", "share of the output"),
            "biases": Mark("bars", "sharp", "of the biases"),
            "paths": Mark("line", "reference", "share of the paths", style="dashed"),
        },
        controls=(
            Slider("text", "text", float(FIRST), float(LAST), 1.0, 0),
            Slider("model", labelled, 1.0, 3.0, 1.0, 0, folded=True),
        ),
        sentence="{name}, text {number}: paths through more than {half} layers are {long} of all "
        "paths, with the net share {net} of the output. The others have {short}, the biases "
        "{bias}.",
        draw=draw,
        formulas=f"const models = {json.dumps(models(), separators=(',', ':'))};\n",
        script="models.js",
        values={"model": 2.0, "text": 6.0},
        presets={name: {"model": float(k)} for name, k in names.items()},
    ).at(model=model, text=text)
