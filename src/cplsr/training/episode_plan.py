"""Which base images a run takes, and how the N-way episodes of its base episodes hold and turn them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.data.augment import augmented
from cplsr.data.decoded_images import DecodedImages
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.settings.training import TURNS, Augment, TrainingSettings
from cplsr.training.base_statistics import statistics_images

PARTNERS = 2**31
"""Numbers from here on are of base episodes that stand beside others."""

MOST = 0.5
"""Where more than this share of the images is needed, all are decoded: other runs will need the rest."""


@dataclass(frozen=True, eq=False)
class EpisodePlan:
    """Which images an N-way episode takes, support before query, and how often each class is turned."""

    images: Int64[ndarray, "way shot_and_query"]
    turns: tuple[int, ...]

    def pixels(
        self, source: DecodedImages, augment: Augment, generator: torch.Generator
    ) -> UInt8[Tensor, "images 3 size size"]:
        """Copy the images, class by class, change them at random, and turn them.

        They are changed before they are turned: a flip afterwards would make a quarter turn one to the other side,
        which is another class. Each copy is changed on its own, so no two turned classes show the same view.
        """
        plain = augmented(source.take(self.images), augment, generator).unflatten(0, self.images.shape)
        turned = [torch.rot90(part, turn, dims=(-2, -1)) for part, turn in zip(plain, self.turns, strict=True)]
        return torch.cat(turned)


def split_rotated_episode(way: int, *, generator: torch.Generator) -> Int64[Tensor, "4 way"]:
    """Deal the 4N classes of a rotated N-way episode into 4 disjoint N-way episodes at random.

    Entry c is base class c mod N of the episode, turned c div N times counter-clockwise.
    """
    return torch.randperm(TURNS * way, generator=generator).view(TURNS, way)


def base_sampler(labels: Int64[ndarray, "images"], settings: TrainingSettings) -> EpisodeSampler:
    """What draws the base episodes of a run, and in the same way those of its validation."""
    return EpisodeSampler(labels, way=settings.way, shot=settings.shot, query=settings.query, seed=settings.seed)


def plan_base_episode(sampler: EpisodeSampler, number: int, *, sst: bool) -> list[EpisodePlan]:
    """Plan base episode `number`: four disjoint N-way episodes of its rotated classes, or without SST itself alone.

    It depends on the labels, the sampler's seed and the number only, so that a run goes on where it stopped.
    """
    drawn = sampler.draw(1, first=number)
    images = np.concatenate([drawn.support[0], drawn.query[0]], axis=1)
    if not sst:
        return [EpisodePlan(images, (0,) * sampler.way)]
    deal = split_rotated_episode(sampler.way, generator=numbered_generator(sampler.seed, number, Stream.SPLITS))
    return [EpisodePlan(images[row % sampler.way], tuple((row // sampler.way).tolist())) for row in deal.numpy()]


def images_of_episode(settings: TrainingSettings, *, partner: bool) -> int:
    """How many images a base episode has, with those of the episode beside it."""
    return settings.way * (settings.shot + settings.query) * (2 if partner else 1)


def needed_images(
    labels: Int64[ndarray, "images"], settings: TrainingSettings, *, partner: bool
) -> Int64[ndarray, "needed"] | None:
    """Images in the base episodes and in the statistics of a run, in order; `None` where it takes most of them.

    With `partner` every base episode has another beside it.
    """
    if settings.episodes * images_of_episode(settings, partner=partner) >= len(labels):
        return None
    with warnings.catch_warnings(action="ignore"):  # of classes that are left out the run itself will warn
        sampler = base_sampler(labels, settings)
    episodes = [sampler.draw(settings.episodes, first=first) for first in ((0, PARTNERS) if partner else (0,))]
    needed = [part.reshape(-1) for drawn_ in episodes for part in (drawn_.support, drawn_.query)]
    if settings.pe:
        needed.append(statistics_images(labels, settings.statistics_images))
    distinct = np.unique(np.concatenate(needed))
    return distinct if len(distinct) <= MOST * len(labels) else None
