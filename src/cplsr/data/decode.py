"""Decoding a domain's images in worker processes: results in order, in bounded memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, final

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cplsr.data.domain import Domain, ImageReader, UnreadableImageError
from cplsr.data.image_file import NO_MEMORY
from cplsr.data.preprocess import preprocess
from cplsr.engines import end_with_parent
from cplsr.errors import InputError
from cplsr.progress import progress_bar

PREFETCHED_BATCHES = 2
MAX_WORKERS = 2
Result = TypeVar("Result")


@final
@dataclass(frozen=True)
class DecodedBatch:
    """Pixels of the images that could be read, ready for a backbone, and their positions in the domain as `indices`.

    Of the others, `failed` has (position, reason).
    """

    indices: Int64[np.ndarray, "batch"]
    pixels: UInt8[Tensor, "batch 3 size size"]
    failed: tuple[tuple[int, str], ...]


@final
@dataclass(frozen=True)
class Outcomes(Generic[Result]):
    """What became of one batch of images: results and failures, each with the image's position in the domain."""

    done: tuple[tuple[int, Result], ...]
    failed: tuple[tuple[int, str], ...]


def decode(
    domain: Domain,
    image_size: int,
    *,
    indices: Sequence[int] | np.ndarray | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    strict: bool = False,
    description: str = "decoding",
) -> Iterator[DecodedBatch]:
    """Decode and preprocess images, and yield them in order.

    Worker processes decode at most two batches each ahead of the consumer, so memory does not depend on the number of
    images. They end with the iterator: when it is used up, closed, dropped, or when the consumer raises.

    Args:
        domain: where the images are.
        image_size: pixels a side of the results.
        indices: positions of the images; default: all.
        batch_size: images in a batch.
        workers: processes that decode; 0 decodes in this process, `None` takes up to two if there is enough to do.
        strict: raise for an image that cannot be read, instead of naming it in `failed` of its batch.
        description: what the progress bar says.

    Raises:
        InputError: a number is out of range, or an image cannot be read and `strict` is set.

    Example:
        >>> from cplsr import open_domain
        >>> batch = next(decode(open_domain("digits"), 32, batch_size=4))
        >>> batch.pixels.shape, batch.indices.tolist(), batch.failed
        (torch.Size([4, 3, 32, 32]), [0, 1, 2, 3], ())
    """
    if image_size < 1:
        raise InputError(f"image size {image_size} was asked for: it must be at least 1")
    outcomes = over_images(
        domain,
        partial(preprocess, size=image_size),
        indices=indices,
        batch_size=batch_size,
        workers=workers,
        description=description,
    )
    return _stack(domain, image_size, outcomes, strict)


def _stack(domain: Domain, size: int, outcomes: Iterator[Outcomes[np.ndarray]], strict: bool) -> Iterator[DecodedBatch]:
    for batch in outcomes:
        if strict and batch.failed:
            index, reason = batch.failed[0]
            raise InputError(
                f"{domain.image_name(index)} in {domain.name} cannot be read: {reason}; "
                "replace or remove it, or leave out --strict to skip such images"
            )
        pixels = np.array([image for _, image in batch.done], dtype=np.uint8).reshape(-1, 3, size, size)
        indices = np.array([index for index, _ in batch.done], dtype=np.int64)
        yield DecodedBatch(indices, torch.from_numpy(pixels), batch.failed)


def over_images(
    domain: Domain,
    work: Callable[[Image.Image], Result],
    *,
    indices: Sequence[int] | np.ndarray | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    description: str = "reading",
) -> Iterator[Outcomes[Result]]:
    """Read images and apply `work` (picklable) to each in worker processes; see `decode` for order, memory and ends."""
    if batch_size < 1 or (workers is not None and workers < 0):
        raise InputError(f"batch size {batch_size} and {workers} workers: give at least 1 and at least 0")
    positions = np.arange(len(domain)) if indices is None else np.asarray(indices, dtype=np.int64).reshape(-1)
    if len(positions) and not 0 <= positions.min() <= positions.max() < len(domain):
        raise InputError(
            f"images {positions.min()} to {positions.max()} were asked for, but {domain.name} has {len(domain):,}"
        )
    if workers is None:
        workers = min(MAX_WORKERS, os.cpu_count() or 1) if len(positions) > batch_size else 0
    loader = DataLoader(
        _Work(domain.reader, work),
        batch_size=batch_size,
        sampler=positions.tolist(),
        num_workers=workers,
        collate_fn=_collate,
        prefetch_factor=PREFETCHED_BATCHES if workers else None,
        worker_init_fn=partial(_start_worker, parent=os.getpid()),
        generator=torch.Generator(),  # else the loader would draw from torch's global random numbers
    )
    return _run(loader, len(positions), description)


def _run(loader: DataLoader, images: int, description: str) -> Iterator[Outcomes]:
    batches = iter(loader)
    try:
        with progress_bar(images, description) as bar:
            for outcomes in batches:
                yield outcomes
                bar.update(len(outcomes.done) + len(outcomes.failed))
    finally:
        # Workers end with the loader's iterator, but the traceback of an exception may keep that alive for long.
        shut_down = getattr(batches, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()


@final
@dataclass(frozen=True)
class _Work(Dataset):
    """Image number i, read and worked on: (i, result, no reason) or (i, nothing, the reason why)."""

    reader: ImageReader
    work: Callable[[Image.Image], Any]

    def __getitem__(self, index: int) -> tuple[int, Any, str | None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd files name no file, so nobody could act on them
            try:
                return index, self.work(self.reader(index)), None
            except UnreadableImageError as error:
                return index, None, str(error)
            except OSError as error:
                return index, None, error.strerror or str(error)
            except MemoryError:
                return index, None, NO_MEMORY


def _start_worker(worker: int, parent: int) -> None:
    """Give a worker process one thread: the libraries below numpy would start as many as there are cores in each."""
    threadpool_limits(1)
    end_with_parent(parent)


def _collate(rows: list[tuple[int, Any, str | None]]) -> Outcomes:
    """Keep the results as they are: numpy arrays travel by pipe, where tensors would need room in /dev/shm."""
    done = tuple((index, result) for index, result, reason in rows if reason is None)
    return Outcomes(done, tuple((index, reason) for index, _, reason in rows if reason is not None))
