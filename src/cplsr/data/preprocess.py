"""From an image of any kind to the square of RGB bytes that a backbone takes."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cplsr.data.domain import UnreadableImageError

RESIZE_FACTOR = 1.15
ORIENTATION_TAG = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def preprocess(image: Image.Image, size: int) -> UInt8[np.ndarray, "3 {size} {size}"]:
    """Turn upright, make RGB, resize to a square of int(1.15 · size) by Pillow's bicubic filter, crop the center.

    The image is stretched, not padded; an odd margin is halved by `round`, so that 257 → 224 crops 16 pixels on the
    left and top. The result has colors first; the backbone itself normalizes them.

    Raises:
        UnreadableImageError: the image has a mode that cannot be turned into RGB.
    """
    resized, margin = crop_of(size)
    square = to_rgb(upright(image)).resize((resized, resized), Image.Resampling.BICUBIC)
    pixels = np.asarray(square)[margin : margin + size, margin : margin + size]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def crop_of(size: int) -> tuple[int, int]:
    """To how many pixels a side an image is resized, and how many of these are cut off at the left and the top."""
    resized = int(RESIZE_FACTOR * size)
    return resized, round((resized - size) / 2)


def upright(image: Image.Image) -> Image.Image:
    """Turn the image as its EXIF orientation says; damaged EXIF data count as none."""
    try:
        orientation = image.getexif().get(ORIENTATION_TAG, 1)
    except Exception:  # Pillow's EXIF parser raises nearly everything on damaged data
        return image
    turn = UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert to 8-bit RGB: transparency on white, more than 8 bits scaled, everything else as Pillow converts it."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_to_bytes(image)).convert("RGB")
    try:
        if image.has_transparency_data:
            white = Image.new("RGBA", image.size, "white")
            return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
        return image.convert("RGB")
    except (ValueError, OSError) as error:
        raise UnreadableImageError(f"color mode {image.mode} cannot be turned into RGB") from error


def _to_bytes(image: Image.Image) -> UInt8[np.ndarray, "height width"]:
    """Grey values of more than 8 bits, scaled to 0–255 and rounded.

    16-bit integers are divided by 257, so that two images stay comparable. Wider integers and floats have no range of
    their own: if they keep to 0–65535 or 0–1 that is the range, else it is the image's own lowest and highest value.
    """
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    full = 1.0 if image.mode == "F" else 65535.0
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > full:
        values, full = values - low, max(high - low, np.finfo(np.float64).tiny)
    return np.rint(values * 255.0 / full).astype(np.uint8)
