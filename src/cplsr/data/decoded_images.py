"""Decoded images of a domain in one memory-mapped file, made once and shared by all runs."""

from __future__ import annotations

import hashlib
import logging
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.data.decode import decode
from cplsr.data.domain import Domain
from cplsr.environment import cache_folder
from cplsr.errors import InputError
from cplsr.files import UnwritableError, new_folder, read_sealed, sha256_of, write_sealed
from cplsr.processes import Processes

PIXELS, INDEX = "pixels.u8", "index.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """The readable images of a domain at one size; memory-mapped, so that only what is used is in memory."""

    pixels: UInt8[ndarray, "decoded 3 size size"]
    labels: Int64[ndarray, "images"]
    classes: tuple[str, ...]
    fingerprint: str
    unreadable: tuple[str, ...]
    rows: Int64[ndarray, "images"] | None = None
    """Where only some images were decoded, the row of `pixels` that each has; -1 of the others."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Int64[ndarray, "..."]) -> UInt8[Tensor, "chosen 3 size size"]:
        """Copy some images, in the given order."""
        rows = indices.reshape(-1) if self.rows is None else self.rows[indices.reshape(-1)]
        if self.rows is not None and (rows < 0).any():
            raise ValueError("an image was asked for that was not among those to decode")
        return torch.from_numpy(self.pixels[rows])


def decoded_images(domain: Domain, size: int, *, processes: Processes, workers: int | None = None) -> DecodedImages:
    """Open the decoded images of `domain`, decoding them first if no whole and undamaged copy is in the cache."""
    copy = _copy_of(domain, size)
    kept_there = processes.gather(processes.first and _is_kept(copy, domain, size, workers))[0]
    if not kept_there:
        return _in_memory(domain, size, workers)
    index = read_sealed(copy / INDEX)
    kept = np.array(index["kept"], dtype=np.int64)
    pixels = np.memmap(copy / PIXELS, dtype=np.uint8, mode="r", shape=(len(kept), 3, size, size))
    return DecodedImages(pixels, domain.labels[kept], domain.classes, domain.fingerprint, tuple(index["unreadable"]))


def some_decoded_images(
    domain: Domain,
    wanted: Int64[ndarray, "wanted"],
    size: int,
    *,
    processes: Processes,
    workers: int | None = None,
) -> DecodedImages:
    """The same where only the images at `wanted` will be taken: no others are decoded.

    All images of the domain keep their numbers and labels. If one of the wanted cannot be read, all are decoded, since
    it takes all to know which are left; if all are decoded already, and every one was readable, these are used.
    """
    decoded = partial(decoded_images, size=size, processes=processes, workers=workers)
    if processes.gather(processes.first and _all_there(_copy_of(domain, size)))[0]:
        return decoded(domain)
    some = decoded(domain.select(wanted))
    if some.unreadable:
        return decoded(domain)
    rows = np.full(len(domain), -1, dtype=np.int64)
    rows[wanted] = np.arange(len(wanted))
    return replace(some, labels=domain.labels, fingerprint=domain.fingerprint, rows=rows)


def _copy_of(domain: Domain, size: int) -> Path:
    return cache_folder() / "images" / hashlib.sha256(f"2 {domain.fingerprint} {size}".encode()).hexdigest()[:32]


def _all_there(copy: Path) -> bool:
    try:
        return not read_sealed(copy / INDEX)["unreadable"]
    except (OSError, ValueError, KeyError):
        return False


def _is_kept(copy: Path, domain: Domain, size: int, workers: int | None) -> bool:
    """Whether a whole copy is in the cache by now; without room for one the images are held in memory instead."""
    try:
        if not _is_whole(copy):
            _decode_to(copy, domain, size, workers)
    except UnwritableError as error:
        warnings.warn(
            f"decoded images could not be kept in {copy} ({error.reason}): this run holds them in memory", stacklevel=3
        )
        return False
    return True


def _in_memory(domain: Domain, size: int, workers: int | None) -> DecodedImages:
    batches = list(decode(domain, size, workers=workers, description=f"decoding {domain.name}"))
    kept = np.concatenate([batch.indices for batch in batches])
    pixels = np.concatenate([batch.pixels.numpy() for batch in batches])
    unreadable = tuple(domain.image_name(number) for batch in batches for number, _ in batch.failed)
    return DecodedImages(pixels, domain.labels[kept], domain.classes, domain.fingerprint, unreadable)


def _is_whole(copy: Path) -> bool:
    """Whether the copy is there and its bytes are those that were written."""
    try:
        if sha256_of(copy / PIXELS) == read_sealed(copy / INDEX)["pixels"]:
            return True
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError):
        pass
    _log.warning("the decoded images in %s are damaged and are made again", copy)
    return False


def _decode_to(copy: Path, domain: Domain, size: int, workers: int | None) -> None:
    _log.info("decoding %d images of %s for the cache", len(domain), domain.name)
    kept: list[int] = []
    unreadable: list[str] = []
    with new_folder(copy) as folder:
        with (folder / PIXELS).open("wb") as stream:
            for batch in decode(domain, size, workers=workers, description=f"decoding {domain.name}"):
                stream.write(batch.pixels.numpy().tobytes())
                kept += batch.indices.tolist()
                unreadable += [domain.image_name(number) for number, _ in batch.failed]
        if not kept:
            raise InputError(f"none of the {len(domain)} images of {domain.name} can be read")
        content = {"kept": kept, "unreadable": unreadable, "pixels": sha256_of(folder / PIXELS)}
        write_sealed(folder / INDEX, {"domain": domain.name, "size": size, **content})
