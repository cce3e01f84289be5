"""Every sentence and cell of a report, on made-up reports at both sides of each condition."""

import dataclasses

import pytest

from attninspect import drawings, words
from attninspect.columns import HEADS, LAYERS
from attninspect.report import Report

PROOF = {
    "steps": 33,
    "deciding_nothing": 0,
    "largest_error_over_bound": 0.0625,
    "at": "layer 2, block 1, sum",
    "rounding_of_output": 2.5e-16,
    "rounding_of_shares": 1e-9,
}
MODEL = {
    "family": "bert",
    "class": "BertModel",
    "parameters": 12345,
    "dtype": "float64",
    **dict.fromkeys(("attention", "attention_as_given"), "eager"),
    "stored": "float32",
    "layers": 3,
    "heads": 4,
    "key_heads": 4,
    "width": 8,
}


def lengths(*shares: float | None, biases: float | None = 0.25) -> list[dict]:
    """Rows of so many lengths, whose paths are 1, 10, 100, ..."""
    paths = [{"length": i, "share": s, "paths": 10**i} for i, s in enumerate(shares)]
    others = {"biases": biases, "rounding": None if biases is None else 1e-9}
    return paths + [{"length": n, "share": s, "paths": None} for n, s in others.items()]


def layer(number: int, text: int = 1, **values) -> dict:
    return {**dict.fromkeys(LAYERS), "layer": number, "text": text, **values}


def head(number: int, layer: int = 1, **values) -> dict:
    return {**dict.fromkeys(HEADS), "layer": layer, "head": number, **values}


def made(**fields) -> Report:
    inputs = {"texts": 1, "tokens": 5, "padding": 0, "words": None}
    whole = {"model": MODEL, "inputs": inputs, "proof": PROOF, "lengths": lengths(0.5, 0.25)}
    whole |= {"layers": [], "heads": [], "rollout": None, "notes": (), **fields}
    return Report(**whole)


def said(**fields) -> list[str]:
    return list(words.found(made(**fields)))


def test_what_was_proved():
    first = (
        "Reconstruction: 33 steps of 3 layers and 4 heads compared with the model's own forward "
        "pass in float64, largest error over its derived bound 0.0625 (at most 1), at layer 2, "
        "block 1, sum. All paths and biases together are the output up to 2.5e-16 of it, the "
        "model's own rounding."
    )
    assert words.proved(made()) == first
    more = (
        " But nothing is decided by 2 of the steps: the model's own values vanish there, or are no "
        "larger than what rounding and underflow may change."
    )
    proof = PROOF | {"deciding_nothing": 2}
    assert words.proved(made(proof=proof)) == first + more
    whole = words.summary(made(notes=("a note",), heads=[head(1, moves=1.0)]))
    assert whole[0] == first and whole[-1] == "a note" and len(whole) == 4


LARGEST = "carry the largest share of what distinguishes the tokens of the output, "


@pytest.mark.parametrize(
    ("shares", "rounding", "sentence"),
    [
        ((0.5,), 0.0, f"Paths of length 0 {LARGEST}0.500; biases carry 0.250."),
        ((0.25, 0.5), 0.0, f"Paths of length 1 {LARGEST}0.500; biases carry 0.250."),
        (
            (0.25, -0.75, 0.125),
            0.0,
            f"Paths of length 0 {LARGEST}0.250; biases carry 0.250; lengths from 2 on, 90.1% of "
            "all paths, 0.125.",
        ),
        (
            (0.25, 0.5, 0.125, 0.0625, -0.5),
            0.0,
            f"Paths of length 1 {LARGEST}0.500; biases carry 0.250; lengths from 3 on, 99.0% of "
            "all paths, -0.438.",
        ),
        (
            (0.5, 0.0, 0.0, 0.25, 0.0, 0.0),
            0.0,
            f"Paths of length 0 {LARGEST}0.500; biases carry 0.250; lengths from 4 on, 99.0% of "
            "all paths, 0.000.",
        ),
        (
            (0.25, 0.5),
            0.0005,
            f"Paths of length 1 {LARGEST}0.500; biases carry 0.250; the model's rounding may be "
            "0.0005 of each.",
        ),
        ((0.25, 0.5), 0.0004, f"Paths of length 1 {LARGEST}0.500; biases carry 0.250."),
        (
            (0.25, 0.5),
            0.5,
            "No length has a share above what the model's rounding may be of it, 0.5 of what "
            "distinguishes the tokens of the output.",
        ),
        (
            (-0.25, -0.5),
            0.0,
            "No length has a share above what the model's rounding may be of it, 0 of what "
            "distinguishes the tokens of the output.",
        ),
        (
            (None, None),
            None,
            "The tokens of the output are all equal, up to rounding: shares without their mean are "
            "undefined.",
        ),
    ],
)
def test_lengths(shares, rounding, sentence):
    rows = lengths(*shares, biases=None if shares[0] is None else 0.25)
    assert said(lengths=rows, proof=PROOF | {"rounding_of_shares": rounding}) == [sentence]


