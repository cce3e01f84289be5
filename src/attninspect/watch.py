"""Watch the attention of a model while it trains: one measured forward pass every so many steps.

A measured step runs the model once on one text, without gradients and without dropout, and writes
for each layer and head what a change of the query-key matrix can still do: the gauge
P (1 - P) diam^2 of claim ``training.covariance``, and its two factors. P is the largest weight of a
row, or 1/2 if that is larger, and diam the diameter of the tokens that the row sees. By claim
``training.loss-gradient`` the gradient of the query-key matrix is at most a sum of gauges, times
the lengths of queries and of gradients from above, which are not measured. With rotary positions or
norms of queries and keys there is no such matrix, and a gauge only describes. Between measured
steps nothing happens, and the training is the same to the last bit.

What is measured are facts about one text. Nothing here is an alarm that a theorem proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attninspect.architecture import Architecture, Attention
from attninspect.families import architecture_of
from attninspect.modules import unwrapped, with_weights
from attninspect.record import HIDDEN
from attninspect.watch_log import Log, Measured
from attnverify.mathematics.gauges import Layer, layer_of
from attnverify.support.errors import InputError, require

#: What a forward pass may be given; labels are left out, since the head of the model is.
INPUTS = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
    "pixel_values",
)


class Watch:
    """Measures a model every so many steps of its training.

    model: a module of ``transformers`` of a family in ``attninspect.families.FAMILIES``
    or a ``torch.nn.TransformerEncoder``, also inside ``torch.compile`` or a wrapper with an
    attribute ``module``. log: a file of JSON lines, made or gone on with; a step that it has is not
    measured again, so each training needs its own; None keeps records in memory alone. every: steps
    from one measurement to the next. tokens: of the text at most. writer: gets the means over heads
    as well, by ``add_scalar(name, value, step)``, as the ``SummaryWriter`` of
    ``torch.utils.tensorboard`` has it.

    Raises InputError for a model that cannot be read, and for a log of another model.

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> watch = av.Watch(model, every=10)
    >>> found = [watch.step(step, torch.randn(4, 5, 8)) for step in range(20)]
    >>> [record.step for record in found if record]
    [0, 10]
    >>> found[0].gauges().shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        log: str | Path | None = None,
        every: int = 100,
        tokens: int = 512,
        writer: Any = None,
    ) -> None:
        require(isinstance(every, int) and every >= 1, "every", every, "a number of steps >= 1")
        require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
        self.model = inner(model)
        given = type(writer).__name__
        expected = "an object with add_scalar(name, value, step)"
        require(writer is None or hasattr(writer, "add_scalar"), "writer", given, expected)
        self.every, self.tokens, self.writer = every, tokens, writer
        architecture = architecture_of(self.model)
        attention = attention_of(architecture)
        given = "attention with sinks, for which claim training.covariance has no gauge"
        require(all(each.sinks is None for each in attention), "model", given, "it without")
        self._turned, self._layers = architecture.tokens_first, len(architecture.layers)
        self._modules = [each.module for each in attention]  # and no copies of weights
        self._heads = [each.heads for each in attention]
        self._log = None if log is None else Log(Path(log), self._words())
        self.records: list[Measured] = list(self._log.records) if self._log else []
        self._known = {record.step for record in self.records}

    def step(self, step: int, batch: Any) -> Measured | None:
        """Measure if the step is a multiple of ``every`` and not in the log; else return None.

        batch: token ids (batch, tokens), embeddings (batch, tokens, width), or the keyword
        arguments of the model; its first text is used. Call it after the optimizer's step or
        before, but always at the same place.
        """
        if step % self.every or step in self._known:
            return None
        found = Measured(
            step, tuple(self._measured(arguments_of(self.model, batch, 1, self.tokens)))
        )
        if self._log:
            self._log.add(found)
        self.records.append(found)
        self._known.add(step)
        if self.writer:
            for name, value in found.scalars().items():
                self.writer.add_scalar(name, value, step)
        return found

    def trainer_callback(self, batch: Any) -> Any:
        """A callback for ``transformers.Trainer`` that measures this batch after its steps.

        One batch for the whole run, so that figures of different steps are of the same text.
        """
        from transformers import TrainerCallback

        watch = self

        class Callback(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                self.on_step_end(args, state, control)

            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if state.is_world_process_zero:
                    watch.step(state.global_step, batch)

        return Callback()

    def lightning_callback(self, batch: Any) -> Any:
        """The same for ``lightning.Trainer``."""
        from lightning.pytorch import Callback as LightningCallback

        watch, measured = self, batch

        class Callback(LightningCallback):
            def on_train_start(self, trainer: Any, pl_module: Any) -> None:
                if trainer.is_global_zero:
                    watch.step(trainer.global_step, measured)

            def on_train_batch_end(
                self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
            ) -> None:
                self.on_train_start(trainer, pl_module)

        return Callback()

    def fallen(self, share: float = 0.01) -> list[tuple[int, int, float]]:
        """Heads whose gauge fell below this share of what it was in the first record.

        Pairs of layer and head, counted from 1, with the quotient. The share is a choice: a small
        gauge bounds the gradient of the head's query-key matrix, and says nothing about the loss.
        """
        require(0 < share < 1, "share", share, "a number between 0 and 1, of the first gauge")
        if len(self.records) < 2:
            return []
        quotient = self.records[-1].gauges() / self.records[0].gauges()
        below = (quotient < share).nonzero().tolist()
        return [(i + 1, h + 1, float(quotient[i, h])) for i, h in below]

    def _words(self) -> dict[str, Any]:
        """What tells one model from another."""
        return {
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "layers": self._layers,
            "heads": self._heads,
        }

    def _measured(self, arguments: dict[str, Any]) -> list[Layer]:
        found: list[Layer] = []
        valid = arguments.get("attention_mask")

        def look(module: nn.Module, x: Tensor, P: Tensor | None) -> None:
            if P is None:
                raise InputError(HIDDEN.format(type(module).__name__))
            found.append(layer_of(x[0].double(), P[0].double(), valid))

        run_still(self.model, self._modules, self._turned, arguments, after=look)
        require(
            len(found) == self._layers,
            "model",
            f"{len(found)} calls of attention",
            f"{self._layers}, one a layer",
        )
        return found


def inner(model: Any) -> nn.Module:
    """The model without its head, inside ``torch.compile`` and other wrappers."""
    model = unwrapped(model)
    return getattr(model, "base_model", model)


def attention_of(architecture: Architecture) -> list[Attention]:
    """The attention of each distinct layer."""
    found = {}
    for layer in architecture.layers:
        for block in architecture.blocks(layer):
            for _, body in block.branches:
                if isinstance(body, Attention):
                    found[id(body.module)] = body
    return list(found.values())


def arguments_of(
    model: nn.Module, batch: Any, texts: int | None, tokens: int | None
) -> dict[str, Any]:
    """Arguments for the first texts of a batch, so many tokens of each at most; None: all.

    A tensor has the name "".
    """
    if isinstance(batch, Mapping):
        taken = signature(model.forward).parameters
        kept = {name: batch[name] for name in INPUTS if name in batch and name in taken}
        got = ", ".join(map(str, batch)) or "nothing"
        require(bool(kept), "batch", got, f"some of {', '.join(INPUTS)}")
        images = "pixel_values" in kept
        return {name: v[:texts] if images else v[:texts, :tokens] for name, v in kept.items()}
    given = f"{type(batch).__name__} of shape {tuple(getattr(batch, 'shape', ()))}"
    expected = "(batch, tokens) or (batch, tokens, width)"
    require(isinstance(batch, Tensor) and batch.ndim in (2, 3), "batch", given, expected)
    return {"": batch[:texts, :tokens]}


#: Told of each attention module and its input (batch, tokens, width) before it runs.
Before = Callable[[nn.Module, Tensor], None]
#: The same after it ran, with its weights (batch, heads, tokens, tokens) or None.
After = Callable[[nn.Module, Tensor, Tensor | None], None]


def run_still(
    model: nn.Module,
    modules: Sequence[nn.Module],
    turned: bool,
    arguments: dict[str, Any],
    before: Before | None = None,
    after: After | None = None,
) -> None:
    """Run the model once without dropout and gradients, and tell of these attention modules.

    turned: the model takes (tokens, batch, width), and so do its modules.
    ``after`` has attention show its matrices, for which it may run in another kernel. Everything is
    as it was afterwards, the state of the random numbers included.
    """

    def tokens(args: Any, kwargs: Any) -> Tensor:
        x = args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values())))
        return x.transpose(0, 1) if turned else x

    def first(module: nn.Module, args: Any, kwargs: Any) -> None:
        if before:
            before(module, tokens(args, kwargs))

    def last(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        P = output[-1] if isinstance(output, tuple) and len(output) > 1 else None
        if after:
            after(module, tokens(args, kwargs), P if isinstance(P, Tensor) else None)

    with ExitStack() as stack:
        stack.enter_context(_still(model, weights=after is not None))
        for module in modules:
            if after and isinstance(module, nn.MultiheadAttention):
                shown = module.register_forward_pre_hook(with_weights, with_kwargs=True)
                stack.callback(shown.remove)
            stack.callback(module.register_forward_pre_hook(first, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(last, with_kwargs=True).remove)
        if "" in arguments:
            model(arguments[""].transpose(0, 1) if turned else arguments[""])
        else:
            model(**arguments)


@contextmanager
def _still(model: Any, weights: bool) -> Iterator[None]:
    """The model without dropout and gradients, and with attention that has its matrices."""
    training = [part for part in model.modules() if part.training]
    choose = getattr(model, "set_attn_implementation", None)
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    device = next(model.parameters()).device
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        if weights and choose is not None and before not in (None, "eager"):
            stack.callback(choose, before)
            choose("eager")
        model.eval()
        try:
            yield
        finally:
            for part in training:
                part.training = True
