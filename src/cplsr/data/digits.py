"""scikit-learn's bundled handwriting: 1,797 real digits of 8 × 8 pixels, without a download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cplsr.data.domain import Domain

SIDE = 64
HIGHEST = 16  # the data set's grey values run from 0 to 16


@final
@dataclass(frozen=True)
class DigitReader:
    """Dark ink on white paper, enlarged bicubically to 64 × 64 when it is asked for."""

    ink: UInt8[np.ndarray, "images 8 8"]

    def __call__(self, index: int) -> Image.Image:
        """Read digit number `index`."""
        paper = 255 - np.rint(self.ink[index] * (255 / HIGHEST)).astype(np.uint8)
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
        reader=DigitReader(bundled.images.astype(np.uint8)),
    )
