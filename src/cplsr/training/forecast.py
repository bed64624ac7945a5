"""What a run will do and about how long it will take, said before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from cplsr.adapters.attach import attached
from cplsr.data.decode import decode
from cplsr.training.base_statistics import statistics_images
from cplsr.training.needed_images import needed_images
from cplsr.training.run import TrainingJob

TIMED = 8
"""Images that are decoded, embedded and learned from to see how long it takes."""

# What is said where these take more than a quarter of the time.
FEWER_STATISTICS = "a short trial needs fewer statistics: --statistics-images 100 takes at most 100 images of a class"
FEWER_VALIDATIONS = "a short trial needs fewer validations: --validate-every 0 has them only at the start and the end"


@dataclass(frozen=True)
class Forecast:
    """The work of a run: images, and seconds for one of each kind as they were measured.

    Attributes:
        decoded: Images of the base and of the validation domain that must be decoded; those in the cache take no time.
        statistics: Embeddings for the statistics, which take no time either if they are in the cache.
        episodes: Base episodes.
        learned: Images of all base episodes, each turn counted.
        validated: Images of all validations, each turn counted.
        seconds: Of one image decoded, embedded, and learned from.
    """

    decoded: int
    statistics: int
    episodes: int
    learned: int
    validated: int
    seconds: tuple[float, float, float]

    def sentences(self) -> list[str]:
        """Say it, each part that there is with its time; what would shorten it stands first."""
        decoding, embedding, learning = self.seconds
        parts = [
            (f"images to decode: {self.decoded:,}", self.decoded * decoding),
            (f"embeddings for the statistics: {self.statistics:,}", self.statistics * embedding),
            (f"base episodes: {self.episodes:,}, of {self.learned:,} images in all", self.learned * learning),
            (f"embeddings for the validations: {self.validated:,}", self.validated * embedding),
        ]
        lines = [f"{what} (about {duration(seconds)})" for what, seconds in parts if seconds > 0]
        total = sum(seconds for _, seconds in parts)
        lines.append(
            f"about {duration(total)} in all, by one timed step; less where the cache has decoded images or statistics"
        )
        shorter = ((self.statistics, FEWER_STATISTICS), (self.validated, FEWER_VALIDATIONS))
        return [*(hint for embeddings, hint in shorter if embeddings * embedding > total / 4), *lines]


def forecast(job: TrainingJob) -> Forecast:
    """Count the work of a run, and time a little of each kind."""
    settings, turns = job.settings, job.settings.turns_per_class
    needed = needed_images(job.base.labels, settings, partner=job.objective.partner)
    interval = settings.validation_interval
    validations = 2 + ((settings.episodes - 1) // interval if interval > 0 else 0)
    each = settings.way * (settings.shot + settings.query) * (2 if job.objective.partner else 1)
    return Forecast(
        decoded=(len(job.base) if needed is None else len(needed)) + len(job.val),
        statistics=turns * len(statistics_images(job.base.labels, settings)) if settings.pe else 0,
        episodes=settings.episodes,
        learned=settings.episodes * turns * each,
        validated=validations * turns * len(job.val),
        seconds=_timed(job),
    )


def duration(seconds: float) -> str:
    """A time in words, as coarse as it is certain."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _timed(job: TrainingJob) -> tuple[float, float, float]:
    backbone = job.backbone
    images = range(min(TIMED, len(job.base)))
    start = time.perf_counter()
    for _ in decode(job.base, backbone.image_size, indices=images, workers=0):
        pass
    decoding = time.perf_counter() - start
    pixels = torch.zeros(len(images), 3, backbone.image_size, backbone.image_size, dtype=torch.uint8)
    pixels = pixels.to(backbone.device)
    with torch.inference_mode():
        backbone(pixels)  # the first pass pays for more than itself
        start = time.perf_counter()
        backbone(pixels).sum().item()
        embedding = time.perf_counter() - start
    with attached(backbone, job.adapter, job.options):
        start = time.perf_counter()
        backbone(pixels).float().sum().backward()
        learning = time.perf_counter() - start
    return decoding / len(images), embedding / len(images), learning / len(images)
