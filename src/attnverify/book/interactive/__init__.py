"""Figures that a reader moves: self-contained, for notebooks and built pages.

Each is a description (``figure.Figure``) in a module of its own, with a script of the same name. It
is imported when it is first used: a chapter depends on the figures that it shows alone.

>>> import attnverify as av
>>> figure = av.interactive.lengths_figure()
>>> "<svg" in figure._repr_html_()
True
"""

from typing import TYPE_CHECKING

from attnverify.support.lazy import attributes

if TYPE_CHECKING:
    from attnverify.book.interactive.covariance import covariance_figure as covariance_figure
    from attnverify.book.interactive.depth import depth_figure as depth_figure
    from attnverify.book.interactive.heads import heads_figure as heads_figure
    from attnverify.book.interactive.lengths import lengths_figure as lengths_figure
    from attnverify.book.interactive.limit import limit_figure as limit_figure
    from attnverify.book.interactive.masks import masks_figure as masks_figure
    from attnverify.book.interactive.models import models_figure as models_figure
    from attnverify.book.interactive.rotary import rotary_figure as rotary_figure
    from attnverify.book.interactive.tokens import tokens_figure as tokens_figure
    from attnverify.book.interactive.two_tokens import map_figure as map_figure
    from attnverify.book.interactive.variation import variation_figure as variation_figure

MODULES = "covariance depth heads lengths limit masks models rotary tokens variation".split()
PUBLIC = {f"{name}_figure": f"{__name__}.{name}:{name}_figure" for name in MODULES}
PUBLIC["map_figure"] = f"{__name__}.two_tokens:map_figure"
__getattr__, __dir__ = attributes(__name__, PUBLIC)
