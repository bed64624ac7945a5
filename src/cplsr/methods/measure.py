"""Methods that adapt on the support set of every target episode, on the episodes of an ordinary evaluation.

Adapting is thousands of times the work of making prototypes, so that only the first episodes are done; what the frozen
backbone comes to on exactly those is what the differences are taken from. With a cache every finished episode is kept.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.adapters.attach import attach, detach
from cplsr.adapters.store import load_adapter, read_adapter_info
from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey
from cplsr.evaluation.embed import Embeddings, embed_domain
from cplsr.evaluation.evaluate import accuracy_row, difference_row, episode_sampler
from cplsr.evaluation.scoring import Scoring
from cplsr.methods.base import Adaptation
from cplsr.methods.episode_log import EpisodeLog
from cplsr.methods.registry import FULL
from cplsr.progress import progress_bar
from cplsr.records.adapter import AdapterInfo
from cplsr.records.results import FROZEN, PairedRow, Results, Row
from cplsr.reservation.pseudo_episodes import numbered_generator
from cplsr.settings.episodes import EpisodeSettings
from cplsr.training.base_images import decoded_images
from cplsr.training.processes import Processes

ADAPTATIONS = 2**32 + 5
"""A stream of random words of its own for what an adaptation draws."""


@dataclass(frozen=True)
class AdaptedModel:
    """What is adapted: a stored adapter, or with none the frozen backbone, all of whose weights may then change."""

    name: str
    info: AdapterInfo | None = None

    @property
    def train_shot(self) -> int | None:
        """The shot it was trained for, if known."""
        return None if self.info is None else self.info.shot

    @contextmanager
    def on(self, backbone: Backbone) -> Iterator[None]:
        """The backbone with the model's adapter on it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it was trained on another backbone is said by the evaluation
            if self.info is None:
                attach(backbone, FULL)
            else:
                load_adapter(backbone, self.info.folder)
        try:
            yield
        finally:
            detach(backbone)


@dataclass(frozen=True)
class Adapted:
    """Rows and differences of adapted models, and how long each model takes for one episode on average."""

    rows: tuple[Row, ...]
    paired: tuple[PairedRow, ...]
    seconds: dict[str, float] = field(compare=False)


def measure_adaptation(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    adaptation: Adaptation,
    *,
    method: str,
    adapters: Sequence[tuple[str, str | Path]] = (),
    settings: EpisodeSettings | None = None,
    episodes: int = 40,
    frozen: bool = True,
    match_shot: bool = False,
    cache: EmbeddingCache | None = None,
    batch_size: int = 64,
    workers: int | None = None,
) -> Adapted:
    """The frozen backbone and every adapter, each adapted on every one of the first `episodes` episodes.

    method: what the names of the models get at their end, `frozen+pmf`.
    settings: of the evaluation whose episodes these are; a smaller number of episodes there holds here too.
    frozen: whether to adapt the frozen backbone too.
    cache: where embeddings and finished episodes are looked up and kept; `None` keeps none.
    The differences are from the frozen backbone, not adapted, on the same episodes. Other arguments as for `evaluate`.
    """
    settings = settings or EpisodeSettings()
    if episodes < 1:
        raise InputError(f"{episodes} episodes were asked for to adapt on: give at least 1")
    settings = replace(settings, episodes=min(episodes, settings.episodes))
    models = [
        *([AdaptedModel(FROZEN)] if frozen else []),
        *(AdaptedModel(name, read_adapter_info(source)) for name, source in adapters),
    ]
    rows: list[Row] = []
    paired: list[PairedRow] = []
    seconds: dict[str, list[float]] = {}
    for target, domain in targets.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unreadable images and small classes are told of by the evaluation
            embeddings = embed_domain(backbone, domain, batch_size=batch_size, workers=workers, cache=cache)
            drawn = {
                shot: episode_sampler(embeddings, target, shot, settings).draw(settings.episodes)
                for shot in settings.shots
            }
        pictures = _Pictures.of(domain, embeddings, list(drawn.values()), backbone.image_size, workers)
        scoring = Scoring(embeddings.vectors)
        untouched = {
            shot: 100 * scoring.accuracies(each, Prototypes(settings.prototype)) for shot, each in drawn.items()
        }
        for model in models:
            with model.on(backbone):
                for shot, each in drawn.items():
                    if match_shot and model.train_shot not in (None, shot):
                        continue
                    name = f"{model.name}+{method}"
                    log = EpisodeLog()
                    if cache is not None:
                        about = _about(backbone, domain, embeddings, method, adaptation, settings, shot)
                        log = EpisodeLog.of(about, cache.folder.with_name("adaptations"))
                    percent = 100 * adapted_accuracies(
                        backbone, adaptation, each, pictures, log, seed=settings.seed,
                        title=f"{name}, {target}, {shot}-shot",
                    )  # fmt: skip
                    seconds.setdefault(name, []).extend(log.seconds[: len(each)])
                    rows.append(accuracy_row(name, target, shot, settings, model.train_shot, percent))
                    paired.append(difference_row(name, FROZEN, target, shot, percent, untouched[shot]))
    mean_seconds = {name: sum(each) / len(each) for name, each in seconds.items()}
    return Adapted(tuple(rows), tuple(paired), mean_seconds)


