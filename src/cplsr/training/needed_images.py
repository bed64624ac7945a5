"""Which base images a run takes, before any of them is decoded."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from cplsr.settings.training import TrainingSettings
from cplsr.training.base_statistics import followed_images, statistics_images
from cplsr.training.episode_plan import base_sampler

PARTNERS = 2**31
"""Numbers from here on are of base episodes that stand beside others."""

MOST = 0.5
"""Where more than this share of the images is needed, all are decoded: other runs will need the rest."""


def needed_images(
    labels: Int64[ndarray, "images"], settings: TrainingSettings, *, partner: bool
) -> Int64[ndarray, "needed"] | None:
    """Images in the base episodes and in the statistics of a run, in order; `None` where it takes most of them.

    With `partner` every base episode has another beside it.
    """
    drawn = settings.episodes * settings.way * (settings.shot + settings.query) * (2 if partner else 1)
    if drawn >= len(labels):
        return None
    with warnings.catch_warnings(action="ignore"):  # of classes that are left out the run itself will warn
        sampler = base_sampler(labels, settings)
    episodes = [sampler.draw(settings.episodes, first=first) for first in ((0, PARTNERS) if partner else (0,))]
    needed = [part.reshape(-1) for drawn_ in episodes for part in (drawn_.support, drawn_.query)]
    if settings.pe:
        needed.append(statistics_images(labels, settings))
    if settings.pe and settings.follow:
        needed.append(followed_images(labels, settings))
    distinct = np.unique(np.concatenate(needed))
    return distinct if len(distinct) <= MOST * len(labels) else None