def test_layers_over_and_under_their_threshold():
    rows = [layer(1, over_threshold=3.0), layer(2, over_threshold=1.0), layer(3, residual=0.5)]
    rows[0]["residual"] = 0.25
    assert said(layers=rows)[1:] == [
        "The sharp theorem applies to 2 of 3 inputs of layers, with 0 inputs below the threshold "
        "of collapse; the nearest is 1 times it (layer 2).",
        "Tokens are nearest to collapse where layer 1 begins: relative residual 0.25.",
    ]
    rows[0]["residual_of_rest"] = 0.125
    assert said(layers=rows)[2].endswith("relative residual 0.25 (0.125 without the first token).")
    rows[1]["over_threshold"] = 0.5
    assert said(layers=rows)[1].endswith(
        ", with 1 input below the threshold of collapse; the nearest is 0.5 times it (layer 2)."
    )
    assert len(said(layers=[layer(1)])) == 1, "nothing of what is measured nowhere"


def test_every_reason_without_a_threshold():
    rows = [
        layer(1, why_no_threshold="one", bound=2.0),
        layer(2, why_no_threshold="two", bound=4.0),
        layer(3, why_no_threshold="one", bound=3.0),
        layer(4, bound=9.0),
    ]
    most = "There attention multiplies the diameter by at most"
    assert said(layers=rows)[1:] == [
        f"No threshold at 2 inputs of layers: one. {most} 3 (layer 3), whatever the tokens are.",
        f"No threshold at 1 input of layers: two. {most} 4 (layer 2), whatever the tokens are.",
    ]


SILENT = "could be silent on these tokens: their output is less than 5% of their layer's attention"
TWELVE = ", ".join(f"7.{i}" for i in range(1, 13))


@pytest.mark.parametrize(
    ("moves", "sentence"),
    [
        ([0.05, 1.0], f"0 of 2 heads {SILENT}."),
        ([0.75, 0.04, None], f"1 of 2 heads {SILENT}: 7.2."),
        ([0.0] * 12, f"12 of 12 heads {SILENT}: {TWELVE}."),
        ([0.0] * 13, f"13 of 13 heads {SILENT}: {TWELVE}, ...."),
        (
            [None, None],
            "What attention adds is equal for all tokens, up to rounding: no head stands out.",
        ),
    ],
)
def test_silent_heads(moves, sentence):
    rows = [head(i, 7, moves=value) for i, value in enumerate(moves, 1)]
    assert said(heads=rows)[1:] == [sentence]


def test_heads_on_the_first_token():
    rows = [head(1, sink=0.5), head(2, sink=0.625), head(3), head(1, 2, sink=0.75)]
    assert said(heads=rows)[2:] == [
        "More than half of the attention is to the first token in 2 of 3 heads; the most is 0.750 "
        "(layer 2, head 1)."
    ]
    assert len(said(heads=[head(1)])) == 2, "nothing where no token sees the first"


def test_rollout():
    found = {"tokens": 5, "rank_correlation": 0.125, "same_top": 0.75}
    found |= {"own_rollout": 0.5, "own_true": 0.25}
    assert said(rollout=found)[1:] == [
        "Attention rollout against the true parts of single tokens: rank correlation 0.12; both "
        "give the most to the same input token in 75% of rows; a token keeps 0.25 of its own "
        "place in truth, 0.50 by rollout."
    ]
    assert said(rollout=found | {"rank_correlation": None})[1:] == [
        "Attention rollout is compared with nothing: no token of the output sees two tokens of the "
        "input and has parts of them that do not vanish."
    ]


def test_figures_are_of_the_first_text_and_of_what_is_defined():
    rows = [layer(1, residual=0.5), layer(1, 2, residual=0.25), layer(2, residual=0.75)]
    drawn = drawings.figures(made(layers=rows, lengths=lengths(0.5, 0.25, biases=0.0)))
    assert set(drawn) == {"lengths.svg", "residual.svg"}
    assert "<title>1: 0.5</title>" in drawn["residual.svg"]
    assert "0.25" not in drawn["residual.svg"].split("</style>")[1].replace("0.25,", "")
    assert "biases" not in drawn["lengths.svg"] and "rounding" not in drawn["lengths.svg"]
    assert "biases" in drawings.figures(made())["lengths.svg"]
    nothing = dataclasses.replace(made(), lengths=lengths(None, biases=None))
    assert drawings.figures(nothing) == {}
