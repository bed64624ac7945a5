"""Files that visitors drop on the page: how many, how large, what of them is kept, and what is wrong with the rest."""

from __future__ import annotations

import hashlib
import io
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import final
from uuid import uuid4

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image

from cplsr.data.domain import UnreadableImageError
from cplsr.data.image_file import NO_MEMORY, read_image
from cplsr.data.preprocess import crop_of, to_rgb, upright

THUMBNAIL_SIDE = 192


@final
@dataclass(frozen=True)
class Limits:
    """How much one visitor may bring, and how much all of them together may leave here.

    pixels: width × height of a picture. hourly_bytes: that may arrive. kept_bytes_of_all: files of what is in use.
    pictures_of_all: examples and answers in memory. examples: of all classes of a visitor together.
    """

    file_bytes: int = 20_000_000
    pixels: int = 50_000_000
    hourly_bytes: int = 4_000_000_000
    hourly_bytes_of_all: int = 8_000_000_000
    kept_bytes_of_all: int = 8_000_000_000
    pictures_of_all: int = 20_000
    classes: int = 100
    examples: int = 2000
    answers: int = 5000
    name_letters: int = 60


@final
@dataclass(frozen=True, eq=False)
class Picture:
    """What is kept of an image: its file, and what is needed to show it and to recognize it again.

    name: unique among a visitor's pictures. side: of the square from which the center is cropped.
    thumbnail: a small JPEG in the original proportions. digest: a hash of the square.
    size: of the file, in bytes.
    """

    name: str
    file: Path
    side: int
    thumbnail: bytes
    digest: str
    size: int

    def square(self) -> Image.Image:
        """Decode the file: upright, in RGB, at a size of which `preprocess` makes the same bytes as of the file."""
        return Image.fromarray(_square(to_rgb(upright(read_image(self.file))), self.side))


def receive(
    files: Sequence[Path], image_size: int, limits: Limits, taken: Collection[str] = (), folder: Path | None = None
) -> tuple[list[Picture], list[tuple[str, str]]]:
    """Read files one at a time: pictures, and (name, reason) of those that cannot be read.

    Names in `taken` are in use already; a second `a.png` becomes `a (2).png`. Files are moved into the folder, if one
    is given, and are there as long as the picture is in use.
    """
    pictures: list[Picture] = []
    unreadable: list[tuple[str, str]] = []
    used = set(taken)
    for file in files:
        try:
            picture = read_picture(file, free_name(file.name, used), image_size, limits)
        except (UnreadableImageError, MemoryError) as error:
            unreadable.append((file.name, NO_MEMORY if isinstance(error, MemoryError) else str(error)))
        else:
            used.add(picture.name)
            pictures.append(picture if folder is None else _moved(picture, folder))
    return pictures, unreadable


def read_picture(file: Path, name: str, image_size: int, limits: Limits) -> Picture:
    """Decode one file and keep what is needed of it; `UnreadableImageError` if it is no image or beyond the limits."""
    size = file.stat().st_size if file.is_file() else 0
    if size > limits.file_bytes:
        raise UnreadableImageError(f"{size / 1e6:.0f} MB, more than the {limits.file_bytes / 1e6:.0f} MB allowed")
    image = to_rgb(upright(read_image(file, limits.pixels)))
    side, _ = crop_of(image_size)
    digest = hashlib.blake2b(_square(image, side).tobytes(), digest_size=16).hexdigest()
    return Picture(name, file, side, _thumbnail(image), digest, size)


def _square(image: Image.Image, side: int) -> UInt8[ndarray, "side side 3"]:
    # As an array: Pillow copies the file's EXIF data along, and the picture would be turned a second time.
    return np.asarray(image.resize((side, side), Image.Resampling.BICUBIC))


def _moved(picture: Picture, folder: Path) -> Picture:
    """The picture with its file in a folder, from where it goes when nobody has the picture any more."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{uuid4().hex}{picture.file.suffix}"
    picture.file.rename(place)
    moved = replace(picture, file=place)
    weakref.finalize(moved, place.unlink, missing_ok=True).atexit = False  # the whole folder goes then
    return moved


def free_name(name: str, used: Collection[str]) -> str:
    """Make a name unique: the name itself, or with the first free number where it is in use."""
    path = Path(name)
    numbered = (f"{path.stem} ({number}){path.suffix}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in used)


def _thumbnail(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    stream = io.BytesIO()
    Image.fromarray(np.asarray(small)).save(stream, format="JPEG", quality=85)
    return stream.getvalue()
