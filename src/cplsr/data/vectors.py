"""Embeddings on disk in place of images: a folder of shards, written by `cplsr embed`, as a domain.

A shard is a safetensors file of the images of one part of the data: `embeddings` (in the number format of the model),
`kept` (which of the images they are of) and `labels` of all. Beside these stand the images' identities and what is
wrong with those that have no vector, under checksums. The same images, model and batches give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cplsr.data.domain import Domain, UnreadableImageError
from cplsr.errors import InputError
from cplsr.files import new_file, sealed, unsealed
from cplsr.records.vectors import INDEX, VectorsInfo

ONLY_VECTOR = "only its vector is kept, not the image"
_METADATA = "cplsr"
_TENSORS = ("embeddings", "kept", "labels")


@final
@dataclass(frozen=True, eq=False)
class VectorShard:
    """Images of one part of the data.

    Attributes:
        identities: of all images, as in `Domain`.
        labels: of all images.
        kept: positions of the images that have a vector.
        vectors: their vectors; `None` where only the rest was read.
        failed: (position, reason) of the others.
        groups: of all images, as in `Domain`.
        skipped: (name, reason) of files that were listed but could not be looked at.
    """

    identities: tuple[str, ...]
    labels: Int64[ndarray, "images"]
    kept: Int64[ndarray, "some"]
    vectors: Float[ndarray, "some dim"] | None
    failed: tuple[tuple[int, str], ...] = ()
    groups: tuple[Any, ...] | None = None
    skipped: tuple[tuple[str, str], ...] = ()

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        from cplsr.tensor_file import checksum_of  # with torch, which opening a folder of images does not need

        tensors = dict(zip(_TENSORS, (self.vectors, self.kept, self.labels), strict=True))
        ready = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items() if tensor is not None}
        content = {
            "identities": self.identities,
            "failed": self.failed,
            "groups": self.groups,
            "skipped": self.skipped,
            "tensors": checksum_of(ready),
        }
        with new_file(path, "wb") as stream:  # one entry of metadata: safetensors writes several in any order
            stream.write(save(ready, {_METADATA: sealed(content)}))

    @classmethod
    def read(cls, path: Path, *, header_only: bool = False) -> VectorShard:
        """Read what `write` wrote; with `header_only`, no vectors, and their bytes are not checked.

        Raises:
            InputError: The file is missing or damaged.
        """
        from cplsr.tensor_file import checksum_of

        try:
            with safe_open(path, framework="np") as stored:
                content = unsealed((stored.metadata() or {}).get(_METADATA, "{}"), path)
                names = _TENSORS[1:] if header_only else _TENSORS
                tensors = {name: stored.get_tensor(name) for name in names}
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise _damaged(path) from error
        if not header_only and checksum_of(tensors) != content.pop("tensors"):
            raise _damaged(path)
        content.pop("tensors", None)
        return cls(
            identities=tuple(content["identities"]),
            labels=tensors["labels"],
            kept=tensors["kept"],
            vectors=tensors.get("embeddings"),
            failed=tuple((index, reason) for index, reason in content["failed"]),
            groups=None if content["groups"] is None else tuple(content["groups"]),
            skipped=tuple((name, reason) for name, reason in content["skipped"]),
        )


def shard_file(folder: Path, number: int) -> Path:
    """Where shard number `number` is."""
    return folder / f"{number:06}.safetensors"


def shard_files(folder: Path) -> list[Path]:
    """All shards in a folder, in order."""
    return sorted(folder.glob("[0-9]*.safetensors"), key=lambda file: int(file.stem))


def is_vectors(folder: Path) -> bool:
    """Whether a folder was written by `cplsr embed`."""
    return (folder / INDEX).is_file()


def _no_pixels(reasons: Mapping[int, str], index: int) -> NoReturn:
    """There are no images in a folder of vectors; `reasons` says why those without a vector could not be read."""
    raise UnreadableImageError(reasons.get(index, ONLY_VECTOR))


@final
@dataclass(frozen=True, eq=False)
class StoredVectors:
    """The vectors of a domain that was opened from a folder of them; read shard by shard, when asked for.

    Attributes:
        folder: where they are.
        model: all they depend on besides the images.
        dim: numbers of a vector.
        starts: the number of each shard's first image.
        numbers: the numbers of the domain's images among all in the folder.
    """

    folder: Path
    model: Mapping[str, Any]
    dim: int
    starts: Int64[ndarray, "shards"]
    numbers: Int64[ndarray, "images"]

    def select(self, positions: Int64[ndarray, "images"]) -> StoredVectors:
        """The vectors of the images at some positions, in that order."""
        return replace(self, numbers=self.numbers[positions])

    def take(self, positions: Int64[ndarray, "some"]) -> tuple[Bool[ndarray, "some"], Float32[ndarray, "some dim"]]:
        """Which of the images at some positions have a vector, and a matrix of those; other rows hold no meaning."""
        numbers = self.numbers[positions]
        known, matrix = np.zeros(len(numbers), dtype=bool), np.empty((len(numbers), self.dim), dtype=np.float32)
        shards = np.searchsorted(self.starts, numbers, side="right") - 1
        for number in np.unique(shards).tolist():
            shard, vectors = _shard(shard_file(self.folder, number))
            row_of = np.full(len(shard.labels), -1, dtype=np.int64)
            row_of[shard.kept] = np.arange(len(shard.kept))
            here = np.flatnonzero(shards == number)
            rows = row_of[numbers[here] - self.starts[number]]
            known[here] = rows >= 0
            matrix[here[rows >= 0]] = vectors[rows[rows >= 0]]
        return known, matrix


@lru_cache(maxsize=1)
def _shard(path: Path) -> tuple[VectorShard, Float[ndarray, "some dim"]]:
    """The shard that was read last, and its vectors: batches come in order."""
    shard = VectorShard.read(path)
    if shard.vectors is None or shard.vectors.ndim != 2:
        raise _damaged(path)
    return shard, shard.vectors


def open_vectors(folder: Path) -> Domain:
    """Open a folder of vectors as the domain they were made of: the same classes, labels, identities and failures.

    Raises:
        InputError: It is unfinished or damaged.
    """
    info = VectorsInfo.read(folder)
    if info.shards is None:
        raise InputError(f"{folder} is unfinished: run the same `cplsr embed` again, which goes on where it stopped")
    shards = [VectorShard.read(shard_file(folder, number), header_only=True) for number in range(info.shards)]
    starts = np.cumsum([0, *(len(shard.labels) for shard in shards)])
    reasons = {
        int(start) + position: reason
        for start, shard in zip(starts[:-1], shards, strict=True)
        for position, reason in shard.failed
    }
    groups = [group for shard in shards for group in shard.groups or ()]
    told = chain(info.skipped, *(shard.skipped for shard in shards))
    domain = Domain(
        name=info.name,
        classes=tuple(info.classes),
        labels=np.concatenate([shard.labels for shard in shards]),
        identities=tuple(identity for shard in shards for identity in shard.identities),
        reader=partial(_no_pixels, reasons),
        groups=np.array(groups) if groups else None,
        skipped=tuple(dict.fromkeys(told)),  # older files tell the same more than once
        vectors=StoredVectors(folder, info.model, info.dim, starts[:-1], np.arange(starts[-1], dtype=np.int64)),
    )
    return domain.without_empty_classes()


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is missing or damaged: run the same `cplsr embed` again, which makes it anew")
