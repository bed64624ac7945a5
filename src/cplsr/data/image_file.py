"""Image files: which names count as images, and how one is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import final

from PIL import Image, UnidentifiedImageError

from cplsr.data.domain import UnreadableImageError

EXTENSIONS = frozenset(
    {
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".png", ".gif", ".webp", ".avif"),
        *(".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
    }
)


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS  # noqa: PTH122 (called for every file: no Path object)


def read_image(source: str | Path | bytes) -> Image.Image:
    """Read and fully decode an image from a file or from bytes; the first frame where there are several.

    Pillow has no common exception for a bad file: its decoders raise nearly everything, and nothing else runs here, so
    every exception becomes `UnreadableImageError`. A header that promises more than `Image.MAX_IMAGE_PIXELS` is not
    decoded at all.
    """
    try:
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source) as image:
            pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
            if limit is not None and pixels > limit:
                raise UnreadableImageError(f"{pixels:,} pixels, more than the {limit:,} that are safe to decode")
            image.load()
            return image
    except UnreadableImageError:
        raise
    except (UnidentifiedImageError, FileNotFoundError) as error:
        raise UnreadableImageError(_reason_unidentified(source)) from error
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(
            f"more pixels than the {Image.MAX_IMAGE_PIXELS:,} that are safe to decode"
        ) from error
    except Exception as error:
        raise UnreadableImageError(f"damaged image ({error})") from error


def _reason_unidentified(source: str | Path | bytes) -> str:
    if isinstance(source, bytes):
        return "not an image of a known format" if source else "0 bytes"
    if not Path(source).exists():
        return "no such file"
    return "not an image of a known format" if Path(source).stat().st_size else "0 bytes"


@final
@dataclass(frozen=True)
class FileReader:
    """Image files under one folder; `paths` are relative to it."""

    root: str
    paths: tuple[str, ...]

    def __call__(self, index: int) -> Image.Image:
        """Read image number `index`."""
        return read_image(os.path.join(self.root, self.paths[index]))  # noqa: PTH118 (paths may leave the root)
