"""Which number of a model is taken apart: a logit, a class, a coordinate, and at which token.

A head is read off the model's own forward pass: the linear maps and norms that it calls behind the
last layer, in their order. Between two of them there may be an activation f with f(0) = 0, held
fixed as a gate, as those of MLPs are: it is one that ``transformers`` names, and gives the very
floats that the model's did. The first must read one token of the last hidden state, and the last
must give the logits that the model returns, or what becomes these by the soft cap c tanh(z / c)
that its configuration names, which is one more gate. Otherwise the head does something else (a mean
over tokens, a skip connection), and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnverify.inspection.ablate import Ablation
from attnverify.inspection.families import architecture_of
from attnverify.inspection.record import Calls, affine, quotient
from attnverify.inspection.scalar import Number
from attnverify.inspection.trace import Step, double, unit_roundoff
from attnverify.mathematics.maps import Dense, Gate, Norm
from attnverify.support.errors import InputError, nearest, require, shown

KINDS = ("logit", "class", "coordinate")
TOP = 5  # of the logits, for the reader
NUMBER = re.compile(r"#[0-9]{1,9}", re.ASCII)
EXPECTED = (
    'one of {"logit": TOKEN}, {"class": NAME} and {"coordinate": I}, with "against": TOKEN or NAME '
    'and "at": POSITION where wanted'
)


@dataclass(frozen=True)
class Choice:
    """kind: of KINDS; of, against: a token, a class, a coordinate; at: a position, from 1."""

    kind: str
    of: int | str
    against: int | str | None = None
    at: int | None = None

    @classmethod
    def of_options(cls, scalar: Any) -> Choice:
        """The choice that a mapping states; raises InputError (argument ``scalar``)."""
        require(isinstance(scalar, Mapping), "scalar", shown(scalar), EXPECTED)
        for name in scalar:
            known = (*KINDS, "against", "at")
            require(name in known, "scalar", f"{shown(name)}{nearest(str(name), known)}", EXPECTED)
        kinds = [name for name in KINDS if scalar.get(name) is not None]
        require(len(kinds) == 1, "scalar", " and ".join(kinds) or "none of them", EXPECTED)
        (kind,) = kinds
        of, against, at = (scalar.get(name) for name in (kind, "against", "at"))
        given, whole = [of, *([] if against is None else [against])], kind == "coordinate"
        for each in given:
            good = type(each) is int or (isinstance(each, str) and not whole)
            words = "a whole number" if whole else "a whole number or a name"
            require(good, "scalar", f"{kind} {shown(each)}", words)
        require(of != against, "scalar", f"{kind} {shown(of)} against itself", "two of them")
        place = at is None or (type(at) is int and at >= 1)
        require(place, "scalar", f"at {shown(at)}", "a position from 1")
        return cls(kind, of, against, at)

    @property
    def names(self) -> list[int | str]:
        return [self.of] if self.against is None else [self.of, self.against]

    @property
    def headed(self) -> bool:
        """Whether the number is behind the model's head."""
        return self.kind != "coordinate"

    def indices(self, model: Any, tokens: Callable[[Sequence[str]], list[int]] | None) -> list[int]:
        """The entries of the logits, or of the last hidden state, that the names stand for.

        model: whose configuration names classes; tokens: the tokenizer, if there is one.
        """
        return [self._index(name, model, tokens) for name in self.names]

    def _index(
        self, name: int | str, model: Any, tokens: Callable[[Sequence[str]], list[int]] | None
    ) -> int:
        if isinstance(name, int):
            return name
        if NUMBER.fullmatch(name):
            return int(name[1:])
        if self.kind == "class":
            known = {label: index for index, label in model.config.id2label.items()}
            given = f"class {shown(name)}{nearest(name, known)}"
            require(name in known or name.isdecimal(), "scalar", given, f"one of {shown([*known])}")
            return known[name] if name in known else int(name)
        if tokens is None:
            given = f"the token {shown(name)} for a module"
            raise InputError(f"scalar: got {given}, expected its number (a folder reads tokens)")
        return tokens([name])[0]

    def require_head(self, model: Any) -> None:
        """Raise InputError unless the model has a head of the kind, where one is needed."""
        name = type(model).__name__
        if not self.headed:
            return
        words = getattr(model, "get_output_embeddings", lambda: None)() is not None
        bare = getattr(model, "base_model", model) is model
        of = {"logit": "tokens, as AutoModelForCausalLM", "class": "classes"}[self.kind]
        good = not bare and words == (self.kind == "logit")
        instead = f"a model with a head over {of}; a coordinate needs no head"
        require(good, "scalar", f"{self.kind} for {name}, which has no such head", instead)


Names = Callable[[Sequence[int]], list[str | None]]


