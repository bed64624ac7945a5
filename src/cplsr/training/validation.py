"""Accuracy on validation classes: fixed episodes, of turned images where these are trained on, no pseudo-classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages
from cplsr.data.domain import Domain
from cplsr.episodes.draws import philox_words
from cplsr.episodes.heads import Head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.evaluation.embed import embed_decoded
from cplsr.evaluation.intervals import mean_interval
from cplsr.evaluation.scoring import Scoring
from cplsr.processes import Processes
from cplsr.records.estimate import Estimate
from cplsr.settings.training import TURNS, TrainingSettings
from cplsr.training.episode_plan import split_rotated_episode

BATCH = 64
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
        """Draw `validation_episodes` N-way episodes; with SST a quarter as many, each turned and dealt into four."""
        head = Ridge() if settings.head == "ridge" else Prototypes(settings.prototype)
        sampler = EpisodeSampler(
            images.labels, way=settings.way, shot=settings.shot, query=settings.query, seed=settings.seed
        )
        if not settings.turned_classes:
            return cls(images, sampler.draw(settings.validation_episodes), head, turns=1)
        draws = sampler.draw(settings.validation_episodes // TURNS)
        support, query, classes = [], [], []
        for number in range(len(draws)):
            deal = split_rotated_episode(
                settings.way, generator=numbered_generator(settings.seed, number, Stream.SPLITS)
            ).numpy()
            plain, shift = deal % settings.way, (deal // settings.way) * len(images)
            support.append(draws.support[number][plain] + shift[..., None])
            query.append(draws.query[number][plain] + shift[..., None])
            classes.append(deal)
        episodes = Episodes(np.concatenate(support), np.concatenate(query), np.concatenate(classes))
        return cls(images, episodes, head, TURNS)

    @property
    def fingerprint(self) -> str:
        """Hash of the episodes, to show that two runs were validated on the same ones."""
        digest = hashlib.sha256(self.episodes.support.astype("<i8").tobytes())
        digest.update(self.episodes.query.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def accuracy(self, backbone: Backbone, processes: Processes) -> Estimate:
        """Measure the mean accuracy in percent with its interval; every image is embedded once in each turn."""
        batches = np.split(np.arange(len(self.images)), range(BATCH, len(self.images), BATCH))
        turned = [(turn, batch) for turn in range(self.turns) for batch in batches]
        vectors = embed_decoded(backbone, self.images, processes.share(turned))
        shares = Scoring(np.concatenate(processes.unshare(list(vectors)))).accuracies(self.episodes, self.head)
        return mean_interval(100 * shares)


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
