"""The canvas: the coordinates of its pixels, and frames placed on it.

Coordinates run from -1 to 1, x to the right and y downwards. Signed distances are negative inside a shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cplsr.data.procedural.noise import SIDE, smooth_noise

Plane = Float[np.ndarray, "side side"]
Picture = Float[np.ndarray, "side side 3"]
Color = Float[np.ndarray, "3"]
Painter = Callable[[np.random.Generator], Picture]


@dataclass(frozen=True)
class Frame:
    """Coordinates of every pixel as one object sees them, and the width of a pixel in its units."""

    x: Plane
    y: Plane
    pixel: float

    @property
    def radius(self) -> Plane:
        """Distance from the middle of the frame."""
        return np.sqrt(self.x * self.x + self.y * self.y)

    @property
    def angle(self) -> Plane:
        """Direction seen from the middle of the frame: 0 to the right, growing clockwise on the screen."""
        return np.arctan2(self.y, self.x)

    def placed(
        self, x: float = 0.0, y: float = 0.0, *, scale: float = 1.0, turn: float = 0.0, aspect: float = 1.0
    ) -> Frame:
        """The frame of something drawn at (x, y), `scale` times as large, `aspect` times as wide, turned clockwise."""
        cos, sin = math.cos(turn), math.sin(turn)
        dx, dy = self.x - x, self.y - y
        across = (dx * cos + dy * sin) / (scale * aspect)
        down = (dy * cos - dx * sin) / scale
        return Frame(across, down, self.pixel / (scale * min(1.0, aspect)))

    def bent(self, dx: Plane, dy: Plane) -> Frame:
        """The same frame with every pixel looked up a little beside its place."""
        return Frame(self.x + dx, self.y + dy, self.pixel)

    def cover(self, distance: Plane, softness: float = 1.0) -> Plane:
        """How much of each pixel lies inside: 1 inside, 0 outside, a slope `softness` pixels wide between them."""
        return np.clip(0.5 - distance / (self.pixel * softness), 0.0, 1.0)


def _whole_canvas() -> Frame:
    axis = ((np.arange(SIDE, dtype=np.float32) + 0.5) / SIDE * 2 - 1).astype(np.float32)
    x, y = np.meshgrid(axis, axis)
    x.setflags(write=False)
    y.setflags(write=False)
    return Frame(x, y, 2 / SIDE)


CANVAS = _whole_canvas()


def smoothstep(low: float, high: float, value: Plane) -> Plane:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def wobble(rng: np.random.Generator, frame: Frame, amount: float, cells: int = 3) -> Frame:
    """The frame bent by smooth noise, so that no two outlines of a class are alike."""
    return frame.bent(amount * smooth_noise(rng, cells), amount * smooth_noise(rng, cells))
