"""Contenders that adapt on the support set of every target episode, on the episodes of an ordinary evaluation.

Adapting is thousands of times the work of making prototypes, so that only the first episodes are done; what the frozen
backbone comes to on exactly those is what the differences are taken from. With a cache every finished episode is kept.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from cplsr.adapters.attach import attached
from cplsr.adapters.full import Full
from cplsr.adapters.store import read_adapter_info
from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages, decoded_images
from cplsr.data.domain import Domain
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey
from cplsr.evaluation.contenders import Contender, HeadContender, draw_episodes, measure_contenders
from cplsr.evaluation.embed import Embeddings, Model, embed_domain, quietly, stored_adapter
from cplsr.evaluation.episode_log import EpisodeLog
from cplsr.evaluation.metrics import EpisodeScores
from cplsr.evaluation.scoring import Scoring
from cplsr.processes import Processes
from cplsr.progress import progress_bar
from cplsr.records.adapter import AdapterInfo
from cplsr.records.results import FROZEN, AccuracyRow, PairedRow, Results
from cplsr.settings.episodes import EpisodeSettings

Support = UInt8[Tensor, "way shot 3 size size"]
Query = UInt8[Tensor, "queries 3 size size"]


class Adaptation(ABC):
    """What a method does with the labeled support images of one target episode before it predicts.

    It never gets the labels of the queries. It may change the parameters of the backbone's adapter, and puts them back.

    Attributes:
        options: What it was made with, defaults included, for the record.
        whole_backbone: Whether it changes all weights of a backbone without an adapter, or leaves them alone.
    """

    options: dict[str, Any]
    whole_backbone: ClassVar[bool] = True

    def why_not(self, shot: float) -> str:
        """Say why it leaves out support sets of so many images of a class; empty where it does not."""
        return ""

    @abstractmethod
    def logits(
        self, backbone: Backbone, support: Support, query: Query, generator: torch.Generator
    ) -> Float[Tensor, "queries way"]:
        """Score the queries for each class of the support set."""


@dataclass(frozen=True)
class AdaptationRequest:
    """What is to adapt, and on how much.

    Attributes:
        method: What the names of the models get at their end, `frozen+pmf`.
        episodes: The first so many of an evaluation's episodes; all of them where it has fewer.
        frozen: Whether to adapt the frozen backbone too.
    """

    method: str
    adaptation: Adaptation
    episodes: int = 40
    frozen: bool = True

    def __post_init__(self) -> None:
        """Refuse to adapt on nothing."""
        if self.episodes < 1:
            raise InputError(f"{self.episodes} episodes were asked for to adapt on: give at least 1")


@dataclass(frozen=True)
class Adapted:
    """Rows and differences of adapted models.

    Attributes:
        seconds: How long each model takes for one episode on average.
        left_out: Shots that were not measured, each with the reason.
    """

    request: AdaptationRequest = field(compare=False)
    rows: tuple[AccuracyRow, ...]
    paired: tuple[PairedRow, ...]
    seconds: dict[str, float] = field(compare=False)
    left_out: tuple[str, ...] = ()

    def behind(self, results: Results) -> Results:
        """Give the results of an evaluation with these behind them, which must not share a name."""
        if taken := sorted({row.method for row in self.rows} & set(results.methods)):
            raise InputError(
                f"the name {taken[0]!r} is taken by another method: give the adapter another, as NAME=PATH"
            )
        method, episodes = self.request.method, min((row.episodes for row in self.rows), default=0)
        record = {
            "method": method,
            "options": self.request.adaptation.options,
            "episodes": episodes,
            "seconds_per_episode": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
        }
        flags = [f"+{method}, {reason}" for reason in self.left_out]
        if self.rows:
            flags.append(
                f"+{method} adapts on the support set of every episode: measured on the first {episodes} episodes"
            )
        return replace(
            results,
            rows=(*results.rows, *self.rows),
            paired=(*results.paired, *self.paired),
            settings={**results.settings, "adaptation": record},
            flags=(*results.flags, *flags),
        )


def measure_adaptation(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    request: AdaptationRequest,
    *,
    adapters: Sequence[tuple[str, str | Path]] = (),
    settings: EpisodeSettings | None = None,
    match_shot: bool = False,
    cache: EmbeddingCache | None = None,
    batch_size: int = 64,
    workers: int | None = None,
) -> Adapted:
    """Adapt the frozen backbone and every adapter on each of the first episodes.

    The differences are from the frozen backbone, not adapted, on the same episodes. Arguments are those of `evaluate`,
    `settings` those of the evaluation whose episodes these are, with the first kind of queries; the cache also keeps
    finished episodes.
    """
    settings = settings or EpisodeSettings()
    reasons = {shot: why for shot in settings.shots if (why := request.adaptation.why_not(float(shot)))}
    left_out = tuple(f"{shot}-shot: {why}" for shot, why in reasons.items())
    shots = tuple(shot for shot in settings.shots if shot not in reasons)
    if not shots:
        return Adapted(request, (), (), {}, left_out)
    settings = replace(settings, shots=shots, episodes=min(request.episodes, settings.episodes))
    models: list[tuple[str, AdapterInfo | None]] = [(FROZEN, None)] if request.frozen else []
    models += [(name, read_adapter_info(source)) for name, source in adapters]
    logs = None if cache is None else cache.folder.with_name("adaptations")
    rows: list[AccuracyRow] = []
    paired: list[PairedRow] = []
    seconds: dict[str, list[float]] = {}
    for target, domain in targets.items():
        with warnings.catch_warnings(action="ignore"):  # the evaluation warns of unreadable images and small classes
            embeddings = embed_domain(backbone, domain, batch_size=batch_size, workers=workers, cache=cache)
            drawn, _ = draw_episodes(embeddings, target, settings)
        pictures = _pictures(domain, embeddings, drawn.values(), backbone.image_size, workers)
        adapting = [
            AdaptingContender(
                f"{name}+{request.method}", embeddings, None if info is None else info.shot,
                backbone=backbone, info=info, request=request, settings=settings, pictures=pictures, logs=logs,
            )
            for name, info in models
        ]  # fmt: skip
        contenders = [HeadContender(FROZEN, embeddings, head=Prototypes(settings.prototype)), *adapting]
        measured = measure_contenders(contenders, drawn, target=target, settings=settings, match_shot=match_shot)
        rows += [row for row in measured.rows if row.method != FROZEN]
        paired += measured.paired
        for contender in adapting:
            seconds.setdefault(contender.name, []).extend(contender.seconds)
    means = {name: sum(times) / len(times) for name, times in seconds.items() if times}
    return Adapted(request, tuple(rows), tuple(paired), means, left_out)


@dataclass(frozen=True)
class AdaptingContender(Contender):
    """A model that adapts on every support set before it answers the queries.

    Attributes:
        info: The stored adapter that is adapted; with `None` the frozen backbone is.
        settings: What the episodes were drawn with.
        pictures: The pixels of all images that the episodes hold, by their numbers there.
        logs: The folder where finished episodes are looked up and kept; `None` keeps none.
        seconds: How long each episode took that was answered so far.
    """

    _: KW_ONLY
    backbone: Backbone
    info: AdapterInfo | None
    request: AdaptationRequest
    settings: EpisodeSettings
    pictures: DecodedImages
    logs: Path | None
    seconds: list[float] = field(default_factory=list)

    def scores(self, episodes: Episodes, scoring: Scoring) -> EpisodeScores:
        """Adapt on every episode that the log does not know, and answer it."""
        with (
            self._model(),
            progress_bar(len(episodes), f"{self.name}, {episodes.shot}-shot", unit="episode") as bar,
        ):
            log = self._log(episodes)
            bar.update(min(len(log), len(episodes)))
            for number in range(len(log), len(episodes)):
                start = time.perf_counter()
                support = self.pictures.take(episodes.support[number]).unflatten(0, (episodes.way, episodes.shot))
                query = self.pictures.take(episodes.asked[number])
                generator = numbered_generator(self.settings.seed, number, Stream.ADAPTATIONS)
                answers = predictions(self.backbone, self.request.adaptation, support, query, generator)
                right = float((answers.numpy() == episodes.truth[number]).mean())
                log.add(right, time.perf_counter() - start)
                bar.update(1)
        self.seconds.extend(log.seconds[: len(episodes)])
        return EpisodeScores(np.array(log.accuracies[: len(episodes)]))

    def _model(self) -> AbstractContextManager[None]:
        model: Model = nullcontext
        if self.info is not None:
            model = partial(stored_adapter, self.backbone, self.info)
        elif self.request.adaptation.whole_backbone:
            model = partial(attached, self.backbone, Full.kind, {})
        return quietly(model)  # the evaluation warns of an adapter that was trained on another backbone

    def _log(self, episodes: Episodes) -> EpisodeLog:
        """Open the log that belongs to all that an episode's accuracy depends on, besides the episode's number."""
        if self.logs is None:
            return EpisodeLog()
        settings = self.settings
        about = {
            "model": EmbeddingKey.of(self.backbone).folder_name,
            "domain": self.pictures.fingerprint,
            "readable": hashlib.sha256(self.embeddings.indices.tobytes()).hexdigest(),
            "method": self.request.method,
            "options": self.request.adaptation.options,
            "way": settings.way,
            "query": settings.query,
            "seed": settings.seed,
            "shot": episodes.shot,
            **({} if settings.queries[0] == "balanced" else {"queries": settings.queries[0]}),
        }
        return EpisodeLog.of(about, self.logs)


def predictions(
    backbone: Backbone, adaptation: Adaptation, support: Support, query: Query, generator: torch.Generator
) -> Int64[Tensor, "queries"]:
    """Predict the position of each query's class.

    Queries stand class by class in an episode, so that their order would give their labels away: they are shuffled.
    """
    order = torch.randperm(len(query), generator=generator)
    answers = torch.empty(len(query), dtype=torch.int64)
    answers[order] = adaptation.logits(backbone, support, query[order], generator).argmax(dim=-1).cpu()
    return answers


def _pictures(
    domain: Domain, embeddings: Embeddings, episodes: Iterable[Episodes], size: int, workers: int | None
) -> DecodedImages:
    """Decode what the episodes hold and nothing else, by the numbers they know it by; the cache keeps it."""
    held = [part.reshape(-1) for each in episodes for part in (each.support, each.query)]
    numbers = np.unique(np.concatenate(held))
    chosen = domain.select(embeddings.indices[numbers])
    images = decoded_images(chosen, size, processes=Processes(), workers=workers)
    if images.unreadable:
        raise InputError(f"{images.unreadable[0]} of {domain.name} can no longer be read: run the command again")
    rows = np.full(len(embeddings), -1, dtype=np.int64)
    rows[numbers] = np.arange(len(numbers))
    return replace(images, labels=embeddings.labels, fingerprint=domain.fingerprint, rows=rows)
