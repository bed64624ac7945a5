"""Millions of images to vectors on disk, part by part: by any number of processes or machines, the same files.

Every part of the data is embedded on its own, in batches that depend on nothing else, by one process with a fixed
number of threads; so who does it, and when, does not show in the result. A part that is there already and whole is
not made again: a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain, numbered
from cplsr.data.listing import skipped_message
from cplsr.data.parts import Part, Parts
from cplsr.data.vectors import VectorShard, shard_file, shard_files
from cplsr.engines import Ended, in_processes, on_ray, ray_cluster
from cplsr.errors import InputError
from cplsr.evaluation.cache import PREPROCESSING, EmbeddingKey
from cplsr.evaluation.embed import embed_domain
from cplsr.files import only_writer, remove_leftovers
from cplsr.progress import no_progress, progress_bar
from cplsr.records.vectors import INDEX, VectorsInfo
from cplsr.settings.engine import ShardingSettings

Loader = Callable[[], Backbone]
"""Loads the model, in whatever process: importable, hashable, equal to its copies."""


@dataclass(frozen=True)
class ShardJob:
    """One part, with everything needed to embed it, also on another machine."""

    number: int
    part: Part
    load: Loader
    key: EmbeddingKey
    out: Path
    settings: ShardingSettings


@dataclass(frozen=True)
class ShardOutcome:
    """A part that is on disk: how many images, how many of them without a vector, and whether it was made now."""

    images: int
    failed: int
    new: bool


def embed_to_folder(
    sources: Sequence[Parts], load: Loader, out: Path, settings: ShardingSettings
) -> tuple[VectorsInfo, int]:
    """Embed all images of some sources and write their vectors to a folder, or finish what was begun there.

    Classes of one name are one class. The model is loaded once in every process.

    Returns:
        What the folder holds, and how many of the images were embedded now.

    Raises:
        InputError: The folder holds vectors of another model, or was cut otherwise; or an image cannot be read and
            `strict` is set.
    """
    backbone = _model_here(load, settings.threads)
    key = EmbeddingKey.of(backbone)
    info = VectorsInfo(
        name="+".join(dict.fromkeys(source.name for source in sources)),
        classes=list(dict.fromkeys(name for source in sources for name in source.classes)),
        model={**asdict(key), "preprocessing": PREPROCESSING},
        dim=backbone.embedding_dim,
        batch_size=settings.batch_size,
        shard_images=settings.shard_images,
        skipped=[],
    )
    _check_begun(out, info, key)
    with only_writer(out):
        remove_leftovers(out)
        info.write(out)
        done: list[ShardOutcome] = []
        parts: Iterator[Part] = (
            part if list(source.classes) == info.classes else partial(_renumbered, part, tuple(info.classes))
            for source in sources
            for part in source.parts(settings.shard_images)
        )
        jobs = (ShardJob(number, part, load, key, out, settings) for number, part in enumerate(parts))
        with progress_bar(sum(source.images for source in sources), "embedding") as bar:
            for ended in _engine(jobs, settings):
                if ended.result is None:
                    raise ended.error or RuntimeError("a part ended without a result")
                done.append(ended.result)
                bar.update(ended.result.images)
        for stale in shard_files(out)[len(done) :]:
            stale.unlink()
        if not (images := sum(part.images for part in done)):
            raise InputError(f"none of the files that {info.name} lists can be opened: check the paths")
        skipped = [file for source in sources for file in source.skipped]
        if settings.strict and skipped:
            raise InputError(skipped_message(out, skipped))
        info = replace(info, skipped=skipped, shards=len(done), images=images, failed=sum(p.failed for p in done))
        info.write(out)
    return info, sum(part.images for part in done if part.new)


def _check_begun(out: Path, info: VectorsInfo, key: EmbeddingKey) -> None:
    """Refuse a folder of something else: other vectors, or files that are none of ours."""
    if not out.exists():
        return
    if not (out / INDEX).is_file():
        if not out.is_dir() or set(out.glob("[!.]*")) - set(shard_files(out)):
            raise InputError(f"{out} holds something else already: give a new or empty folder as --out")
        return
    begun = VectorsInfo.read(out)
    key.require(begun.model, out)
    for name in ("batch_size", "shard_images"):
        if getattr(begun, name) != getattr(info, name):
            raise InputError(
                f"{out} was made with --{name.replace('_', '-')} {getattr(begun, name)}, not {getattr(info, name)}: "
                "give the same, or another --out"
            )


def _renumbered(part: Part, classes: tuple[str, ...]) -> Domain:
    """A part with its labels among the classes of all sources."""
    domain = part()
    return replace(domain, classes=classes, labels=numbered(domain.classes, classes)[domain.labels])


def _engine(jobs: Iterator[ShardJob], settings: ShardingSettings) -> Iterator[Ended[ShardJob, ShardOutcome]]:
    """Do the jobs where the settings say."""
    if settings.engine == "ray":
        with ray_cluster(settings, settings.processes, settings.threads):
            yield from on_ray(embed_shard, jobs, cpus=settings.threads, gpus=settings.ray_gpus)
        return
    processes = settings.processes or max(1, (os.cpu_count() or 1) // settings.threads)
    if processes > 1:
        yield from in_processes(embed_shard, jobs, processes)
        return
    for job in jobs:
        yield Ended(job, embed_shard(job))


@lru_cache(maxsize=1)
def _model_here(load: Loader, threads: int) -> Backbone:
    """The model of this process, loaded once; with its threads, on which the last digits may depend."""
    torch.set_num_threads(threads)
    return load()


def embed_shard(job: ShardJob) -> ShardOutcome:
    """Embed one part and write its shard, unless that is there already, whole and of the same images.

    Raises:
        InputError: An image cannot be read and `strict` is set, or this machine has another model.
    """
    settings = job.settings
    with no_progress():
        domain = job.part()
    if settings.strict and domain.skipped:
        raise InputError(skipped_message(Path(domain.name), domain.skipped))
    file = shard_file(job.out, job.number)
    if (old := _kept(file, domain)) is not None and not (settings.strict and old.failed):
        return ShardOutcome(len(domain), len(old.failed), new=False)
    backbone = _model_here(job.load, settings.threads)
    if EmbeddingKey.of(backbone) != job.key:
        raise InputError(
            f"on {platform.node()} {backbone.source!r} is another model than where this was started: give all machines "
            "the same files"
        )
    shard = _embed(backbone, domain, job)
    shard.write(file)
    return ShardOutcome(len(domain), len(shard.failed), new=True)


def _embed(backbone: Backbone, domain: Domain, job: ShardJob) -> VectorShard:
    with warnings.catch_warnings(action="ignore"), no_progress():  # unreadable images are counted at the end
        found = embed_domain(
            backbone,
            domain,
            batch_size=job.settings.batch_size,
            workers=job.settings.workers or 0,
            strict=job.settings.strict,
        )
    unread = np.setdiff1d(np.arange(len(domain)), found.indices).tolist()
    return VectorShard(
        identities=domain.identities,
        labels=domain.labels,
        kept=found.indices,
        vectors=found.vectors.astype(job.key.number_format),
        failed=tuple((at, reason) for at, (_, reason) in zip(unread, found.failed, strict=True)),
        groups=_groups(domain),
        skipped=domain.skipped,
    )


def _kept(file: Path, domain: Domain) -> VectorShard | None:
    """The shard that is there already, if it is undamaged and of just these images."""
    try:
        old = VectorShard.read(file)
    except InputError:
        return None
    same = (old.identities, old.groups, old.skipped) == (domain.identities, _groups(domain), domain.skipped)
    return old if same and np.array_equal(old.labels, domain.labels) else None


def _groups(domain: Domain) -> tuple[Any, ...] | None:
    return None if domain.groups is None else tuple(domain.groups.tolist())
