"""What a run will do and about how long it will take, said before it starts."""

from __future__ import annotations

import time

import torch

from cplsr.adapters.attach import attached
from cplsr.data.decode import decode
from cplsr.training.base_statistics import statistics_images
from cplsr.training.episode_plan import images_of_episode, needed_images
from cplsr.training.run import TrainingJob

TIMED = 8
"""Images that are decoded, embedded and learned from to see how long it takes."""

# What is said where these take more than a quarter of the time.
FEWER_STATISTICS = "a short trial needs fewer statistics: --statistics-images 100 takes at most 100 images of a class"
FEWER_VALIDATIONS = "a short trial needs fewer validations: --validate-every 0 has them only at the start and the end"


def forecast(job: TrainingJob) -> list[str]:
    """Count the work of a run, time a little of each kind, and say it; what is in the cache takes no time."""
    settings, turns = job.settings, job.settings.turns_per_class
    partner = job.objective.partner
    needed = needed_images(job.base.labels, settings, partner=partner)
    interval = settings.validation_interval
    validations = 2 + ((settings.episodes - 1) // interval if interval > 0 else 0)
    return sentences(
        decoded=(len(job.base) if needed is None else len(needed)) + len(job.val),
        statistics=turns * len(statistics_images(job.base.labels, settings.statistics_images)) if settings.pe else 0,
        episodes=settings.episodes,
        learned=settings.episodes * turns * images_of_episode(settings, partner=partner),
        validated=validations * turns * len(job.val),
        seconds=_timed(job),
    )


def sentences(
    decoded: int, statistics: int, episodes: int, learned: int, validated: int, seconds: tuple[float, float, float]
) -> list[str]:
    """Say the work of a run, each part that there is with its time; what would shorten it stands first.

    All but the `episodes` are numbers of images, each turn counted, and `seconds` what one takes that is decoded,
    embedded, and learned from.
    """
    decoding, embedding, learning = seconds
    parts = [
        (f"images to decode: {decoded:,}", decoded * decoding),
        (f"embeddings for the statistics: {statistics:,}", statistics * embedding),
        (f"base episodes: {episodes:,}, of {learned:,} images in all", learned * learning),
        (f"embeddings for the validations: {validated:,}", validated * embedding),
    ]
    lines = [f"{what} (about {duration(took)})" for what, took in parts if took > 0]
    total = sum(took for _, took in parts)
    lines.append(
        f"about {duration(total)} in all, by one timed step; less where the cache has decoded images or statistics"
    )
    shorter = ((statistics, FEWER_STATISTICS), (validated, FEWER_VALIDATIONS))
    return [*(hint for embeddings, hint in shorter if embeddings * embedding > total / 4), *lines]


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
