"""From the images of a domain to a matrix of embeddings, each image once, for one model or for several."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from numpy import ndarray
from torch import Tensor

from cplsr.adapters.attach import detach
from cplsr.adapters.store import load_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.data.decode import DecodedBatch, decode
from cplsr.data.decoded_images import DecodedImages
from cplsr.data.domain import Domain
from cplsr.errors import InputError
from cplsr.evaluation.cache import CachedRows, EmbeddingCache, EmbeddingKey
from cplsr.processes import Processes
from cplsr.records.adapter import AdapterInfo

IMAGES_PER_TURN = 512
"""Decoded images that are held while several models take turns, since putting an adapter on has its price."""

Model = Callable[[], AbstractContextManager[Any]]
"""Gives a context in which the backbone is the model: `contextlib.nullcontext`, or a `stored_adapter`."""

BATCH = 64
"""Decoded images of a training run that are embedded at a time."""


@contextmanager
def stored_adapter(backbone: Backbone, info: AdapterInfo) -> Iterator[None]:
    """Put an adapter from its folder on the backbone, until the end of the block."""
    load_adapter(backbone, info.folder)
    try:
        yield
    finally:
        detach(backbone)


@contextmanager
def quietly(model: Model) -> Iterator[None]:
    """Be that model until the end of the block, without the warnings of becoming it."""
    with ExitStack() as stack:
        with warnings.catch_warnings(action="ignore"):
            stack.enter_context(model())
        yield


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row per readable image of a domain.

    Attributes:
        indices: The rows' positions in the domain.
        labels: Positions in `classes`.
        failed: (name, reason) of the images that could not be read and have no row.
        new: How many of the rows were computed now; the others came from the cache.
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


def embed_domain(backbone: Backbone, domain: Domain, **options: Any) -> Embeddings:
    """Embed every image of a domain with the backbone and the adapter that is on it; options as for `embed_many`."""
    return embed_many(backbone, domain, [nullcontext], **options)[0]


def embed_many(
    backbone: Backbone,
    domain: Domain,
    models: Sequence[Model],
    *,
    batch_size: int = 64,
    workers: int | None = None,
    strict: bool = False,
    cache: EmbeddingCache | None = None,
) -> list[Embeddings]:
    """Embed every image of a domain by each of several models: it is decoded once, if any of them lacks it.

    A model is entered once to look up what the cache holds for it, and again for each turn of decoded images that it
    lacks; what it warns of is said the first time only.

    Args:
        backbone: What becomes each of the models.
        domain: The images.
        models: The backbone as it is, or with something on it.
        batch_size: Images that are embedded at a time.
        workers: Processes that decode images; `None` takes as many as suit the machine.
        strict: An image that cannot be read is an error; else it is left out, named in `failed`, and a warning.
        cache: Where embeddings are looked up and kept; `None` computes all of them and keeps none.
    """
    shares = [_Share(backbone, domain, model, cache) for model in models]
    wanted = np.flatnonzero(np.any([share.missing for share in shares], axis=0)) if shares else np.empty(0, np.int64)
    if len(wanted) == 0:
        return [share.embeddings([]) for share in shares]
    failed: list[tuple[int, str]] = []
    decoding = partial(decode, domain, backbone.image_size, strict=strict, description=f"embedding {domain.name}")
    batches = decoding(indices=wanted, batch_size=batch_size, workers=workers)
    at_once = math.ceil(IMAGES_PER_TURN / batch_size) if len(models) > 1 else 1
    try:
        with closing(batches):  # type: ignore[type-var]
            while turn := list(islice(batches, at_once)):
                failed += [failure for batch in turn for failure in batch.failed]
                for share in shares:
                    share.embed(turn)
    finally:
        for share in shares:
            share.keep()
    if failed:
        index, reason = failed[0]
        warnings.warn(
            f"{len(failed)} of {len(domain)} images of {domain.name} cannot be read and are left out, "
            f"the first is {domain.image_name(index)}: {reason}",
            stacklevel=3,
        )
    return [share.embeddings(failed) for share in shares]


def embed_pixels(
    backbone: Backbone, pixels: Shaped[Tensor, "images 3 size size"], name: Callable[[int], str]
) -> Float32[ndarray, "images dim"]:
    """Embed images as they are, with the adapter that is on the backbone: the one way from pixels to vectors.

    Raises:
        InputError: An embedding is not finite; `name` tells what to call the image, by its position among these.
    """
    with torch.inference_mode():
        vectors = backbone(pixels.to(backbone.device)).float().cpu().numpy()
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InputError(
            f"the embedding of {name(int(finite.argmin()))} is not finite: the weights of {backbone.source!r} are "
            f"damaged, or the precision {backbone.precision} is too coarse for this backbone; try --precision fp32"
        )
    return vectors


def embed_decoded(
    backbone: Backbone, images: DecodedImages, batches: Iterable[tuple[int, Int64[ndarray, "_"]]]
) -> Iterator[Float32[ndarray, "_ dim"]]:
    """Embed batches of images that are decoded already: how often each is turned by 90°, and its images' positions."""
    for turn, indices in batches:
        pixels = torch.rot90(images.take(indices), turn, dims=(-2, -1))
        yield embed_pixels(backbone, pixels, lambda row, at=indices: f"image {at[row]}")  # type: ignore[misc]


