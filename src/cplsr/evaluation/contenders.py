"""What is measured on a target: contenders that all answer the same episodes, so that differences are paired."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product

import numpy as np
from numpy import ndarray

from cplsr.data.domain import Domain
from cplsr.episodes.heads import Head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation.embed import Embeddings
from cplsr.evaluation.intervals import mean_interval, paired_difference
from cplsr.evaluation.metrics import EpisodeScores, bin_means, expected_calibration_error, recall, score_episodes
from cplsr.evaluation.scoring import Scoring
from cplsr.progress import progress_bar
from cplsr.records.results import AccuracyRow, CalibrationBin, CalibrationRow, ConfusionRow, PairedRow
from cplsr.settings.episodes import EpisodeSettings


@dataclass(frozen=True)
class Contender(ABC):
    """Whatever answers the episodes of one target.

    Attributes:
        name: What its rows call it.
        embeddings: Those of the target's images; the episodes' numbers are rows of these.
        train_shot: The shot it was trained for, if it was.
    """

    name: str
    embeddings: Embeddings
    train_shot: int | None = None

    @abstractmethod
    def scores(self, episodes: Episodes, scoring: Scoring) -> EpisodeScores:
        """Answer all episodes; `scoring` is over the embeddings."""


@dataclass(frozen=True)
class HeadContender(Contender):
    """A head that answers from the embeddings as they are.

    `trained_temperature` is the factor of the cosines that the embeddings were trained with, if they were.
    """

    head: Head = field(default_factory=Prototypes)
    trained_temperature: float | None = None

    @property
    def temperature(self) -> float | None:
        """Factor on the scores before the softmax: prototypes, which training uses, have that of the training."""
        trained = self.trained_temperature if isinstance(self.head, Prototypes) else None
        return self.head.temperature if trained is None else trained

    def scores(self, episodes: Episodes, scoring: Scoring) -> EpisodeScores:
        """Answer all episodes with the head."""
        sharper = (self.temperature or 1.0) / (self.head.temperature or 1.0)
        return score_episodes(scoring.scores(episodes, self.head), episodes, len(self.embeddings.classes), sharper)


@dataclass
class TargetResults:
    """What the contenders came to on one target, and the classes with too few images for an episode."""

    rows: list[AccuracyRow] = field(default_factory=list)
    paired: list[PairedRow] = field(default_factory=list)
    confusion: list[ConfusionRow] = field(default_factory=list)
    calibration: list[CalibrationRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(
        self, contender: Contender, target: str, shot: int, settings: EpisodeSettings, scores: EpisodeScores
    ) -> None:
        """Take what the answers of a contender came to at one shot."""
        head = contender.head if isinstance(contender, HeadContender) else None
        interval = mean_interval(100 * scores.accuracies)
        self.rows.append(
            AccuracyRow(
                method=contender.name,
                target=target,
                shot=shot,
                way=settings.way,
                query=settings.query,
                episodes=settings.episodes,
                seed=settings.seed,
                train_shot=contender.train_shot,
                accuracy=interval.mean,
                ci95=interval.half_width,
                together=head is not None and head.together,
                queries=settings.queries[0],
            )
        )
        if scores.confusion is not None:
            asked = np.flatnonzero(scores.confusion.sum(axis=1))
            counts = scores.confusion[np.ix_(asked, asked)]
            classes = tuple(contender.embeddings.classes[label] for label in asked)
            shares = tuple(recall(counts).tolist())
            self.confusion.append(
                ConfusionRow(contender.name, target, shot, classes, tuple(map(tuple, counts.tolist())), shares)
            )
        temperature = contender.temperature if isinstance(contender, HeadContender) else None
        if scores.calibration is not None and temperature is not None:
            error = expected_calibration_error(scores.calibration)
            bins = tuple(CalibrationBin(*values) for values in bin_means(scores.calibration).tolist())
            self.calibration.append(CalibrationRow(contender.name, target, shot, temperature, error, bins))


def target_sampler(images: Embeddings | Domain, target: str, shot: int, settings: EpisodeSettings) -> EpisodeSampler:
    """What draws the episodes of a target at one shot, with the first kind of queries, if it has images enough."""
    try:
        return EpisodeSampler(
            images.labels,
            way=settings.way,
            shot=shot,
            query=settings.query,
            seed=settings.seed,
            groups=images.groups,
            queries=settings.queries[0],
        )
    except InputError as error:
        raise InputError(f"{target}: {error}") from error


def draw_episodes(
    embeddings: Embeddings, target: str, settings: EpisodeSettings
) -> tuple[dict[int, Episodes], list[str]]:
    """Draw the episodes by shot, with the first kind of queries, and name the classes that have too few images."""
    drawn: dict[int, Episodes] = {}
    left_out: dict[str, None] = {}
    for shot in settings.shots:
        sampler = target_sampler(embeddings, target, shot, settings)
        left_out |= {f"class {embeddings.classes[label]} ({n} images)": None for label, n in sampler.left_out}
        drawn[shot] = sampler.draw(settings.episodes)
    return drawn, list(left_out)


def measure_contenders(
    contenders: Sequence[Contender],
    drawn: Mapping[int, Episodes],
    *,
    target: str,
    settings: EpisodeSettings,
    match_shot: bool = False,
) -> TargetResults:
    """Measure contenders on the same episodes of a target, with differences of the later ones from the first.

    All have embeddings of the same images, and `settings` are what the episodes, by shot, were drawn with. With
    `match_shot` a contender is measured only at the shot it was trained for.
    """
    results = TargetResults()
    reference: dict[int, ndarray] = {}
    with progress_bar(len(drawn) * len(contenders), f"measuring {target}", unit="row") as bar:
        for _, group in groupby(contenders, key=lambda contender: id(contender.embeddings)):
            same = list(group)
            scoring = Scoring(same[0].embeddings.vectors)  # one at a time, for it may hold half a gigabyte
            for contender, (shot, episodes) in product(same, drawn.items()):
                if not match_shot or contender.train_shot in (None, shot):
                    scores = contender.scores(episodes, scoring)
                    percent = 100 * scores.accuracies
                    results.add(contender, target, shot, settings, scores)
                    if shot in reference:
                        difference, wins = paired_difference(percent, reference[shot])
                        names = contender.name, contenders[0].name
                        results.paired.append(PairedRow(*names, target, shot, *difference, wins))
                    reference.setdefault(shot, percent)
                bar.update()
    return results
