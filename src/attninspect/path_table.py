"""The paths that contribute most to a chosen number: a table that says what is proved of the rest.

A path takes one head of a layer, or passes its attention by. MLPs, norms, gates and the head with
its pooler, held at their values, stand on every path, so the number is the sum of all paths and the
biases. The search is that of :mod:`attnverify.mathematics.largest_paths`, here with the head among
the maps behind the last layer, so that its roundings count too. Its budget is a number of nodes:
how far it comes does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import torch
from torch import Tensor

from attninspect.scalar import Number, Row
from attninspect.trace import Layer, Step, Trace
from attnverify.mathematics import maps
from attnverify.mathematics.held import Held, Path
from attnverify.mathematics.largest_paths import COLUMNS, PRECISE, LargestPaths, largest
from attnverify.support.errors import InputError, require
from attnverify.support.memory import require_bytes
from attnverify.support.vocabulary import counted

NODES = 2000  # opened at most, unless another number is asked for
MOST = 1000  # paths: the list is sorted anew for each
WORK = 2.0**40  # of tokens width^3 layers: about half an hour of one core
NUMBER = "a number to take apart: scalar, or --logit, --class or --coordinate"
FEWER = "fewer tokens, or a smaller model"


def require_paths(paths: Any, nodes: Any, numbered: bool) -> None:
    """Raise InputError unless so many paths, and nodes for them, or neither can be asked for.

    numbered: whether a number is taken apart.
    """
    if paths is None:
        require(nodes is None, "nodes", f"{nodes!r} without paths", "it with paths alone")
        return
    good = type(paths) is int and 1 <= paths <= MOST
    require(good, "paths", repr(paths), f"a whole number from 1 to {MOST:,}")
    require(numbered, "paths", f"{paths} without a number", NUMBER)
    good = nodes is None or (type(nodes) is int and nodes >= 1)
    require(good, "nodes", repr(nodes), "a positive whole number")


def require_fits(X: Tensor, depth: int, nodes: int) -> None:
    """Raise InputError where the bounds of X (1, tokens, width) are too large to be made.

    A layer has 8 tokens width (columns + width) bytes of bounds, and six more are made on the
    way; a node keeps a covector as large as X. A GPU makes 12 layers of 128 tokens of width 768
    in seconds, so only processors have a limit of work.
    """
    _, tokens, width = X.shape
    work = float(tokens) * width**3 * depth
    given = f"{tokens} tokens of width {width} in {depth} layers, {work:.2g} of tokens width^3"
    fits = work <= WORK or X.device.type == "cuda"
    require(fits, "paths", f"{given} layers", f"at most {WORK:.2g} ({FEWER}, or a GPU)")
    entries = tokens * width * ((depth + 6) * (COLUMNS + width) + nodes)
    require_bytes("paths", 8.0 * entries, X.device, "bounds of paths", FEWER)


def path_table(
    layers: Sequence[Layer],
    final: Sequence[Step],
    number: Number,
    paths: int,
    nodes: int,
    lengths: Sequence[Row],
    words: Sequence[str] | None,
) -> tuple[dict[str, Any], list[Row]]:
    """What is proved, as facts, and the table; lengths: the number by path length.

    The rows are the paths, largest first, all others together, biases, and the model's rounding;
    they add up to the number within its bound and the paths' errors. Raises InputError.
    """
    X = layers[0].input
    require_fits(X, len(layers), nodes)
    trace = _with_head(layers, final, number)
    covector = X.new_zeros(trace.output.shape[1:])
    covector[number.token] = number.weights
    try:
        found = largest(trace, covector, paths, nodes=nodes)
    except InputError as error:
        argument, rest = str(error).split(":", 1)
        raise InputError(f"{'nodes' if argument == 'nodes' else 'paths'}:{rest}") from error
    sources = _sources(trace.held(), covector, found)
    rows = [
        _row(rank, path, value, found, number.value, source, words)
        for rank, (path, value, source) in enumerate(
            zip(found.paths, found.contributions, sources, strict=True), 1
        )
    ]
    return _facts(found, paths, nodes), rows + _rest(rows, lengths, found, number.value)


def _with_head(layers: Sequence[Layer], final: Sequence[Step], number: Number) -> Trace:
    """The trace whose output is what the number's weights multiply: the head stands behind it.

    The head's maps were held at its own token; covectors vanish at all others.
    """
    X, steps = layers[0].input, [*number.steps]
    if steps:
        seen = steps[-1].seen.expand(1, X.shape[1], -1)
        steps[-1] = replace(steps[-1], seen=seen)
    valid = X.new_ones(X.shape[:2], dtype=torch.bool)
    return Trace(X, layers, [*final, *steps], valid)


def _sources(held: Held, covector: Tensor, found: LargestPaths) -> Iterator[tuple[int, float]]:
    """For each path the input token that gives the most of it, from 1, and what that gives."""
    known: dict[Path, Tensor] = {(): maps.transposed(held.final, covector[None])}
    for path in found.paths:
        for level in reversed(range(len(path))):
            if path[level:] not in known:
                layer = held.layers[level]
                behind = maps.transposed(layer.rows, known[path[level + 1 :]])
                known[path[level:]] = layer.head_transposed([path[level]], behind)
        each = (known[path] * held.X).sum(-1)[0]
        token = int(each.abs().argmax())
        yield token + 1, float(each[token])


def called(path: Sequence[int]) -> str:
    """A path by its heads, "1.3 > 4.7" for head 3 of layer 1 and head 7 of layer 4."""
    heads = (f"{layer}.{head}" for layer, head in enumerate(path, 1) if head)
    return " > ".join(heads) or "no head"


def _row(
    rank: int,
    path: Sequence[int],
    value: float,
    found: LargestPaths,
    whole: float,
    source: tuple[int, float],
    words: Sequence[str] | None,
) -> Row:
    size, off = abs(value), found.error
    among = found.unseen <= size + 2 * off and off <= PRECISE * size
    return {
        "rank": rank,
        "path": called(path),
        "heads": list(path),
        "value": value,
        "share": value / whole if whole else None,
        "most": size + off,
        "certified": found.certified or among,
        "token": source[0],
        "word": words[source[0] - 1] if words else None,
        "token_value": source[1],
    }


def _rest(
    rows: Sequence[Row], lengths: Sequence[Row], found: LargestPaths, whole: float
) -> list[Row]:
    """What is no listed path: the others together, biases, the model's own rounding."""
    own = {row["length"]: row["value"] for row in lengths if row["paths"] is None}
    every = [row["value"] for row in lengths if row["paths"] is not None]
    others = fsum([*every, *(-row["value"] for row in rows)])
    return [
        dict.fromkeys(rows[0])
        | {"rank": name, "value": value, "share": value / whole if whole else None, "most": most}
        for name, value, most in (
            ("others", others, found.unseen),
            ("biases", own["biases"], None),
            ("rounding", own["rounding"], None),
        )
    ]