def embed_turned(
    backbone: Backbone, images: DecodedImages, chosen: Int64[ndarray, "chosen"], turns: int, processes: Processes
) -> Float32[ndarray, "rows dim"]:
    """All chosen images as they are, then all turned once, and so on; every process gets all the rows."""
    turned = [(turn, batch) for turn in range(turns) for batch in in_batches(chosen)]
    return np.concatenate(processes.unshare(list(embed_decoded(backbone, images, processes.share(turned)))))


def in_batches(numbers: Int64[ndarray, "images"]) -> list[Int64[ndarray, "some"]]:
    """Numbers of images in pieces of one batch."""
    return np.split(numbers, range(BATCH, len(numbers), BATCH))


class _Share:
    """What one model knows of a domain's images, and what it has still to embed."""

    def __init__(self, backbone: Backbone, domain: Domain, model: Model, cache: EmbeddingCache | None) -> None:
        self._backbone, self._domain, self._model = backbone, domain, model
        with model():
            self._key = EmbeddingKey.of(backbone)
        self._vectors = np.empty((len(domain), backbone.embedding_dim), dtype=np.float32)
        self._known = np.zeros(len(domain), dtype=bool)
        self._shelf: CachedRows | None = None
        if domain.vectors is not None:
            self._key.require(domain.vectors.model, domain.vectors.folder)
            self._known, self._vectors = domain.vectors.take(np.arange(len(domain)))
        elif cache is not None:
            self._shelf = CachedRows(cache, self._key, domain.identities, backbone.embedding_dim)
            self._known, self._vectors = self._shelf.read(np.arange(len(domain)))
        self.missing = ~self._known

    def embed(self, turn: list[DecodedBatch]) -> None:
        """Embed those of the decoded images that were missing."""
        lacking = [(batch, rows) for batch in turn if len(rows := np.flatnonzero(self.missing[batch.indices]))]
        if not lacking:
            return
        with quietly(self._model):  # what it warns of was said when the cache was looked up
            for batch, rows in lacking:
                whole = len(rows) == len(batch.indices)
                self._take(batch.indices[rows], batch.pixels if whole else batch.pixels[torch.from_numpy(rows)])

    def _take(self, indices: Int64[ndarray, "batch"], pixels: Tensor) -> None:
        domain = self._domain
        vectors = embed_pixels(
            self._backbone, pixels, lambda row: f"{domain.image_name(int(indices[row]))} in {domain.name}"
        )
        self._vectors[indices] = vectors.astype(self._key.number_format)  # now what the cache gives back later
        self._known[indices] = True
        if self._shelf is not None:
            self._shelf.add(indices, vectors)

    def keep(self) -> None:
        """Write what is new to the cache."""
        if self._shelf is not None:
            self._shelf.keep()

    def embeddings(self, failed: Sequence[tuple[int, str]]) -> Embeddings:
        """The rows of all images that are known by now; `failed` are the positions that could not be decoded."""
        domain, kept = self._domain, np.flatnonzero(self._known)
        own = tuple((domain.image_name(index), reason) for index, reason in failed if self.missing[index])
        return Embeddings(
            name=domain.name,
            classes=domain.classes,
            vectors=self._vectors if len(kept) == len(domain) else self._vectors[kept],
            labels=domain.labels[kept],
            indices=kept,
            groups=None if domain.groups is None else domain.groups[kept],
            flags=domain.flags,
            failed=own,
            new=int(self.missing.sum()) - len(own),
        )
