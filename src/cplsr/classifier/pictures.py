"""Whatever a user calls images, as one of three things: a domain to decode, pixels, or embeddings."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from numpy import ndarray
from PIL import Image
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.query_files import open_queries, unlabeled, unlabeled_files
from cplsr.data.decode import DecodedBatch, decode
from cplsr.data.domain import Domain, KnownVectors, UnreadableImageError
from cplsr.data.image_file import read_image, require_size
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey
from cplsr.evaluation.cached_rows import CachedRows
from cplsr.evaluation.embed import embed_pixels

FORMS = (
    "a folder, paths, PIL images, uint8 arrays (height, width, 3), tensors as the backbone takes them, or embeddings "
    "(images, dim)"
)


@final
@dataclass(frozen=True)
class PictureReader:
    """Pictures that are in memory already, or paths among them."""

    pictures: tuple[Image.Image | ndarray | str, ...]

    def __call__(self, index: int) -> Image.Image:
        """Give picture number `index`."""
        picture = self.pictures[index]
        if isinstance(picture, Image.Image):
            require_size(picture)  # it may be open, but not decoded yet
            return picture
        return read_image(picture) if isinstance(picture, str) else Image.fromarray(picture)


@final
@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings of some images, and why others have none.

    Attributes:
        indices: Positions of the embedded images among the images given.
        vectors: Their embeddings.
        failed: (position, reason) of the images that cannot be read.
        frozen: The embeddings of the same images without the adapter, where that was asked for.
    """

    indices: Int64[ndarray, "some"]
    vectors: Float32[ndarray, "some dim"]
    failed: tuple[tuple[int, str], ...] = ()
    frozen: Float32[ndarray, "some dim"] | None = None

    @classmethod
    def joined(cls, batches: Iterable[Embedded]) -> Embedded:
        """Several batches as one."""
        indices, vectors, failed, frozen = zip(*(vars(batch).values() for batch in batches), strict=True)
        return cls(np.concatenate(indices), np.concatenate(vectors), tuple(chain(*failed)), joined_or_none(frozen))


