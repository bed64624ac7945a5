"""From the images of a domain to a matrix of embeddings, each image once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from numpy import ndarray

from cplsr.data.decode import decode
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone
    from cplsr.data.domain import Domain

IMAGES_PER_SHARD = 2048
"""How many new embeddings are kept at a time: what a killed run loses at most."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row per readable image of a domain.

    indices: the rows' positions in the domain.
    labels: positions in `classes`.
    failed: (name, reason) of the images that could not be read and have no row.
    new: how many of the rows were computed now; the others came from the cache.
    """

    name: str
    classes: tuple[str, ...]
    vectors: Float32[ndarray, "images dim"]
    labels: Int64[ndarray, "images"]
    indices: Int64[ndarray, "images"]
    groups: Shaped[ndarray, "images"] | None = None
    flags: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    new: int = 0

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.vectors)

    def only(self, indices: Int64[ndarray, "some"]) -> Embeddings:
        """The rows at some positions of the domain (ascending, and all of them present)."""
        rows = np.searchsorted(self.indices, indices)
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, vectors=self.vectors[rows], labels=self.labels[rows], indices=indices, groups=groups)


def embed_domain(
    backbone: Backbone,
    domain: Domain,
    *,
    batch_size: int = 64,
    workers: int | None = None,
    strict: bool = False,
    cache: EmbeddingCache | None = None,
) -> Embeddings:
    """Embed every image of a domain with the backbone and the adapter that is on it.

    cache: where embeddings are looked up and kept; `None` computes all of them and keeps none.
    strict: an image that cannot be read is an error; else it is left out, named in `failed`, and a warning.
    """
    key = EmbeddingKey.of(backbone)
    vectors = np.empty((len(domain), backbone.dim), dtype=np.float32)
    known = np.zeros(len(domain), dtype=bool)
    if cache is not None:
        known, vectors = cache.read(key, domain.identities, backbone.dim)
    missing = np.flatnonzero(~known)
    failed: list[tuple[str, str]] = []
    unkept: list[int] = []

    def keep() -> None:
        if cache is not None and unkept:
            cache.write(key, [domain.identities[index] for index in unkept], vectors[unkept])
        unkept.clear()

    try:
        for indices, rows, unreadable in _embed(backbone, domain, missing, batch_size, workers, strict):
            vectors[indices] = rows
            known[indices] = True
            failed.extend((domain.image_name(index), reason) for index, reason in unreadable)
            unkept.extend(indices.tolist())
            if len(unkept) >= IMAGES_PER_SHARD:
                keep()
    finally:
        keep()
    _warn_of_failed(domain, failed)
    kept = np.flatnonzero(known)
    return Embeddings(
        name=domain.name,
        classes=domain.classes,
        vectors=vectors if len(kept) == len(domain) else vectors[kept],
        labels=domain.labels[kept],
        indices=kept,
        groups=None if domain.groups is None else domain.groups[kept],
        flags=domain.flags,
        failed=tuple(failed),
        new=len(missing) - len(failed),
    )


def _embed(
    backbone: Backbone, domain: Domain, missing: ndarray, batch_size: int, workers: int | None, strict: bool
) -> Iterator[tuple[Int64[ndarray, "batch"], Float32[ndarray, "batch dim"], tuple[tuple[int, str], ...]]]:
    if len(missing) == 0:
        return
    batches = decode(
        domain,
        backbone.image_size,
        indices=missing,
        batch_size=batch_size,
        workers=workers,
        strict=strict,
        description=f"embedding {domain.name}",
    )
    for batch in batches:
        if len(batch.indices) == 0:
            yield batch.indices, np.empty((0, backbone.dim), dtype=np.float32), batch.failed
            continue
        with torch.inference_mode():
            rows = backbone(batch.pixels.to(backbone.device)).float().cpu().numpy()
        if not np.isfinite(rows).all():
            name = domain.image_name(int(batch.indices[np.flatnonzero(~np.isfinite(rows).all(axis=1))[0]]))
            raise InputError(
                f"the embedding of {name} in {domain.name} is not finite: the weights are damaged, or the precision "
                f"{backbone.precision} is too coarse for this backbone; try --precision fp32"
            )
        yield batch.indices, rows, batch.failed


def _warn_of_failed(domain: Domain, failed: list[tuple[str, str]]) -> None:
    if failed:
        name, reason = failed[0]
        warnings.warn(
            f"{len(failed)} of {len(domain)} images of {domain.name} cannot be read and are left out, "
            f"the first is {name}: {reason}",
            stacklevel=3,
        )
