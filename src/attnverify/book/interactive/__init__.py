"""Figures that a reader moves: self-contained, for notebooks and built pages.

Each is a description (``figure.Figure``) in a module of its own,
with a script of the same name.

>>> import attnverify as av
>>> figure = av.interactive.lengths_figure()
>>> "<svg" in figure._repr_html_()
True
"""

from attnverify.book.interactive.covariance import covariance_figure
from attnverify.book.interactive.depth import depth_figure
from attnverify.book.interactive.heads import heads_figure
from attnverify.book.interactive.lengths import lengths_figure
from attnverify.book.interactive.limit import limit_figure
from attnverify.book.interactive.masks import masks_figure
from attnverify.book.interactive.models import models_figure
from attnverify.book.interactive.rotary import rotary_figure
from attnverify.book.interactive.tokens import tokens_figure
from attnverify.book.interactive.two_tokens import map_figure
from attnverify.book.interactive.variation import variation_figure

#: A chapter shows some of them (:mod:`attnverify.runtime.source_dependencies`).
LOOKED_UP_BY_NAME = True

__all__ = [
    "covariance_figure",
    "depth_figure",
    "heads_figure",
    "lengths_figure",
    "limit_figure",
    "map_figure",
    "masks_figure",
    "models_figure",
    "rotary_figure",
    "tokens_figure",
    "variation_figure",
]
