"""What an analysis looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from cplsr.declared import Declared, between
from cplsr.settings.numbers import Images, Seed, Way


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings(Declared):
    """Which images are looked at, and what is measured beyond spread, bound and entropy."""

    images_per_class: Annotated[int, between(2, 10_000_000)] | None = 100
    """At most so many images of each class; `None` takes all."""
    shots: Annotated[tuple[Images, ...], msgspec.Meta(min_length=1)] = (1, 5)
    """Support images of each class, in the terms of the bound."""
    way: Way = 5
    """Classes in an episode, in the terms of the bound."""
    seed: Seed = 0
    """Which images are drawn."""
    umap: bool = False
    """Also embeddings in two dimensions before and after, as in the paper (needs cplsr[viz])."""
    attention_images: Annotated[int, between(0, 10_000)] = 0
    """Of so many images of each domain, a picture of what the class token looks at."""
    entropy_images: Annotated[int, between(1, 10_000)] = 32
    """Over so many images of each domain the entropy of attention is averaged."""
    cost: bool = False
    """Also what adapters cost at several image sizes, timed on this machine (a minute or two)."""
