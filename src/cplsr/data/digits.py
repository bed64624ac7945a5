"""scikit-learn's bundled handwriting: 1,797 real digits of 8 × 8 pixels, without a download."""

from __future__ import annotations

from functools import partial

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cplsr.data.domain import Domain

SIDE = 64
HIGHEST = 16  # the data set's grey values run from 0 to 16


def _read_digit(ink: UInt8[np.ndarray, "images 8 8"], index: int) -> Image.Image:
    """Dark ink on white paper, enlarged bicubically to 64 × 64."""
    paper = 255 - np.rint(ink[index] * (255 / HIGHEST)).astype(np.uint8)
    return Image.fromarray(paper).resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def open_digits() -> Domain:
    """Open the ten classes of handwritten digits."""
    from sklearn.datasets import load_digits

    bundled = load_digits()
    return Domain(
        name="digits",
        classes=tuple(str(digit) for digit in range(10)),
        labels=bundled.target.astype(np.int64),
        identities=tuple(f"digits/{number}?{SIDE}" for number in range(len(bundled.target))),
        reader=partial(_read_digit, bundled.images.astype(np.uint8)),
    )
