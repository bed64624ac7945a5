"""Gaussians of the base classes under the frozen backbone, computed once and shared by all runs."""

from __future__ import annotations

import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages
from cplsr.environment import cache_folder
from cplsr.episodes.prototypes import normalize
from cplsr.evaluation.cache import EmbeddingKey, name_of
from cplsr.evaluation.embed import embed_decoded, embed_turned, in_batches
from cplsr.files import UnwritableError
from cplsr.processes import Processes
from cplsr.progress import progress_bar
from cplsr.reservation.moments import ClassMoments, choose_statistics_images
from cplsr.reservation.statistics import ClassGaussians
from cplsr.settings.training import TrainingSettings
from cplsr.tensor_file import DamagedFileError

FOLLOWED = 5
"""Images of each class, of those in its statistics, that tell how far it drifted."""
_log = logging.getLogger(__name__)


def base_gaussians(
    backbone: Backbone, images: DecodedImages, settings: TrainingSettings, *, processes: Processes
) -> ClassGaussians:
    """μ_k and Σ_k of all base classes, with SST of all four turns of each (Eq. 5-6), from the cache or anew.

    Where embeddings are read in depth they are those of the last class token, in whose space covariances stay small.
    The backbone must be frozen: an adapter on it would be part of the statistics.
    """
    if backbone.adapter is not None:
        raise ValueError("statistics belong to the frozen backbone: detach the adapter first")
    with _last_layer(backbone):
        file = cache_folder() / "statistics" / f"{_key(backbone, images, settings)}.safetensors"
        # All processes must take the same way, so they share what the first one finds.
        gaussians = _load(file) if processes.first else None
        if not processes.gather(gaussians is not None)[0]:
            gaussians = _compute(backbone, images, settings, processes)
            if processes.first:
                try:
                    gaussians.save(file)
                except UnwritableError as error:
                    warnings.warn(f"the base statistics could not be kept in {file} ({error.reason})", stacklevel=2)
    processes.wait()
    return gaussians or ClassGaussians.load(file)


def class_means(
    backbone: Backbone, images: DecodedImages, settings: TrainingSettings, *, processes: Processes
) -> Float64[Tensor, "classes dim"]:
    """Mean embeddings of the base classes, numbered as in `base_gaussians`, under the adapter as it is now.

    They are of at most `FOLLOWED` of the images in the statistics of each class: a drift needs few, for it is the
    difference between two means of the same images.
    """
    chosen = statistics_images(images.labels, min(FOLLOWED, settings.statistics_images or FOLLOWED))
    turns = settings.turns_per_class
    with _last_layer(backbone):
        rows = torch.from_numpy(embed_turned(backbone, images, chosen, turns, processes)).double()
    if settings.statistics == "normalized":
        rows = normalize(rows)
    shifts = len(images.classes) * np.arange(turns)[:, None]
    labels = torch.from_numpy((images.labels[chosen] + shifts).ravel())
    counts = torch.bincount(labels)
    return torch.zeros(len(counts), rows.shape[1], dtype=rows.dtype).index_add_(0, labels, rows) / counts[:, None]


def _last_layer(backbone: Backbone) -> AbstractContextManager[None]:
    return backbone.pooled("cls") if backbone.pooling == "depth" else nullcontext()


def _load(file: Path) -> ClassGaussians | None:
    if not file.is_file():
        return None
    try:
        return ClassGaussians.load(file)
    except DamagedFileError as error:
        _log.warning("%s; the statistics are computed now", error)
        return None


def _compute(
    backbone: Backbone, images: DecodedImages, settings: TrainingSettings, processes: Processes
) -> ClassGaussians:
    chosen = statistics_images(images.labels, settings.statistics_images)
    turns = settings.turns_per_class
    count = len(images.classes)
    moments = ClassMoments(turns * count, backbone.embedding_dim, statistics=settings.statistics)
    batches = in_batches(chosen)
    mine = [(turn, batch) for batch in processes.share(batches) for turn in range(turns)]
    if processes.first:
        _log.info("statistics of %d classes from %d embeddings, for the cache", turns * count, turns * len(chosen))
    with progress_bar(sum(len(batch) for _, batch in mine), "base statistics") as bar:
        for (turn, batch), vectors in zip(mine, embed_decoded(backbone, images, mine), strict=True):
            moments.update(torch.from_numpy(vectors), torch.from_numpy(images.labels[batch] + turn * count))
            bar.update(len(batch))
    parts = processes.gather(moments)
    for other in parts[1:]:
        parts[0].merge(other)
    return ClassGaussians.from_moments(parts[0], shrinkage=settings.shrinkage, ridge=settings.ridge)


def statistics_images(labels: Int64[ndarray, "images"], most: int | None) -> Int64[ndarray, "chosen"]:
    """At most so many images of each class, class by class: the same in every run, a lower limit's among them."""
    classes = torch.from_numpy(labels.copy())
    chosen = choose_statistics_images(classes, most, generator=torch.Generator().manual_seed(0))
    return chosen[classes[chosen].argsort(stable=True)].numpy()


def _key(backbone: Backbone, images: DecodedImages, settings: TrainingSettings) -> str:
    parts = {
        "format": 1,
        "backbone": EmbeddingKey.of(backbone).folder_name,
        "images": images.fingerprint,
        "sst": settings.turned_classes,
        **{name: getattr(settings, name) for name in ("statistics", "statistics_images", "shrinkage", "ridge")},
    }
    return name_of(parts)
