"""Images of plain colors, small enough to embed in a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from cplsr.data.domain import UnreadableImageError


@dataclass(frozen=True)
class ColorReader:
    """Image i is one color, with noise of so many levels around it; images in `bad` cannot be read."""

    colors: np.ndarray
    bad: frozenset = frozenset()
    noise: int = 0

    def __call__(self, index):
        """Make an image."""
        if index in self.bad:
            raise UnreadableImageError("broken on purpose")
        around = np.random.default_rng(index).integers(-self.noise, max(self.noise, 1), (20, 20, 3))
        return Image.fromarray(np.clip(self.colors[index] + around, 0, 255).astype(np.uint8))
