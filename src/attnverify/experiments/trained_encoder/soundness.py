"""Models that nothing can be measured on are refused by name, before they are measured.

Zero weights make attention uniform or its output constant, and the rest of the table then says
nothing about the model; weights beyond LARGEST or below SMALLEST make products over- or underflow,
and a criterion would be met by an artifact of floats. A layer multiplies four matrices, so its
figures stay within SMALLEST^4 and (width LARGEST)^4, and their squares too, all far inside the
range of float64.
"""

from __future__ import annotations

from torch import Tensor

from attnverify.experiments.engine.model import Settings
from attnverify.mathematics.encoder import Encoder
from attnverify.support.errors import require, require_finite

SMALLEST, LARGEST = 1e-6, 1e6  # of the largest entry of a matrix
MATRICES = ("W_Q", "W_K", "W_V", "W_O")


def require_sound(encoder: Encoder) -> None:
    """Raise InputError (argument ``model``) for a degenerate encoder.

    One with equal embeddings for all words, with a head one of whose four matrices vanishes, with
    a layer norm that scales all to zero, or with entries beyond LARGEST.
    """
    for name, value in encoder.network.named_parameters():
        _require_moderate(name, value)
    for name in ("word", "position", "type", "scale", "shift"):
        _require_moderate(f"{name} embeddings", getattr(encoder, name))
    _require_some("word embeddings, which are all equal", encoder.word - encoder.word[0])
    _require_some("the layer norm of the embeddings, with scale zero", encoder.scale)
    for name in MATRICES:
        for layer, heads in enumerate(encoder.network.weights[name], 1):
            for head, matrix in enumerate(heads, 1):
                _require_some(f"{name} of layer {layer}, head {head}, which vanishes", matrix)
    for layer, both in enumerate((encoder.network.norm or {}).get("scale", ()), 1):
        for scale in both:
            _require_some(f"a layer norm of layer {layer}, with scale zero", scale)


def _require_moderate(name: str, value: Tensor) -> None:
    require_finite(f"model: {name}", value)
    largest = float(value.abs().max())
    require(largest <= LARGEST, "model", f"{name} up to {largest:.1e}", f"at most {LARGEST:g}")


def _require_some(what: str, value: Tensor) -> None:
    largest = float(value.abs().max())
    require(largest >= SMALLEST, "model", what, f"an entry of size {SMALLEST:g} or more")


def encoder_of(settings: Settings) -> Encoder:
    """The user's encoder if the settings name one, else the one of the book; on their device.

    Raises InputError for a degenerate one.
    """
    encoder = Encoder.from_directory(settings.model) if settings.model else Encoder.bundled()
    require_sound(encoder)
    encoder.network.to(settings.device)
    return encoder
