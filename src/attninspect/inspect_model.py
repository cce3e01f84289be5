"""Look at a model on a text: trace it, prove the trace, measure, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attninspect import ablate as ablating
from attninspect import layers, shares
from attninspect.chosen import Choice, chosen, position, read_by
from attninspect.columns import LOST
from attninspect.forward import Subject
from attninspect.inputs import Inputs
from attninspect.load import Folder
from attninspect.modules import KINDS
from attninspect.path_table import path_table, require_fits
from attninspect.patterns import Patterns, places
from attninspect.reconstruction import Streams
from attninspect.record import Calls
from attninspect.report import Report
from attninspect.scalar import Number, decompose
from attninspect.shares import Rollout, fits
from attninspect.trace import Layer, Step
from attninspect.words import named
from attnverify.support.errors import InputError, require, shown
from attnverify.support.memory import readable, require_bytes

BRIEF = "only shares and residuals were asked for"
BRIEF_NUMBER = "only shares, residuals and a number in parts were asked for"
SINGLE = (
    "the model computes its softmax or its norms in float32, though it runs in float64: tokens "
    "that differ by less than 2^10 units roundoff of float32 are taken as equal"
)
SUNK = (
    "rows of attention add up to less than 1 (sinks): attention rollout, which multiplies rows "
    "that add up to 1, is not compared, the sharp bound is not given, and an entropy is that of a "
    "row over its sum"
)
SHOWN = "eager attention ran, which gives its matrices"
COUNTED = (
    "positions count the padding before a text, as the model has it without position_ids: pass "
    "position_ids to number its tokens from 0"
)
LONGEST_NAME = 256  # letters of a text that may be the name of a file
Progress = Callable[[str, float], None]
Chosen = Sequence[tuple[int, int | None]] | None  # layers, or heads of them, as patterns.places


def inspect(
    model: Any,
    inputs: Any = None,
    *,
    text: str | None = None,
    dtype: str | torch.dtype | None = "float64",
    device: str = "cpu",
    layers: Sequence[int] | int | None = None,
    brief: bool = False,
    scalar: Mapping[str, Any] | None = None,
    paths: int | None = None,
    nodes: int | None = None,
    ablate: str | None = None,
    seed: int = 0,
    patterns: str | Sequence[int | str] | int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Report what the book's theorems say about a model at its inputs, proved by reconstruction.

    model: a module of ``transformers`` of a family in ``attninspect.families.FAMILIES``,
    a ``torch.nn.TransformerEncoder``, or a folder with config.json and safetensors. inputs: token
    ids (tokens,) or (batch, tokens), embeddings ((batch,) tokens, width), pixels, or the model's
    keyword arguments, masks of padding included; or ``text``, for a folder with a tokenizer. dtype:
    what the model runs in, "float32" or "float64", or "bfloat16" where its weights are (None: its
    own, of a folder what ``from_pretrained`` runs it in); everything else is float64.
    layers: numbers from 1 of those to report, all if None; brief: only shares by length (without
    norms) and residuals by layer, as fully proved and sooner. scalar: a number of one text to take
    apart: {"logit": TOKEN} or {"class": NAME}, with "against" another one for the difference, or
    {"coordinate": I} of the last hidden state; "at" a position from 1 (the last token that is no
    padding). Tokens and classes are names, or numbers from 0, as coordinates are; "#7" is number 7.
    paths: so many of the paths that contribute most to it, and a bound on all others, from a search
    that opens at most so many ``nodes`` (2,000 if None).
    ablate: "zero", "mean" or "resample" (by the tokens in another order, drawn with ``seed``): the
    number also without each head and each layer's attention, as the model then gives it
    (:mod:`attninspect.ablate`).
    patterns: layers whose attention patterns the page shows, or single heads of them, as [3, "5.2"]
    or "3,4-6,5.2"; if None all where they fit, else those that the findings name.
    Nothing is changed in the model, and nothing is downloaded.

    Raises InputError for bad arguments and where memory lacks, ReconstructionError where the trace
    is not the model's own forward pass to rounding.

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> report = av.inspect(model, torch.randn(5, 8))
    >>> [row["length"] for row in report.lengths], report.model["heads"]
    ([0, 1, 2, 'biases', 'rounding'], 2)
    >>> report.proof["largest_error_over_bound"] <= 1
    True
    >>> one = av.inspect(model, torch.randn(5, 8), scalar={"coordinate": 3, "at": 2})
    >>> parts = sum(row["value"] for row in one.scalar_tokens)
    >>> abs(parts - one.scalar["value"]) < 1e-12
    True
    >>> cut = av.inspect(model, torch.randn(5, 8), scalar={"coordinate": 3}, ablate="zero")
    >>> sorted(cut.scalar_heads[0])
    ['direct', 'head', 'layer', 'lost', 'through']
    """
    choice = Choice.of_options(scalar, paths, nodes, ablate, seed)
    words: list[str] | None = None
    folder = Folder.of(model) if isinstance(model, str | Path) else None
    if folder is not None:
        inputs, words = _ids(folder, inputs, text)
    elif text is not None:
        raise InputError("text: got a text for a module, expected inputs (a folder reads texts)")
    shown_heads = places(patterns)
    given = f"{patterns!r} for a brief report, which has none"
    require(shown_heads is None or not brief, "patterns", given, "one of the two")
    subject = Subject.of(folder or model, dtype, device, choice.kind if choice else "")
    ready = subject.model if subject.whole is None else subject.whole
    number = choice and choice.of_model(ready, folder)
    numbers = [layers] if isinstance(layers, int) else layers
    return inspect_subject(subject, inputs, words, numbers, brief, progress, number, shown_heads)


