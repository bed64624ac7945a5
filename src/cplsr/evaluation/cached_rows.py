"""Embeddings of many images out of the cache, some at a time: memory does not depend on their number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy import ndarray
from safetensors import SafetensorError, safe_open

from cplsr.evaluation.cache import SHARDS, EmbeddingCache, EmbeddingKey, digests_of, read_shard
from cplsr.evaluation.embed import IMAGES_PER_SHARD

SHARDS_HELD = 2
"""Images come in the order in which they were kept, mostly, so that few shards at a time are needed."""


class CachedRows:
    """What the cache knows of some images: looked up once, read as it is asked for, and added to."""

    def __init__(self, cache: EmbeddingCache, key: EmbeddingKey, identities: Sequence[str], dim: int) -> None:
        self._cache, self._key, self._identities, self._dim = cache, key, identities, dim
        self._files = sorted((cache.folder / key.folder_name).glob(SHARDS))
        self._digests = digests_of(identities)
        self._shard = _places(self._files, self._digests)
        self._open = lru_cache(SHARDS_HELD)(self._rows_of)
        self._unkept: dict[int, Float32[ndarray, "dim"]] = {}

    @property
    def known(self) -> Bool[ndarray, "images"]:
        """Which of the images the cache has; a damaged shard shows only when it is read."""
        return self._shard >= 0

    def read(self, indices: Int64[ndarray, "some"]) -> tuple[Bool[ndarray, "some"], Float32[ndarray, "some dim"]]:
        """Which of these images are known after all, and their embeddings; the other rows hold no meaning."""
        vectors = np.empty((len(indices), self._dim), dtype=np.float32)
        found = np.zeros(len(indices), dtype=bool)
        for place, index in enumerate(indices.tolist()):
            if self._shard[index] < 0:
                continue
            rows, kept = self._open(int(self._shard[index]))
            row = rows.get(self._digests[index].tobytes())
            if row is not None:
                vectors[place], found[place] = kept[row], True
        return found, vectors

    def add(
        self, indices: Int64[ndarray, "some"], vectors: Float32[ndarray, "some dim"]
    ) -> Float32[ndarray, "some dim"]:
        """Take new embeddings, to be kept; returned as the cache will give them back."""
        rounded = vectors.astype(self._key.number_format).astype(np.float32)
        self._unkept.update(zip(indices.tolist(), rounded, strict=True))
        if len(self._unkept) >= IMAGES_PER_SHARD:
            self.keep()
        return rounded

    def keep(self) -> None:
        """Write what is new to the cache."""
        if self._unkept:
            identities = [self._identities[index] for index in self._unkept]
            self._cache.write(self._key, identities, np.stack(list(self._unkept.values())))
        self._unkept.clear()

    def _rows_of(self, number: int) -> tuple[dict[bytes, int], ndarray]:
        shard = read_shard(self._files[number], self._dim)
        if shard is None:
            return {}, np.empty((0, self._dim), dtype=np.float32)
        digests, vectors = shard
        return {digest.tobytes(): row for row, digest in enumerate(digests)}, vectors


def _places(files: Sequence[Path], digests: ndarray) -> Int64[ndarray, "images"]:
    """The number of the shard that has each image; -1 where none has."""
    numbers: dict[bytes, int] = {}
    wanted = {digest.tobytes() for digest in digests}
    for number, file in enumerate(files):
        try:
            with safe_open(file, framework="numpy") as tensors:  # only what tells the images apart is read
                for digest in tensors.get_tensor("images"):
                    if (image := digest.tobytes()) in wanted:
                        numbers[image] = number
        except (OSError, SafetensorError, KeyError):
            continue  # gone a moment ago, or damaged: made again
    return np.array([numbers.get(digest.tobytes(), -1) for digest in digests], dtype=np.int64)
