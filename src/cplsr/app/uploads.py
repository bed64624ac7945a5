"""Files that visitors drop on the page: how many, how large, what of them is kept, and what is wrong with the rest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from PIL import Image

from cplsr.data.domain import UnreadableImageError
from cplsr.data.image_file import NO_MEMORY, read_image
from cplsr.data.preprocess import RESIZE_FACTOR, to_rgb, upright

THUMBNAIL_SIDE = 192
NAMED = 5


@final
@dataclass(frozen=True)
class Limits:
    """How much one visitor may bring, and how much all of them together may leave here.

    pixels: width × height of a picture. hourly_bytes: uploads are kept for an hour, so this bounds what is on disk.
    pictures_of_all: examples and answers in memory. files_per_drop: the rest is left out and counted.
    examples: of all classes of a visitor together. answers: on the page.
    """

    file_bytes: int = 20_000_000
    pixels: int = 50_000_000
    hourly_bytes: int = 1_000_000_000
    hourly_bytes_of_all: int = 4_000_000_000
    pictures_of_all: int = 10_000
    files_per_drop: int = 100
    classes: int = 100
    examples: int = 2000
    answers: int = 500
    name_letters: int = 60


@final
@dataclass(frozen=True, eq=False)
class Picture:
    """What is kept of an image: enough to embed it, show it and recognize it again.

    name: unique among a visitor's pictures.
    square: upright in RGB, at the size from which the center is cropped, so that `preprocess` of it and of the file
        are the same bytes. digest: a hash of it.
    thumbnail: a small JPEG in the original proportions.
    """

    name: str
    square: Image.Image
    thumbnail: bytes
    digest: str


@final
@dataclass(frozen=True, eq=False)
class Received:
    """What came of the files that were dropped at once: pictures, (name, reason) of others, how many were too many."""

    pictures: tuple[Picture, ...]
    unreadable: tuple[tuple[str, str], ...]
    left_out: int

    def remarks(self) -> tuple[str, ...]:
        """Tell the visitor in sentences what was left out."""
        sentences = []
        if self.unreadable:
            shown = "; ".join(f"{name} ({reason})" for name, reason in self.unreadable[:NAMED])
            more = f" and {len(self.unreadable) - NAMED:,} more" if len(self.unreadable) > NAMED else ""
            sentences.append(f"Left out, because it could not be read: {shown}{more}.")
        if self.left_out:
            sentences.append(f"That was too much at once: {self.left_out:,} files were left out. Drop them again.")
        return tuple(sentences)


def receive(files: Sequence[Path], image_size: int, limits: Limits, taken: Collection[str] = ()) -> Received:
    """Read dropped files one at a time; one that cannot be read does not stop the others.

    Names in `taken` are in use already; a second `a.png` becomes `a (2).png`.
    """
    pictures: list[Picture] = []
    unreadable: list[tuple[str, str]] = []
    used = set(taken)
    for file in files[: limits.files_per_drop]:
        try:
            picture = read_picture(file, free_name(file.name, used), image_size, limits)
        except (UnreadableImageError, MemoryError) as error:
            reason = NO_MEMORY if isinstance(error, MemoryError) else str(error)
            unreadable.append((file.name, reason))
        else:
            used.add(picture.name)
            pictures.append(picture)
    return Received(tuple(pictures), tuple(unreadable), max(0, len(files) - limits.files_per_drop))


def read_picture(file: Path, name: str, image_size: int, limits: Limits) -> Picture:
    """Decode one file and keep what is needed of it; `UnreadableImageError` if it is no image or beyond the limits."""
    size = file.stat().st_size if file.is_file() else 0
    if size > limits.file_bytes:
        raise UnreadableImageError(f"{size / 1e6:.0f} MB, more than the {limits.file_bytes / 1e6:.0f} MB allowed")
    image = to_rgb(upright(read_image(file, limits.pixels)))
    side = int(RESIZE_FACTOR * image_size)
    # Through an array: Pillow copies the file's EXIF data along, and the picture would be turned a second time.
    pixels = np.asarray(image.resize((side, side), Image.Resampling.BICUBIC))
    return Picture(
        name=name,
        square=Image.fromarray(pixels),
        thumbnail=_thumbnail(image),
        digest=hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest(),
    )


def free_name(name: str, used: Collection[str]) -> str:
    """Make a name unique: the name itself, or with the first free number where it is in use."""
    path, number, free = Path(name), 2, name
    while free in used:
        free = f"{path.stem} ({number}){path.suffix}"
        number += 1
    return free


def _thumbnail(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    stream = io.BytesIO()
    Image.fromarray(np.asarray(small)).save(stream, format="JPEG", quality=85)
    return stream.getvalue()