@dataclass(frozen=True)
class Wanted:
    """A choice for one model: the entries it stands for, and what entries are called.

    ablation: how heads are removed, where they are.
    """

    choice: Choice
    indices: list[int]
    names: Names
    ablation: Ablation | None = None

    def facts(self, found: Chosen, causal: bool) -> dict[str, Any]:
        """The number in words, its value and place, and the largest logits beside it.

        causal: whether logits are those of the next token.
        """
        kind = self.choice.kind
        said = [self._said(index) for index in self.indices]
        name = f"{kind} {' minus '.join(said)}"
        name = f"{name} of the last hidden state" if kind == "coordinate" else f"logit of {name}"
        top = found.top
        named = self.names([index for index, _ in top]) if top else []
        return {
            "name": name.replace("logit of logit", "logit of token"),
            "value": found.number.value,
            "position": found.number.token + 1,
            "of": {"logit": "next tokens" if causal else "tokens", "class": "classes"}.get(kind),
            "top": [
                {"index": index, "name": word, "logit": value}
                for (index, value), word in zip(top, named, strict=True)
            ],
        }

    def _said(self, index: int) -> str:
        (name,) = self.names([index]) if self.choice.headed else (None,)
        return str(index) if name is None else f"{name!r} (#{index})"


def wanted(choice: Choice, model: Any, folder: Any = None) -> Wanted:
    """The choice for a model; folder: where it was read from, whose tokenizer names tokens."""
    choice.require_head(model)
    indices = choice.indices(model, None if folder is None else folder.tokens)
    if choice.kind == "class":
        labels: Mapping[int, str] = model.config.id2label
        return Wanted(choice, indices, lambda ids: [labels.get(index) for index in ids])
    if choice.kind == "coordinate" or folder is None:
        return Wanted(choice, indices, lambda ids: [None] * len(ids))
    return Wanted(choice, indices, folder.names)


@dataclass(frozen=True)
class Chosen:
    """The number in a run; scores: all logits at the token, None for a coordinate."""

    number: Number
    scores: Tensor | None

    @property
    def top(self) -> list[tuple[int, float]]:
        """The largest logits, with their indices."""
        if self.scores is None:
            return []
        found = self.scores.topk(min(TOP, len(self.scores)))
        return list(zip(found.indices.tolist(), found.values.tolist(), strict=True))


def read_by(model: Any, arguments: Mapping[str, Any], tokens: int) -> int | None:
    """The token, from 0, that a classifier of ``transformers`` reads; None for another model.

    arguments: of its forward pass. Encoders read the first token; causal models the last whose id
    is not that of padding, where the configuration names one and ids are given.
    """
    if not type(model).__module__.startswith("transformers.models."):
        return None
    if not architecture_of(model.base_model).causal:
        return 0
    ids, pad = arguments.get("input_ids"), model.config.pad_token_id
    if ids is None or pad is None:
        return tokens - 1
    real = [0, *(ids[0] != pad).nonzero()[:, 0].tolist()]
    return real[-1]


def chosen(
    wanted: Wanted,
    hidden: Tensor,
    valid: Tensor,
    calls: Calls,
    logits: Tensor | None,
    reads: int | None = None,
    cap: float | None = None,
) -> Chosen:
    """The number that is chosen, in a run whose last hidden state is ``hidden``.

    hidden (1, tokens, width), valid (1, tokens); calls: of the linear maps and norms behind the
    last layer; logits: what the model returned; reads: the token that its head reads, where its
    class tells; cap: of logits. Raises InputError (argument ``scalar``).
    """
    choice, indices = wanted.choice, wanted.indices
    weights = torch.tensor([1.0, -1.0][: len(indices)], dtype=torch.float64, device=hidden.device)
    if choice.kind == "coordinate":
        _require_indices(choice, indices, hidden.shape[-1])
        token, columns = position(choice, valid), hidden.new_zeros(hidden.shape[-1])
        columns[indices] = weights
        return Chosen(Number(hidden, token, [], columns), None)
    if logits is None or not calls:
        raise InputError("scalar: got a model that returns no logits, expected one that does")
    _require_indices(choice, indices, logits.shape[-1])
    last = calls[-1][1].outputs[0]
    if logits.ndim == 3:
        token = position(choice, valid)
    else:
        given = f"at {choice.at} for a head that reads a token of its own"
        require(choice.at is None, "scalar", given, "no position")
        first = calls[0][1].input
        rows, row = (hidden, first) if first.ndim == 2 else (last, logits)
        token = _same(rows, row, reads)
    scores = _at(logits, token)
    capped = cap is not None and torch.equal(torch.tanh(last / cap) * cap, logits)
    linear = _at(last, token) if capped else scores
    steps = _steps(calls, token, indices, _at(hidden, token), linear)
    if capped:
        seen = double(scores[..., indices])
        gate = Gate(quotient(seen, steps[-1].seen))
        steps.append(Step("soft cap", [gate], seen, steps[-1].unit))
    return Chosen(Number(hidden, token, steps, weights), double(scores[0, 0]))