def inspect_subject(
    subject: Subject,
    inputs: Any,
    words: list[str] | None = None,
    layers: Sequence[int] | None = None,
    brief: bool = False,
    progress: Progress | None = None,
    number: Choice | None = None,
    patterns: Chosen = None,
) -> Report:
    """:func:`inspect` of a model that is ready, which may be looked at again; words: its tokens."""
    given = Inputs.of(subject.model, subject.architecture, inputs)
    told = progress or (lambda what, share: None)
    return _Run(subject, given, words, layers, brief, told, number, patterns).report()


def _ids(folder: Folder, inputs: Any, text: str | None) -> tuple[Any, list[str] | None]:
    """Token ids of a text, with the words they stand for; other inputs as they are."""
    if isinstance(inputs, str):
        text, inputs = inputs, None
    one = (inputs is None) != (text is None)
    require(one, "inputs", "both inputs and text" if text else "neither", "one of the two")
    if text is None:
        return inputs, None
    named = len(text) < LONGEST_NAME and "\0" not in text and Path(text).is_file()
    given = f"{shown(text)}, the name of a file"
    require(not named, "text", given, "the text itself, as Path(...).read_text() gives it")
    return folder.encode(text)


class _Run:
    """One pass over a model, measuring as its layers end."""

    def __init__(
        self,
        subject: Subject,
        inputs: Inputs,
        words: list[str] | None,
        chosen: Sequence[int] | None,
        brief: bool,
        progress: Progress,
        number: Choice | None,
        shown_heads: Chosen,
    ) -> None:
        self.brief, self.number = brief, number
        many = inputs.shape[0]
        require(number is None or many == 1, "inputs", f"{many} texts", "one, for a number of it")
        if number is not None:
            position(number, inputs.valid(*inputs.shape))  # before the run
            if number.ablation is not None:
                number.ablation.order(inputs)
        self.kept: list[Layer] = []
        self.middle: Tensor | None = None
        self.head: tuple[Calls, Tensor | None] = ((), None)
        self.subject, self.inputs, self.words, self.progress = subject, inputs, words, progress
        self.depth = len(subject.architecture.layers)
        listed = chosen is None or isinstance(chosen, list | tuple | range | set)
        whole = listed and all(type(n) is int for n in chosen or ())
        require(whole, "layers", repr(chosen), "a list of layer numbers, as [1, 3]")
        wrong = [n for n in chosen or () if not 1 <= n <= self.depth]
        require(not wrong, "layers", shown(wrong), f"numbers from 1 to {self.depth}")
        self.chosen = set(chosen or range(1, self.depth + 1))
        self.shown_heads = shown_heads
        self.streams: Streams | None = None
        self.rollout: Rollout | None = None
        self.patterns: Patterns | None = None
        self.unit = subject.unit
        self.rows: dict[str, list[dict[str, Any]]] = {"layers": [], "heads": []}
        self.sizes: dict[str, int] = {}
        self.sunk = False
        self.said: list[str] = []

    def report(self) -> Report:
        first = 0 if self.number else self.depth // 2 if self.brief else self.depth
        needed = self.subject.memory(self.inputs, self.depth - first)
        instead = "fewer tokens or texts at once, or dtype float32"
        require_bytes("inputs", needed, self.subject.device, "working memory", instead)
        self.progress(f"at most {readable(needed)} beside the model", 0.0)
        head = None if self.subject.whole is None else self._head
        final = list(self.subject.follow(self.inputs, self._layer, head))
        assert self.streams is not None
        self.streams.through(final, "end")
        self.unit = max([self.unit, *(step.unit for step in final)])
        rollout = None if self.rollout is None else self.rollout.compared(final, self.unit)
        found = self._scalar(final)
        if not found:
            self._as_given()
        if self.subject.counts_padding(self.inputs):
            self.said.append(COUNTED)
        lengths = self._lengths(final)
        report = Report(
            model={**self.subject.words(), **self.sizes},
            inputs={
                "texts": self.streams.seen.shape[0],
                "tokens": self.streams.seen.shape[1],
                "padding": int((~self._valid()).sum()),
                "words": self.words,
            },
            proof=self._proof(lengths),
            lengths=lengths,
            layers=self.rows["layers"],
            heads=self.rows["heads"],
            rollout=rollout,
            notes=self._notes(),
            **found,
        )
        fitting = self.patterns and self.patterns.fitting(named(report))
        return replace(report, patterns=fitting)

    def _head(self, calls: Calls, logits: Tensor | None) -> None:
        self.head = calls, logits

    def _scalar(self, final: Sequence[Step]) -> dict[str, Any]:
        """The number that was chosen, in parts that are checked; nothing if none was."""
        if self.number is None:
            return {}
        assert self.streams is not None
        whole, seen = self.subject.whole, self.streams.seen
        reads = None if whole is None else read_by(whole, self.inputs.arguments, seen.shape[1])
        cap = getattr(getattr(whole, "config", None), "final_logit_softcapping", None)
        number, scores = chosen(self.number, seen, self._valid(), *self.head, reads, cap)
        parts = decompose(self.kept, final, number)
        self.streams.checks += parts.checks
        if self.patterns is not None:
            self.patterns.read(parts.keys)
        effects = self._effects(self.number, number)
        if effects is not None:
            for row in (*parts.heads, *parts.layers):
                row[LOST] = effects.of.get((row["layer"], row.get("head")))
        causal = self.subject.architecture.causal
        facts, rows = self._paths(final, number, parts.lengths)
        for row in parts.tokens:
            row["word"] = self._word(row["token"])
        return {
            "scalar": {
                **self.number.facts(number, scores, causal),
                "as_given": self._as_given(number),
                "word": self._word(number.token + 1),
                "bound": parts.bound,
                **facts,
                **({"ablation": effects.facts} if effects else {}),
            },
            "scalar_lengths": parts.lengths,
            "scalar_layers": parts.layers,
            "scalar_heads": parts.heads,
            "scalar_tokens": parts.tokens,
            "scalar_paths": rows,
        }

    def _as_given(self, number: Number | None = None) -> float | None:
        """The number in the implementations that the model came with; a note where that matters."""
        came = {kind: name for kind, name in self.subject.came.items() if name != "eager"}
        value, own = (None, None) if number is None else (number.value, number.value)
        if not came:
            return own
        scores, what = self.subject.as_given(self.inputs), ""
        if scores is None:
            what, own = "it does not run here", None
        elif number is not None and self.number is not None:
            own = float(ablating.at(number.token, self.number.indices)(scores)[0])
            shown = f"{own:.4g} in place of {value:.4g}"
            what = f"the number is {shown}" if f"{own:.4g}" != f"{value:.4g}" else ""
        else:
            assert self.streams is not None
            seen, valid = self.streams.seen, self._valid()
            off = float((scores.double() - seen)[valid].abs().max() / seen[valid].abs().max())
            differs = off > layers.resolved(self.unit)
            what = f"the output is off by up to {off:.0e} of its largest entry" if differs else ""
        if what:
            names = " and ".join(f"{name} {KINDS[kind]}" for kind, name in came.items())
            self.said.append(f"{SHOWN}; with {names}, as the model came, {what}")
        return own

    def _paths(
        self, final: Sequence[Step], number: Number, lengths: list[dict[str, Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The largest paths to the number, if they were asked for."""
        if self.number is None or self.number.paths is None:
            return {}, []
        self.progress("the largest paths", 1.0)
        asked = self.number.paths, self.number.nodes
        facts, rows = path_table(self.kept, final, number, *asked, lengths, self.words)
        return {"paths": facts}, rows

    def _effects(self, wanted: Choice, number: Number) -> ablating.Effects | None:
        """The number without each head, if that was asked for."""
        if wanted.ablation is None:
            return None
        read = ablating.at(number.token, wanted.indices)
        sizes, value = (self.depth, self.sizes["heads"]), number.value
        given = self.subject, self.inputs, wanted.ablation, sizes
        return ablating.effects(*given, read, value, self.progress)

    def _word(self, token: int | str) -> str | None:
        return self.words[token - 1] if self.words and isinstance(token, int) else None

    def _valid(self) -> torch.Tensor:
        assert self.streams is not None
        return self.streams.valid

    def _lengths(self, final: Sequence[Step]) -> list[dict[str, Any]]:
        assert self.streams is not None
        heads = self.sizes["heads"]
        if self.middle is None:
            return shares.rows(self.streams, self._valid(), heads, self.unit)
        g = shares.centered(self.streams.seen, self._valid())
        upper = [layer for layer in self.kept if layer.number > self.depth // 2]
        functionals = shares.functionals(g, upper, final)
        return shares.brief(self.streams, self.middle, functionals, g, heads, self.unit)

    def _notes(self) -> tuple[str, ...]:
        single = self.unit > self.subject.unit
        brief = BRIEF if self.number is None else BRIEF_NUMBER
        notes = (*self.subject.notes, *self.said, *((SINGLE,) * single), *((brief,) * self.brief))
        return (*notes, *((SUNK,) * self.sunk))

    def _layer(self, layer: Layer) -> None:
        if self.streams is None:
            self._start(layer)
        assert self.streams is not None
        if self.brief and layer.number > self.depth // 2:
            self._shorten()
        if self.number or self.middle is not None:
            self.kept.append(layer)
        self.streams.advance(layer)
        self.unit = max(self.unit, layer.unit)
        if self.rollout is not None:
            self.rollout.advance(layer)
        if layer.number in self.chosen:
            self._measure(layer)
        self.progress(f"layer {layer.number}", layer.number / self.depth)

    def _shorten(self) -> None:
        """From the middle on lengths are one stream, and layers are kept for the way back."""
        assert self.streams is not None
        if self.middle is None:
            self.middle, self.streams = self.streams.lengths, self.streams.together()

    def _measure(self, layer: Layer) -> None:
        if self.brief:
            self.rows["layers"] += layers.residual_rows(layer, self._valid())
            return
        self.rows["layers"] += layers.layer_rows(layer, self._valid(), self.unit)
        self.rows["heads"] += layers.head_rows(layer, self._valid(), self.unit)
        if self.patterns is not None:
            self.patterns.add(layer.number, layer.heads.P[0])

    def _start(self, layer: Layer) -> None:
        X, heads = layer.input, layer.heads
        if self.number is not None and self.number.paths is not None:
            require_fits(X, self.depth, self.number.nodes)
        self.streams = Streams.of(X, self.inputs.valid(*X.shape[:2]).to(X.device))
        self.sunk = heads.sinks is not None
        rolled = not (self.brief or self.sunk)
        if rolled and fits(*X.shape[:2], masked=self.inputs.mask is not None):
            self.rollout = Rollout.of(X)
        if not self.brief:
            sizes = self.depth, heads.count
            self.patterns = Patterns.of(self.shown_heads, self.chosen, sizes, self._valid()[0])
        self.sizes = {
            "layers": self.depth,
            "heads": heads.count,
            "key_heads": heads.key_heads,
            "width": X.shape[-1],
        }

    def _proof(self, lengths: Sequence[dict[str, Any]]) -> dict[str, Any]:
        assert self.streams is not None
        defined = any(row["share"] is not None for row in lengths)
        worst = max(self.streams.checks, key=lambda check: check.ratio)
        largest = float(self.streams.seen.abs().max())
        rest = float(self.streams.rest.abs().max())
        return {
            "steps": len(self.streams.checks),
            "deciding_nothing": sum(check.idle for check in self.streams.checks),
            "largest_error_over_bound": worst.ratio,
            "at": worst.place,
            "rounding_of_output": rest / largest if largest > 0 else 0.0,
            "rounding_of_shares": shares.rounding(self.streams) if defined else None,
        }
