"""Image files: which names count as images, and how one is read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import final

from PIL import Image, UnidentifiedImageError

from cplsr.data.domain import RootedReader, UnreadableImageError

FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif"),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2",),
}
"""What is read, by Pillow's names, and the endings of such files. Whatever a file is called, no other of Pillow's
readers sees it: some of them start other programs."""
EXTENSIONS = frozenset(ending for endings in FORMATS.values() for ending in endings)
PACKAGES = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "pillow-heif"),
    b"avif": "'pillow>=11.3'",
}
"""What to install where Pillow alone cannot read pictures of these brands, which stand in their first bytes."""
MAX_SIDE = 30_000
NO_MEMORY = "there is too little memory to decode it"


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS  # noqa: PTH122 (called for every file: no Path object)


def require_regular(status: os.stat_result) -> None:
    """Refuse what is no file, with an `OSError`: opening a pipe waits for ever, and a device has no end."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_image(source: str | Path | bytes, max_pixels: int | None = None) -> Image.Image:
    """Read and fully decode an image; of several frames the first.

    Args:
        source: a regular file, or its content.
        max_pixels: an image of more, or of more than `MAX_SIDE` on a side, is not decoded; default: Pillow's limit.

    Raises:
        UnreadableImageError: whatever is wrong with the image. Pillow has no common exception for a bad file: its
            decoders raise nearly everything, and nothing else runs here.
    """
    try:
        if not isinstance(source, bytes):
            require_regular(os.stat(source))  # noqa: PTH116 (called for every file: no Path object)
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as image:
            require_size(image, max_pixels)
            image.load()
            return image
    except UnreadableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImageError(_reason_unidentified(source)) from error
    except FileNotFoundError as error:
        raise UnreadableImageError("no such file") from error
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(f"more pixels than the {_limits(max_pixels)} that are read") from error
    except MemoryError as error:
        raise UnreadableImageError(NO_MEMORY) from error
    except Exception as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else f"damaged image ({error})"
        raise UnreadableImageError(cause) from error


def require_size(image: Image.Image, max_pixels: int | None = None) -> None:
    """Refuse an image of too many pixels, before it is decoded."""
    if max(image.size) > MAX_SIDE or image.width * image.height > _most(max_pixels):
        shown = f"{image.width:,} × {image.height:,} pixels"
        raise UnreadableImageError(f"{shown}, more than the {_limits(max_pixels)} that are read")


def _limits(max_pixels: int | None) -> str:
    return f"{MAX_SIDE:,} on a side or {_most(max_pixels) / 1e6:.0f} megapixels"


def _most(max_pixels: int | None) -> int:
    return max_pixels or Image.MAX_IMAGE_PIXELS or MAX_SIDE**2


@cache
def _formats() -> tuple[str, ...]:
    """Those of the formats that can be read here."""
    with contextlib.suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _reason_unidentified(source: str | Path | bytes) -> str:
    start = source[:12] if isinstance(source, bytes) else b""
    if not isinstance(source, bytes):
        with contextlib.suppress(OSError), Path(source).open("rb") as stream:
            start = stream.read(12)
    package = PACKAGES.get(start[8:12]) if start[4:8] == b"ftyp" else None
    if package == "pillow-heif" and sys.modules.get("pillow_heif") is not None:
        return "damaged image"
    if package is not None:
        return f"damaged, or of a format that needs another package: pip install {package}"
    return "not an image of a known format" if start else "0 bytes"


@final
@dataclass(frozen=True)
class FileReader(RootedReader[str]):
    """Image files under one folder, by their paths relative to it."""

    def read(self, item: str) -> Image.Image:
        """Read the file at this path."""
        return read_image(os.path.join(self.root, item))  # noqa: PTH118 (paths may leave the root)
