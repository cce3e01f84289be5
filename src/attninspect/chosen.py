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
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attninspect.ablate import Ablation
from attninspect.families import architecture_of
from attninspect.path_table import NODES, require_paths
from attninspect.record import Calls, affine, quotient
from attninspect.scalar import Number
from attninspect.trace import Step, double, unit_roundoff
from attnverify.mathematics.maps import Dense, Gate, Norm
from attnverify.support.errors import InputError, nearest, require, shown

KINDS = ("logit", "class", "coordinate")
TOP = 5  # of the logits, for the reader
NUMBER = re.compile(r"#[0-9]{1,9}", re.ASCII)
EXPECTED = (
    'one of {"logit": TOKEN}, {"class": NAME} and {"coordinate": I}, with "against": TOKEN or NAME '
    'and "at": POSITION where wanted'
)


Names = Callable[[Sequence[int]], list[str | None]]


@dataclass(frozen=True)
class Choice:
    """kind: of KINDS; of, against: a token, a class, a coordinate; at: a position, from 1.

    paths: how many of the largest, from a search that opens at most so many nodes; ablation: how
    heads are removed. :meth:`of_model` adds the entries of logits, or of the last hidden state,
    that it stands for, and what entries are called.
    """

    kind: str
    of: int | str
    against: int | str | None = None
    at: int | None = None
    paths: int | None = None
    nodes: int = NODES
    ablation: Ablation | None = None
    indices: list[int] = field(default_factory=list)
    names: Names = lambda ids: [None] * len(ids)

    @classmethod
    def of_options(
        cls,
        scalar: Any,
        paths: Any = None,
        nodes: Any = None,
        ablate: Any = None,
        seed: Any = 0,
    ) -> Choice | None:
        """What the options of ``av.inspect`` ask for, checked; None without ``scalar``."""
        choice = None if scalar is None else cls._of_scalar(scalar)
        require_paths(paths, nodes, choice is not None)
        ablation = None if ablate is None else Ablation.of(ablate, seed)
        numbered = "a number beside it: scalar, in the command --logit, --class or --coordinate"
        require(ablation is None or choice is not None, "ablate", f"{ablate!r} alone", numbered)
        return choice and replace(choice, paths=paths, nodes=nodes or NODES, ablation=ablation)

    @classmethod
    def _of_scalar(cls, scalar: Any) -> Choice:
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

    def of_model(self, model: Any, folder: Any = None) -> Choice:
        """The choice for a model; folder: where it was read from, whose tokenizer names tokens."""
        self._require_head(model)
        found = replace(self, indices=self.entries(model, folder and folder.tokens))
        if self.kind == "class":
            labels: Mapping[int, str] = model.config.id2label
            return replace(found, names=lambda ids: [labels.get(index) for index in ids])
        return replace(found, names=folder.names) if folder and self.kind == "logit" else found

    def entries(self, model: Any, tokens: Callable[[Sequence[str]], list[int]] | None) -> list[int]:
        """The entries that the names stand for; tokens: the tokenizer, if there is one."""
        names = [self.of] if self.against is None else [self.of, self.against]
        return [self._index(name, model, tokens) for name in names]

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

    def _require_head(self, model: Any) -> None:
        """Raise InputError unless the model has a head of the kind, where one is needed."""
        if self.kind == "coordinate":
            return
        name = type(model).__name__
        words = getattr(model, "get_output_embeddings", lambda: None)() is not None
        bare = getattr(model, "base_model", model) is model
        of = {"logit": "tokens, as AutoModelForCausalLM", "class": "classes"}[self.kind]
        good = not bare and words == (self.kind == "logit")
        instead = f"a model with a head over {of}; a coordinate needs no head"
        require(good, "scalar", f"{self.kind} for {name}, which has no such head", instead)

    def facts(self, number: Number, scores: Tensor, causal: bool) -> dict[str, Any]:
        """The number in words, its value and place, and the largest logits beside it.

        scores: all logits at the token, none for a coordinate; causal: whether they are those of
        the next token.
        """
        said = [self._said(index) for index in self.indices]
        name = f"{self.kind} {' minus '.join(said)}"
        where = f"{name} of the last hidden state"
        name = where if self.kind == "coordinate" else f"logit of {name}"
        top = scores.topk(min(TOP, len(scores))).indices.tolist()
        behind = {"logit": "next tokens" if causal else "tokens", "class": "classes"}
        return {
            "name": name.replace("logit of logit", "logit of token"),
            "value": number.value,
            "position": number.token + 1,
            "of": behind.get(self.kind),
            "top": [
                {"index": index, "name": word, "logit": float(scores[index])}
                for index, word in zip(top, self.names(top) if top else [], strict=True)
            ],
        }

    def _said(self, index: int) -> str:
        (name,) = (None,) if self.kind == "coordinate" else self.names([index])
        return str(index) if name is None else f"{name!r} (#{index})"


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
    choice: Choice,
    hidden: Tensor,
    valid: Tensor,
    calls: Calls,
    logits: Tensor | None,
    reads: int | None = None,
    cap: float | None = None,
) -> tuple[Number, Tensor]:
    """The number in a run whose last hidden state is ``hidden``, and all logits at its token.

    hidden (1, tokens, width), valid (1, tokens); calls: of the linear maps and norms behind the
    last layer; logits: what the model returned; reads: the token that its head reads, where its
    class tells; cap: of logits. Raises InputError (argument ``scalar``).
    """
    indices = choice.indices
    weights = torch.tensor([1.0, -1.0][: len(indices)], dtype=torch.float64, device=hidden.device)
    if choice.kind == "coordinate":
        _require_indices(choice, indices, hidden.shape[-1])
        token, columns = position(choice, valid), hidden.new_zeros(hidden.shape[-1])
        columns[indices] = weights
        return Number(hidden, token, [], columns), hidden.new_zeros(0)
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
    return Number(hidden, token, steps, weights), double(scores[0, 0])


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