def joined_or_none(parts: Sequence[ndarray | None]) -> ndarray | None:
    """The arrays, one after the other; `None` if one of them is missing."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


def as_pictures(X: Any) -> Domain | Tensor | ndarray:
    """Bring images, in whatever form a user gives them, into one of three forms.

    Args:
        X: A folder, one path, a list of paths, PIL images or uint8 arrays, all of any size; a `Domain`; tensors in the
            backbone's size, uint8 as raw and floats as normalized pixels; or embeddings, a 2-D float array.

    Returns:
        A domain (files and pictures, to be decoded and preprocessed), a tensor (pixels that go to the backbone as they
        are) or a float array (embeddings).

    Raises:
        InputError: If `X` is none of these, or empty.
    """
    if isinstance(X, Domain):
        return X
    if isinstance(X, (str, os.PathLike)):
        return open_queries(Path(X))
    if isinstance(X, Tensor):
        return _from_tensor(X)
    if isinstance(X, Image.Image):
        return _in_memory([X])
    if hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        return _from_array(np.asarray(X))
    if isinstance(X, Sequence):
        return _from_sequence(X)
    raise InputError(f"images were given as {type(X).__name__}: give {FORMS}")


def unlabeled_pictures(names: Sequence[str], pictures: Sequence[Image.Image | ndarray | str]) -> Domain:
    """Pictures in memory, or paths among them, as a domain of one nameless class."""
    return unlabeled("images", [f"{name}?" for name in names], PictureReader(tuple(pictures)))


def picture_names(pictures: Domain | Tensor | ndarray) -> tuple[str, ...]:
    """Name each image for messages: its path, or its number."""
    if isinstance(pictures, Domain):
        return tuple(pictures.image_name(index) for index in range(len(pictures)))
    return tuple(f"image {number}" for number in range(len(pictures)))


def embed_batches(
    backbone: Backbone,
    pictures: Domain | Tensor | ndarray,
    *,
    frozen: Backbone | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    description: str = "embedding",
    cache: EmbeddingCache | None = None,
) -> Iterator[Embedded]:
    """Embed images some at a time and in order; memory does not depend on their number.

    Args:
        backbone: What embeds them, with its adapter.
        pictures: What `as_pictures` gives. Embeddings are passed on as they are.
        frozen: A second backbone that sees the same pixels, for comparison.
        batch_size: How many images are embedded at a time.
        workers: Processes that decode files. Default: chosen by the number of cores.
        description: What the progress bar says.
        cache: Where embeddings are looked up and kept; pictures in memory have no place there.

    Yields:
        The embeddings of a batch, and why images among it have none.

    Raises:
        InputError: If embeddings were given that do not fit the backbone.
    """
    if isinstance(pictures, ndarray):
        yield _given_embeddings(backbone, pictures)
        return
    if isinstance(pictures, Domain) and pictures.vectors is not None:
        yield from _stored_embeddings(backbone, pictures, pictures.vectors, batch_size)
        return
    if (
        cache is not None
        and isinstance(pictures, Domain)
        and not any(name.endswith("?") for name in pictures.identities)
    ):
        yield from _batches_by_cache(backbone, frozen, pictures, cache, batch_size, workers, description)
        return
    for indices, pixels, failed in _pixel_batches(backbone, pictures, batch_size, workers, description):
        vectors = _embed(backbone, indices, pixels)
        yield Embedded(indices, vectors, failed, None if frozen is None else _embed(frozen, indices, pixels))


def _batches_by_cache(
    backbone: Backbone,
    frozen: Backbone | None,
    domain: Domain,
    cache: EmbeddingCache,
    batch_size: int,
    workers: int | None,
    description: str,
) -> Iterator[Embedded]:
    """The same, what the cache has being taken from there; images that it lacks share a batch as they did without."""
    models = [model for model in (backbone, frozen) if model is not None]
    shelves = [CachedRows(cache, EmbeddingKey.of(model), domain.identities, model.embedding_dim) for model in models]
    lacking = ~np.all([shelf.known for shelf in shelves], axis=0)
    decoding = partial(decode, domain, backbone.image_size, batch_size=batch_size, description=description)
    images = _one_by_one(decoding(indices=np.flatnonzero(lacking), workers=workers))
    with closing(images), ExitStack() as at_the_end:
        for shelf in shelves:
            at_the_end.callback(shelf.keep)
        for start in range(0, len(domain), batch_size):
            indices = np.arange(start, min(start + batch_size, len(domain)))
            kept = [shelf.read(indices) for shelf in shelves]
            found = np.all([known for known, _ in kept], axis=0) & ~lacking[indices]
            damaged = indices[~found & ~lacking[indices]]
            again = _one_by_one(decoding(indices=damaged, workers=0)) if len(damaged) else ()
            new = sorted([*islice(images, int(lacking[indices].sum())), *again], key=lambda image: image[0])
            read = np.array([index for index, pixels in new if isinstance(pixels, Tensor)], dtype=np.int64)
            found[read - start] = True
            vectors = [rows for _, rows in kept]
            if len(read):
                pixels = torch.stack([pixels for _, pixels in new if isinstance(pixels, Tensor)])
                for model, shelf, rows in zip(models, shelves, vectors, strict=True):
                    rows[read - start] = shelf.add(read, _embed(model, read, pixels))
            failed = tuple((index, reason) for index, reason in new if isinstance(reason, str))
            yield Embedded(indices[found], vectors[0][found], failed, None if frozen is None else vectors[1][found])


def _one_by_one(batches: Iterable[DecodedBatch]) -> Generator[tuple[int, Tensor | str]]:
    """Position and pixels of each image in order, or why it has none."""
    for batch in batches:
        images: list[tuple[int, Tensor | str]] = [
            *zip(batch.indices.tolist(), batch.pixels, strict=True),
            *batch.failed,
        ]
        yield from sorted(images, key=lambda image: image[0])


def check_tunable(pictures: Domain | Tensor | ndarray) -> None:
    """Raise `InputError` for what holds no raw pixels: a classifier tuned on its images needs them."""
    raw = pictures.vectors is None if isinstance(pictures, Domain) else pictures.dtype == torch.uint8
    if not raw:
        what = "normalized pixels" if isinstance(pictures, Tensor) else "embeddings"
        raise InputError(f"{what} were given to a classifier that is tuned on its images: give images, or uint8 pixels")


def readable_pixels(
    backbone: Backbone, pictures: Domain | Tensor, batch_size: int, workers: int | None
) -> UInt8[Tensor, "some 3 size size"]:
    """All images that can be read, as the backbone takes them, at once."""
    return torch.cat([part for _, part, _ in _pixel_batches(backbone, pictures, batch_size, workers, "decoding")])


def _pixel_batches(
    backbone: Backbone, pictures: Domain | Tensor, batch_size: int, workers: int | None, description: str
) -> Iterator[tuple[ndarray, Tensor, tuple[tuple[int, str], ...]]]:
    if isinstance(pictures, Tensor):
        for start in range(0, len(pictures), batch_size):
            part = pictures[start : start + batch_size]
            yield np.arange(start, start + len(part), dtype=np.int64), part, ()
        return
    if isinstance(pictures.reader, PictureReader):
        workers = 0  # sending pictures to another process costs more than decoding them here
    batches = decode(pictures, backbone.image_size, batch_size=batch_size, workers=workers, description=description)
    for batch in batches:
        yield batch.indices, batch.pixels, batch.failed


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
    backbone: Backbone, pictures: Domain, vectors: KnownVectors, batch_size: int
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


def _from_tensor(X: Tensor) -> Tensor | ndarray:
    if X.ndim == 2 and X.is_floating_point():
        return X.detach().cpu().float().numpy()
    if X.ndim == 3:
        X = X[None]
    if X.ndim != 4 or X.shape[1] != 3 or not (X.dtype == torch.uint8 or X.is_floating_point()):
        raise InputError(
            f"a tensor of shape {tuple(X.shape)} and type {X.dtype} was given: give uint8 or normalized float pixels "
            "(images, 3, size, size), or float embeddings (images, dim)"
        )
    return X


def _from_array(X: ndarray) -> Domain | ndarray | Tensor:
    if X.dtype.kind in "OUT" and X.ndim == 1:
        return _from_sequence(X.tolist())
    if X.ndim == 2 and X.dtype.kind == "f":
        return X
    if X.ndim == 4:
        return _in_memory(list(X))
    if X.ndim == 3 and X.shape[2] in (3, 4):
        return _in_memory([X])
    raise InputError(f"an array of shape {X.shape} and type {X.dtype} was given: give {FORMS}")


def _from_sequence(X: Sequence[Any]) -> Domain | Tensor | ndarray:
    if len(X) == 0:
        raise InputError(f"there are no images: give {FORMS}")
    if all(isinstance(item, (str, os.PathLike)) for item in X):
        return unlabeled_files("images", [os.fspath(item) for item in X])
    if all(isinstance(item, Tensor) for item in X):
        if len({item.shape for item in X}) > 1:
            raise InputError("the tensors differ in shape: give all of them in the backbone's size")
        return _from_tensor(torch.stack(list(X)))
    if all(isinstance(item, (ndarray, list)) and np.ndim(item) == 1 for item in X):
        return _from_array(np.asarray(X, dtype=np.float64))
    return _in_memory(X)


def _in_memory(X: Sequence[Any]) -> Domain:
    pictures = tuple(_picture(item, number) for number, item in enumerate(X))
    names = [item if isinstance(item, str) else f"image {number}" for number, item in enumerate(pictures)]
    return unlabeled_pictures(names, pictures)


def _picture(item: Any, number: int) -> Image.Image | ndarray | str:
    if isinstance(item, Image.Image):
        return item
    if isinstance(item, (str, os.PathLike)):
        return os.fspath(item)
    if isinstance(item, ndarray) and item.dtype == np.uint8:
        if item.ndim == 2 or (item.ndim == 3 and item.shape[2] in (3, 4)):
            return item
        if item.ndim == 3 and item.shape[2] == 1:
            return item[:, :, 0]
    what = f"{item.dtype} array of shape {item.shape}" if isinstance(item, ndarray) else type(item).__name__
    raise InputError(f"image {number} is a {what}: give a path, a PIL image, or a uint8 array (height, width, 3)")


def single_pixels(backbone: Backbone, image: Any) -> Tensor:
    """Bring one image into the form the backbone takes: a tensor (1, 3, size, size).

    Raises:
        InputError: If it is no image, several, an embedding, or cannot be read.
    """
    pictures = as_pictures(image)
    if isinstance(pictures, ndarray) or len(pictures) != 1:
        what = "an embedding" if isinstance(pictures, ndarray) else f"{len(pictures):,} images"
        raise InputError(f"{what} was given where one image was wanted: give a path, a PIL image or a uint8 array")
    if isinstance(pictures, Tensor):
        return pictures
    return next(iter(decode(pictures, backbone.image_size, workers=0, strict=True))).pixels