def _about(
    backbone: Backbone,
    domain: Domain,
    embeddings: Embeddings,
    method: str,
    adaptation: Adaptation,
    settings: EpisodeSettings,
    shot: int,
) -> dict[str, Any]:
    """All that the accuracy of an adapted episode depends on, besides the episode's number."""
    return {
        "model": EmbeddingKey.of(backbone).folder_name,
        "domain": domain.fingerprint,
        "readable": hashlib.sha256(embeddings.indices.tobytes()).hexdigest(),
        "method": method,
        "options": adaptation.options,
        "way": settings.way,
        "query": settings.query,
        "seed": settings.seed,
        "shot": shot,
        **({} if settings.queries == "balanced" else {"queries": settings.queries}),
    }


def with_adaptation(
    results: Results,
    adapted: Adapted,
    *,
    method: str,
    adaptation: Adaptation,
) -> Results:
    """The results of an evaluation, and those of `measure_adaptation` behind them."""
    rows = adapted.rows
    if taken := sorted({row.method for row in rows} & set(results.methods)):
        raise InputError(f"the name {taken[0]!r} is taken by another method: give the adapter another, as NAME=PATH")
    counts = sorted({row.episodes for row in rows})
    told = {
        "method": method,
        "options": adaptation.options,
        "episodes": counts[0] if counts else 0,
        "seconds_per_episode": {name: round(seconds, 3) for name, seconds in adapted.seconds.items()},
    }
    return replace(
        results,
        rows=(*results.rows, *rows),
        paired=(*results.paired, *adapted.paired),
        settings={**results.settings, "adaptation": told},
        flags=(
            *results.flags,
            f"+{method} adapts on the support set of every episode: measured on the first {told['episodes']} episodes",
        ),
    )


def adapted_accuracies(
    backbone: Backbone,
    adaptation: Adaptation,
    episodes: Episodes,
    pictures: _Pictures,
    log: EpisodeLog,
    *,
    seed: int,
    title: str = "",
) -> Float64[ndarray, "episodes"]:
    """Share of right answers in each episode, between 0 and 1; those that the log knows are not done again."""
    with progress_bar(len(episodes), title, unit="episode") as bar:
        bar.update(min(len(log), len(episodes)))
        for number in range(len(log), len(episodes)):
            start = time.perf_counter()
            support = pictures.take(episodes.support[number])
            query = pictures.take(episodes.asked[number])
            generator = numbered_generator(seed, number, stream=ADAPTATIONS)
            answers = predictions(backbone, adaptation, support, query, generator)
            right = float((answers.numpy() == episodes.truth[number]).mean())
            log.add(right, time.perf_counter() - start)
            bar.update(1)
    return np.array(log.accuracies[: len(episodes)])


def predictions(
    backbone: Backbone,
    adaptation: Adaptation,
    support: UInt8[Tensor, "way shot 3 size size"],
    query: UInt8[Tensor, "queries 3 size size"],
    generator: torch.Generator,
) -> Int64[Tensor, "queries"]:
    """Place of the class that each query is taken for.

    Queries stand class by class in an episode, so that their order would tell their labels: they are shuffled first.
    """
    order = torch.randperm(len(query), generator=generator)
    answers = torch.empty(len(query), dtype=torch.int64)
    answers[order] = adaptation.logits(backbone, support, query[order], generator).argmax(dim=-1).cpu()
    return answers


@dataclass(frozen=True, eq=False)
class _Pictures:
    """Pixels of the images that some episodes hold, found by the numbers that the episodes know them by."""

    pixels: UInt8[ndarray, "images 3 size size"]
    numbers: Int64[ndarray, "images"]

    @classmethod
    def of(
        cls, domain: Domain, embeddings: Embeddings, episodes: Sequence[Episodes], size: int, workers: int | None
    ) -> _Pictures:
        """Decode what the episodes hold and nothing else; the decoded images are kept in the cache."""
        held = [part.reshape(-1) for each in episodes for part in (each.support, each.query)]
        numbers = np.unique(np.concatenate(held))
        chosen = domain.select(embeddings.indices[numbers])
        images = decoded_images(chosen, size, processes=Processes(), workers=workers)
        if images.unreadable:
            raise InputError(f"{images.unreadable[0]} of {domain.name} can no longer be read: run the command again")
        return cls(images.pixels, numbers)

    def take(self, numbers: Int64[ndarray, "*images"]) -> UInt8[Tensor, "*images 3 size size"]:
        """A copy of the images, in the order of the numbers."""
        return torch.from_numpy(self.pixels[np.searchsorted(self.numbers, numbers)])
