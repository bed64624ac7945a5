"""Accuracy on validation classes: fixed episodes, of turned images where these are trained on, no pseudo-classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages
from cplsr.data.domain import Domain
from cplsr.episodes.heads import Head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.sampling import Episodes
from cplsr.episodes.streams import Stream, philox_words
from cplsr.errors import InputError
from cplsr.evaluation.embed import embed_turned
from cplsr.evaluation.intervals import mean_interval
from cplsr.evaluation.scoring import Scoring
from cplsr.processes import Processes
from cplsr.records.estimate import Estimate
from cplsr.settings.training import TrainingSettings
from cplsr.training.episode_plan import base_sampler, plan_base_episode

HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class Validation:
    """Validation images and the fixed episodes over their turns: image i turned j times is row j · images + i."""

    images: DecodedImages
    episodes: Episodes
    head: Head
    turns: int

    @classmethod
    def of(cls, images: DecodedImages, settings: TrainingSettings) -> Validation:
        """Plan `validation_episodes` N-way episodes like those of training; with SST each draw gives four."""
        head = Ridge() if settings.head == "ridge" else Prototypes(settings.prototype)
        sampler = base_sampler(images.labels, settings)
        turns = settings.turns_per_class
        plans = [
            plan
            for number in range(settings.validation_episodes // turns)
            for plan in plan_base_episode(sampler, number, sst=settings.turned_classes)
        ]
        turned = np.array([plan.turns for plan in plans])
        rows = np.stack([plan.images for plan in plans]) + len(images) * turned[..., None]
        classes = images.labels[rows[..., 0] % len(images)] + len(images.classes) * turned
        episodes = Episodes(rows[..., : settings.shot], rows[..., settings.shot :], classes)
        return cls(images, episodes, head, turns)

    @property
    def fingerprint(self) -> str:
        """Hash of the episodes, to show that two runs were validated on the same ones."""
        digest = hashlib.sha256(self.episodes.support.astype("<i8").tobytes())
        digest.update(self.episodes.query.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def accuracy(self, backbone: Backbone, processes: Processes) -> Estimate:
        """Measure the mean accuracy in percent with its interval; every image is embedded once in each turn."""
        rows = embed_turned(backbone, self.images, np.arange(len(self.images)), self.turns, processes)
        return mean_interval(100 * Scoring(rows).accuracies(self.episodes, self.head))


def hold_out_classes(domain: Domain, *, way: int, seed: int) -> tuple[Domain, Domain]:
    """Split a domain by class: 80 % to train on and 20 % (at least `way`) to validate on, by the seed."""
    count = len(domain.classes)
    held = max(way, round(HELD_OUT * count))
    if count - held < way:
        raise InputError(
            f"{domain.name} has {count} classes; {way}-way training with {held} of them held out for validation needs "
            f"{held + way}: give --val another folder, add classes, or lower --way"
        )
    random_keys = philox_words(seed, 1, count, stream=Stream.HELD_OUT_CLASSES)[0]
    validation = {domain.classes[label] for label in np.argsort(random_keys, kind="stable")[:held]}
    return (
        domain.only_classes([name for name in domain.classes if name not in validation]),
        domain.only_classes([name for name in domain.classes if name in validation]),
    )
