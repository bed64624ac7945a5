"""Accuracy on validation classes: fixed episodes of rotated images, no pseudo-classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray

from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain
from cplsr.episodes.draws import philox_words
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation.intervals import Interval, mean_interval
from cplsr.evaluation.scoring import Scoring
from cplsr.reservation.pseudo_episodes import numbered_generator
from cplsr.reservation.rotation import split_rotated_episode
from cplsr.settings.episodes import PrototypeKind
from cplsr.settings.training import TURNS, TrainingSettings
from cplsr.training.base_images import BaseImages
from cplsr.training.joint_episode import SPLITS
from cplsr.training.processes import Processes

BATCH = 64
HELD_OUT = 0.2
CLASS_ORDER = 2**32 + 3
"""A stream of random words of its own for choosing the classes held out."""


@dataclass(frozen=True, eq=False)
class Validation:
    """Validation images and the fixed episodes over their four turns: image i turned j times is row j · images + i."""

    images: BaseImages
    episodes: Episodes
    prototype: PrototypeKind

    @classmethod
    def of(cls, images: BaseImages, settings: TrainingSettings) -> Validation:
        """`validation_episodes` N-way episodes: a quarter as many draws, each turned and dealt into four."""
        sampler = EpisodeSampler(
            images.labels, way=settings.way, shot=settings.shot, query=settings.query, seed=settings.seed
        )
        draws = sampler.draw(settings.validation_episodes // TURNS)
        support, query, classes = [], [], []
        for number in range(len(draws)):
            deal = split_rotated_episode(
                settings.way, generator=numbered_generator(settings.seed, number, stream=SPLITS)
            ).numpy()
            place, shift = deal % settings.way, (deal // settings.way) * len(images)
            support.append(draws.support[number][place] + shift[..., None])
            query.append(draws.query[number][place] + shift[..., None])
            classes.append(deal)
        episodes = Episodes(np.concatenate(support), np.concatenate(query), np.concatenate(classes))
        return cls(images, episodes, settings.prototype)

    @property
    def fingerprint(self) -> str:
        """Hash of the episodes, to show that two runs were validated on the same ones."""
        digest = hashlib.sha256(self.episodes.support.astype("<i8").tobytes())
        digest.update(self.episodes.query.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def accuracy(self, backbone: Backbone, processes: Processes) -> Interval:
        """Mean accuracy in percent with its interval; every image is embedded once, whatever the episodes."""
        vectors = self._embed(backbone, processes)
        shares = Scoring(vectors).accuracies(self.episodes, Prototypes(self.prototype))
        return mean_interval(100 * shares)

    def _embed(self, backbone: Backbone, processes: Processes) -> Float32[ndarray, "turned dim"]:
        count = len(self.images)
        starts = [(turn, start) for turn in range(TURNS) for start in range(0, count, BATCH)]
        found = {}
        with torch.inference_mode():
            for turn, start in processes.share(starts):
                pixels = self.images.take(np.arange(start, min(start + BATCH, count)))
                found[turn, start] = backbone(torch.rot90(pixels, turn, dims=(-2, -1))).float().cpu().numpy()
        for part in processes.gather(found):
            found |= part
        return np.concatenate([found[place] for place in starts])


def hold_out_classes(domain: Domain, *, way: int, seed: int) -> tuple[Domain, Domain]:
    """Split a domain by class: 80 % to train on and 20 % (at least `way`) to validate on, by the seed."""
    count = len(domain.classes)
    held = max(way, round(HELD_OUT * count))
    if count - held < way:
        raise InputError(
            f"{domain.name} has {count} classes; {way}-way training with {held} of them held out for validation needs "
            f"{held + way}: give --val another folder, add classes, or lower --way"
        )
    words = philox_words(seed, 1, count, stream=CLASS_ORDER)[0]
    order = np.argsort(words, kind="stable")
    names = [domain.classes[place] for place in range(count)]
    validation = {names[place] for place in order[:held]}
    return (
        domain.only_classes([name for name in names if name not in validation]),
        domain.only_classes([name for name in names if name in validation]),
    )