def _facts(found: LargestPaths, paths: int, nodes: int) -> dict[str, Any]:
    return {
        "asked": paths,
        "listed": len(found.paths),
        "number": found.number,
        "nodes": found.nodes,
        "budget": nodes,
        "certified": found.certified,
        "unseen": found.unseen,
        "error": found.error,
        "energy": list(found.energy),
        "share_of_energy": list(found.share),
        "effective": list(found.effective),
        "sum": fsum(found.contributions),
    }


def sentences(scalar: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """What is proved of the largest paths, and how much they say; none if none were asked for."""
    if "paths" not in scalar:
        return
    p, listed = scalar["paths"], [row for row in rows if row["path"] is not None]
    low, high = p["share_of_energy"]
    least, most = p["effective"]
    yield (
        f"The largest paths: {p['listed']} of {p['number']:,} listed. No other contributes "
        f"more than {p['unseen']:.3g}, up or down; each is off by at most {p['error']:.1g} "
        "(rounding). "
        f"{_certified(p, listed)}"
    )
    yield (
        f"These paths add up to {p['sum']:.4g} of {scalar['value']:.4g}; paths may cancel. They "
        f"have {low:.3g} to {high:.3g} of the energy, the sum of the squares of all paths, and the "
        f"effective number of paths is {least:.3g} to {most:.3g}."
    )
    first = listed[0]
    yield (
        f"The largest is {first['path']}, {first['value']:+.4g}, of which "
        f"{first['token_value']:+.4g} is from token {placed(first['token'], first['word'])}."
    )


def placed(token: int, word: str | None) -> str:
    """A token by its place, from 1, and its word where that is known."""
    return str(token) if word is None else f"{token} {word!r}"


def _certified(p: Mapping[str, Any], listed: Sequence[Row]) -> str:
    nodes, certain = (
        f"{counted(p['nodes'], 'node')} opened",
        sum(row["certified"] for row in listed),
    )
    if p["certified"]:
        return f"So the list is certified ({nodes})."
    smallest = abs(listed[-1]["value"])
    if p["unseen"] > smallest + 2 * p["error"]:
        reason = f"That is more than the smallest that is listed, {smallest:.3g}"
    elif p["error"] > PRECISE * smallest:
        reason = f"Rounding is more than {PRECISE:.0%} of the smallest that is listed"
    else:
        reason = f"Fewer are listed than the {p['asked']} asked for"
    return (
        f"{reason}: the proof certifies {certain} of them ({nodes} of at most {p['budget']:,}; a "
        "larger budget of nodes may help)."
    )
