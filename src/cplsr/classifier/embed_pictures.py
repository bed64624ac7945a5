"""Embeddings of whatever a user calls images, some at a time, from the cache where they are known."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import final

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.embedding_classifier import named
from cplsr.classifier.pictures import PictureReader, picture_names
from cplsr.data.decode import DecodedBatch, decode
from cplsr.data.domain import Domain, UnreadableImageError
from cplsr.data.vectors import StoredVectors
from cplsr.errors import InputError
from cplsr.evaluation.cache import CachedRows, EmbeddingCache, EmbeddingKey
from cplsr.evaluation.embed import embed_pixels


@final
@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings of some images, by their positions among those given, and (position, reason) of the unreadable.

    `frozen` are the embeddings of the same images without the adapter, where that was asked for.
    """

    indices: Int64[ndarray, "some"]
    vectors: Float32[ndarray, "some dim"]
    failed: tuple[tuple[int, str], ...] = ()
    frozen: Float32[ndarray, "some dim"] | None = None


def joined_or_none(parts: Sequence[ndarray | None]) -> ndarray | None:
    """The arrays, one after the other; `None` if one of them is missing."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


def report_failed(pictures: Domain | Tensor | ndarray, labels: ndarray, support: Embedded) -> None:
    """Warn of support images that cannot be read; raise `InputError` if nothing of some class is left."""
    names = picture_names(pictures)
    index, reason = support.failed[0]
    lost = np.setdiff1d(labels, labels[support.indices])
    if len(lost):
        raise InputError(
            f"no image of the class {named(lost)} can be read ({names[index]}: {reason}): give images that can be "
            "opened, or leave the class out"
        )
    warnings.warn(
        f"{len(support.failed)} of {len(names)} support images cannot be read and are left out, the first is "
        f"{names[index]}: {reason}",
        stacklevel=4,
    )


@final
@dataclass(frozen=True)
class Embedder:
    """Embeds images some at a time and in order; memory does not depend on their number.

    `frozen` is a second backbone that sees the same pixels, for comparison. Pictures in memory have no place in the
    cache.
    """

    backbone: Backbone
    frozen: Backbone | None = None
    batch_size: int = 64
    workers: int | None = None
    cache: EmbeddingCache | None = None
    description: str = "embedding"

    def batches(self, pictures: Domain | Tensor | ndarray) -> Iterator[Embedded]:
        """Embed images; embeddings are passed on as they are, if they fit the backbone."""
        if isinstance(pictures, ndarray):
            yield _given_embeddings(self.backbone, pictures)
        elif isinstance(pictures, Domain) and pictures.vectors is not None:
            yield from _stored_embeddings(self.backbone, pictures, pictures.vectors, self.batch_size)
        elif self.cache is not None and isinstance(pictures, Domain) and _can_be_kept(pictures):
            yield from self._by_cache(pictures, self.cache)
        else:
            for indices, pixels, failed in self._decoded(pictures):
                vectors = _embed(self.backbone, indices, pixels)
                frozen = None if self.frozen is None else _embed(self.frozen, indices, pixels)
                yield Embedded(indices, vectors, failed, frozen)

    def at_once(self, pictures: Domain | Tensor | ndarray) -> Embedded:
        """Embed images, and give all of them as one batch."""
        batches = (vars(batch).values() for batch in self.batches(pictures))
        indices, vectors, failed, frozen = zip(*batches, strict=True)
        return Embedded(np.concatenate(indices), np.concatenate(vectors), tuple(chain(*failed)), joined_or_none(frozen))

    def readable_pixels(self, pictures: Domain | Tensor) -> UInt8[Tensor, "some 3 size size"]:
        """All images that can be read, as the backbone takes them, at once."""
        return torch.cat([part for _, part, _ in self._decoded(pictures)])

    def _by_cache(self, domain: Domain, cache: EmbeddingCache) -> Iterator[Embedded]:
        """What the cache has is taken from there; images that it lacks share a batch as they did without."""
        models = [model for model in (self.backbone, self.frozen) if model is not None]
        shelves = [
            CachedRows(cache, EmbeddingKey.of(model), domain.identities, model.embedding_dim) for model in models
        ]
        lacking = ~np.all([shelf.known for shelf in shelves], axis=0)
        new_images = _one_by_one(self._decode(domain, np.flatnonzero(lacking), self.workers))
        with closing(new_images), ExitStack() as at_the_end:
            for shelf in shelves:
                at_the_end.callback(shelf.keep)
            for start in range(0, len(domain), self.batch_size):
                indices = np.arange(start, min(start + self.batch_size, len(domain)))
                kept = [shelf.read(indices) for shelf in shelves]
                found = np.all([known for known, _ in kept], axis=0) & ~lacking[indices]
                damaged = indices[~found & ~lacking[indices]]
                again = _one_by_one(self._decode(domain, damaged, 0)) if len(damaged) else ()
                new = sorted([*islice(new_images, int(lacking[indices].sum())), *again], key=lambda image: image[0])
                read = np.array([index for index, pixels in new if isinstance(pixels, Tensor)], dtype=np.int64)
                found[read - start] = True
                vectors = [rows for _, rows in kept]
                if len(read):
                    pixels = torch.stack([pixels for _, pixels in new if isinstance(pixels, Tensor)])
                    for model, shelf, rows in zip(models, shelves, vectors, strict=True):
                        rows[read - start] = shelf.add(read, _embed(model, read, pixels))
                failed = tuple((index, reason) for index, reason in new if isinstance(reason, str))
                frozen = None if self.frozen is None else vectors[1][found]
                yield Embedded(indices[found], vectors[0][found], failed, frozen)

    def _decoded(self, pictures: Domain | Tensor) -> Iterator[tuple[ndarray, Tensor, tuple[tuple[int, str], ...]]]:
        """Positions and pixels of a batch, and what cannot be read of it."""
        if isinstance(pictures, Tensor):
            for start in range(0, len(pictures), self.batch_size):
                part = pictures[start : start + self.batch_size]
                yield np.arange(start, start + len(part), dtype=np.int64), part, ()
            return
        # Sending pictures to another process costs more than decoding them here.
        workers = 0 if isinstance(pictures.reader, PictureReader) else self.workers
        for batch in self._decode(pictures, None, workers):
            yield batch.indices, batch.pixels, batch.failed

    def _decode(self, domain: Domain, indices: ndarray | None, workers: int | None) -> Iterator[DecodedBatch]:
        return decode(
            domain,
            self.backbone.image_size,
            indices=indices,
            batch_size=self.batch_size,
            workers=workers,
            description=self.description,
        )


def _can_be_kept(domain: Domain) -> bool:
    """Whether the cache can know its images: pictures in memory have no identity that lasts."""
    return not any(name.endswith("?") for name in domain.identities)


def _one_by_one(batches: Iterable[DecodedBatch]) -> Generator[tuple[int, Tensor | str]]:
    """Position and pixels of each image in order, or why it has none."""
    for batch in batches:
        images: list[tuple[int, Tensor | str]] = [
            *zip(batch.indices.tolist(), batch.pixels, strict=True),
            *batch.failed,
        ]
        yield from sorted(images, key=lambda image: image[0])


def _embed(backbone: Backbone, indices: Int64[ndarray, "images"], pixels: Tensor) -> Float32[ndarray, "images dim"]:
    if len(pixels) == 0:
        return np.empty((0, backbone.embedding_dim), dtype=np.float32)
    return embed_pixels(backbone, pixels, lambda row: f"image {indices[row]}")


def _given_embeddings(backbone: Backbone, vectors: ndarray) -> Embedded:
    if vectors.shape[1] != backbone.embedding_dim:
        raise InputError(
            f"embeddings of {vectors.shape[1]} numbers were given, but those of {backbone.source!r} have "
            f"{backbone.embedding_dim}: embed the images with that backbone, or give the images themselves"
        )
    if not np.isfinite(vectors).all():
        raise InputError("an embedding holds nan or infinity: leave that image out")
    return Embedded(np.arange(len(vectors), dtype=np.int64), vectors.astype(np.float32))


def _stored_embeddings(
    backbone: Backbone, pictures: Domain, vectors: StoredVectors, batch_size: int
) -> Iterator[Embedded]:
    """The vectors that `cplsr embed` made of images, as if they were made now."""
    EmbeddingKey.of(backbone).require(vectors.model, vectors.folder)
    for start in range(0, len(pictures), batch_size):
        positions = np.arange(start, min(start + batch_size, len(pictures)))
        known, matrix = vectors.take(positions)
        yield Embedded(positions[known], matrix[known], tuple(_reasons(pictures, positions[~known])))


def _reasons(pictures: Domain, positions: Int64[ndarray, "some"]) -> Iterator[tuple[int, str]]:
    """Why the images at some positions cannot be read."""
    for position in positions.tolist():
        try:
            pictures.reader(position)
        except UnreadableImageError as error:
            yield position, str(error)