def _require_indices(choice: Choice, indices: list[int], size: int) -> None:
    wrong = [index for index in indices if not 0 <= index < size]
    require(not wrong, "scalar", f"{choice.kind} {wrong}", f"numbers from 0 to {size - 1}")


def position(choice: Choice, valid: Tensor) -> int:
    """The token, from 0: the last that is no padding where none is chosen.

    valid (1, tokens). Raises InputError for a position outside the text.
    """
    real = valid[0].nonzero()[:, 0].tolist()
    if choice.at is None:
        return real[-1]
    expected = f"a position of the text, from {real[0] + 1} to {real[-1] + 1}"
    require(choice.at - 1 in real, "scalar", f"at {choice.at}", expected)
    return choice.at - 1


ELSE = "a head that is linear, with activations between, in one token of the last hidden state"


def _same(rows: Tensor, row: Tensor, reads: int | None) -> int:
    """Which of the tokens (1, tokens, width) a head has read, (1, width).

    reads: the one that its class tells, which decides where several tokens are equal.
    """
    found = (double(rows)[0] == double(row)).all(-1).nonzero()[:, 0].tolist()
    require(len(found) > 0, "scalar", "a head that reads no single token", ELSE)
    given = f"a head that read one of {len(found)} equal tokens"
    require(len(found) == 1 or reads in found, "scalar", given, "a text that tells which")
    return found[0] if len(found) == 1 or reads is None else reads


def _at(x: Tensor, token: int) -> Tensor:
    """One token of (1, tokens, width), or all of (1, width), as (1, 1, width)."""
    return x[:, token : token + 1] if x.ndim == 3 else x[:, None]


def _steps(
    calls: Calls, token: int, indices: list[int], hidden: Tensor, logits: Tensor
) -> list[Step]:
    """The head at its token, (1, 1, width) to the entries that are wanted."""
    steps: list[Step] = []
    x = hidden
    for number, (module, call) in enumerate(calls):
        given, out = (_at(part, token) for part in (call.input, call.outputs[0]))
        same = given.shape == x.shape
        require(same and (number > 0 or bool((given == x).all())), "scalar", "another head", ELSE)
        if not bool((given == x).all()):
            _require_activation(calls[number - 1][1].outputs[0], call.input, token)
            gate = Gate(quotient(double(given), double(x)))
            steps.append(Step("gates", [gate], double(given), unit_roundoff(given.dtype)))
        # Of a last map onto a whole vocabulary only the entries that are wanted.
        entries: list[int] | slice = indices if number == len(calls) - 1 else slice(None)
        seen = double(out[..., entries])
        steps.append(Step("head", [_map(module, given, entries)], seen, unit_roundoff(out.dtype)))
        x = out
    linear = isinstance(calls[-1][0], nn.Linear)
    good = linear and x.shape == logits.shape and bool((x == logits).all())
    capped = "a head that changes what its last linear map gives (a soft cap, a scale)"
    require(good, "scalar", capped, ELSE)
    return steps


def _require_activation(x: Tensor, given: Tensor, token: int) -> None:
    """Raise InputError unless given = f(x) for an activation f with f(0) = 0, to the last bit.

    x, given (1, tokens, width) or (1, width), compared at the token. The last bit of f may depend
    on the place of an entry in its array, so f is taken of the whole where it has that shape. A
    sum with something else, a scale or a shift is no function of that list: a gate would hide that
    the number also comes through another path.
    """
    from transformers.activations import ACT2FN

    named = (ACT2FN[name] for name in ACT2FN if name not in ("prelu", "xielu"))
    vanishing = (f for f in named if not bool(f(x.new_zeros(1)).any()))
    x, at = (x, token) if x.shape == given.shape else (_at(x, token), 0)
    given = _at(given, token)
    what = "a head with more than an activation between two maps (a sum, a shift, a sigmoid)"
    good = any(bool((_at(f(x), at) == given).all()) for f in vanishing)
    require(good, "scalar", what, f"{ELSE}: of transformers' activations one that is 0 at 0")


def _map(module: nn.Module, x: Tensor, entries: list[int] | slice) -> Dense | Norm:
    """A linear map onto some of its entries, or a norm at x (1, 1, width)."""
    if isinstance(module, nn.LayerNorm):
        return Norm.at(double(x), module.eps, True, *affine(module))
    weight: Any = module.weight
    bias: Any = module.bias
    return Dense(double(weight[entries]).mT, 0.0 if bias is None else double(bias[entries]))
