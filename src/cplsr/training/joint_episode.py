"""One base episode: its rotated N-way episodes, each joined with a pseudo-episode, and their loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.episodes.prototypes import accuracy, cosine_logits, episode_loss, prototypes, query_targets
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.reservation.pseudo_episodes import PseudoEpisode, numbered_generator
from cplsr.reservation.rotation import split_rotated_episode
from cplsr.settings.episodes import PrototypeKind
from cplsr.training.base_images import BaseImages

SPLITS = 2**32 + 2
"""A stream of random words of its own for dealing rotated classes into episodes."""


@dataclass(frozen=True, eq=False)
class EpisodePlan:
    """Which images an N-way episode takes, support before query, and how often each class is turned."""

    images: Int64[ndarray, "way shot_and_query"]
    turns: tuple[int, ...]

    def pixels(self, source: BaseImages) -> UInt8[Tensor, "images 3 size size"]:
        """The images, class by class, turned."""
        plain = source.take(self.images).unflatten(0, self.images.shape)
        turned = [torch.rot90(part, turn, dims=(-2, -1)) for part, turn in zip(plain, self.turns, strict=True)]
        return torch.cat(turned)


def plan_base_episode(sampler: EpisodeSampler, number: int, *, sst: bool, seed: int) -> list[EpisodePlan]:
    """Base episode `number`: four disjoint N-way episodes of its rotated classes, or without SST itself alone.

    It depends on the labels, the seed and the number only, so that a run goes on where it stopped.
    """
    drawn = sampler.draw(1, first=number)
    images = np.concatenate([drawn.support[0], drawn.query[0]], axis=1)
    if not sst:
        return [EpisodePlan(images, (0,) * sampler.way)]
    deal = split_rotated_episode(sampler.way, generator=numbered_generator(seed, number, stream=SPLITS))
    return [EpisodePlan(images[row % sampler.way], tuple((row // sampler.way).tolist())) for row in deal.numpy()]


def joint_loss(
    embeddings: Float[Tensor, "way shot_and_query dim"],
    shot: int,
    pseudo: PseudoEpisode | None,
    *,
    temperature: float,
    prototype: PrototypeKind = "mean",
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Cross-entropy of all queries, real and pseudo, over all 2N prototypes; and the accuracy of the real ones.

    Without a pseudo-episode it is the plain prototype loss over N classes. Pseudo-embeddings are constants: they act by
    pushing the real ones.
    """
    way = len(embeddings)
    support, query = embeddings[:, :shot], embeddings[:, shot:]
    centers = prototypes(support, prototype)
    queries, targets = query.flatten(0, 1), query_targets(way, query.shape[1]).to(embeddings.device)
    real = len(queries)
    if pseudo is not None:
        more, asked = (part.to(embeddings) for part in (pseudo.support, pseudo.query))
        centers = torch.cat([centers, prototypes(more, prototype)])
        queries = torch.cat([queries, asked.flatten(0, 1)])
        targets = torch.cat([targets, way + query_targets(*asked.shape[:2]).to(targets)])
    logits = cosine_logits(queries, centers, temperature)
    return episode_loss(logits, targets), accuracy(logits[:real].detach(), targets[:real])
