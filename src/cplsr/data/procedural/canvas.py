"""A canvas of floating-point colors, frames placed on it, and what a camera does to the picture at the end.

Coordinates run from -1 to 1, x to the right and y downwards. Signed distances are negative inside a shape.
"""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cplsr.data.procedural.noise import SIDE, blur, grain, smooth_noise

Plane = Float[np.ndarray, "side side"]
Picture = Float[np.ndarray, "side side 3"]
Color = Float[np.ndarray, "3"]


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


def color(hue: float, saturation: float, value: float) -> Color:
    """A color from its hue (in turns, wrapping around), saturation and value (both clipped to 0..1)."""
    rgb = colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0.0), 1.0), min(max(value, 0.0), 1.0))
    return np.array(rgb, np.float32)


def random_color(
    rng: np.random.Generator,
    *,
    saturation: tuple[float, float] = (0.15, 0.8),
    value: tuple[float, float] = (0.3, 0.95),
) -> Color:
    """A color of any hue."""
    return color(rng.random(), rng.uniform(*saturation), rng.uniform(*value))


def filled(paint: Color) -> Picture:
    """A canvas of one color."""
    return np.broadcast_to(paint, (SIDE, SIDE, 3)).astype(np.float32)


def mixed(first: Color | Picture, second: Color | Picture, share: Plane) -> Picture:
    """`first` where `share` is 0, `second` where it is 1."""
    return first + (second - first) * share[..., None]


def smoothstep(low: float, high: float, value: Plane) -> Plane:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return t * t * (3 - 2 * t)


def relief(height: Plane, toward: float, strength: float) -> Plane:
    """Brightness factor of a surface of this height (in canvas units) lit from direction `toward` (radians)."""
    down, across = np.gradient(height, CANVAS.pixel)
    return 1 - strength * np.clip(across * math.cos(toward) + down * math.sin(toward), -1.6, 1.6)


def wobble(rng: np.random.Generator, frame: Frame, amount: float, cells: int = 3) -> Frame:
    """The frame bent by smooth noise, so that no two outlines of a class are alike."""
    return frame.bent(amount * smooth_noise(rng, cells), amount * smooth_noise(rng, cells))


def lit(rng: np.random.Generator, picture: Picture, strength: float = 0.35) -> Picture:
    """The picture under uneven light: a slope from a random side and a soft vignette."""
    side = rng.uniform(0, 2 * math.pi)
    slope = CANVAS.x * math.cos(side) + CANVAS.y * math.sin(side)
    light = 1 + rng.uniform(0, strength) * slope - rng.uniform(0, 0.5 * strength) * (CANVAS.x**2 + CANVAS.y**2)
    return picture * light[..., None]


def photographed(
    rng: np.random.Generator, picture: Picture, *, exposure: float = 0.25, cast: float = 0.08, softness: float = 0.6
) -> Picture:
    """What a camera makes of it: exposure, contrast, a color cast, a little blur and sensor noise."""
    gain = math.exp(rng.normal(0, exposure))
    contrast = math.exp(rng.normal(0, 0.18))
    tint = np.exp(rng.normal(0, cast, 3)).astype(np.float32)
    out = ((picture - 0.5) * contrast + 0.5) * (gain * tint)
    out = blur(out, 0.35 + rng.uniform(0, softness))
    return out + rng.uniform(0.005, 0.03) * grain(rng)[..., None]


def quantized(picture: Picture) -> np.ndarray:
    """The picture as 8-bit levels; what is too dark or too bright is clipped as on a sensor."""
    return np.rint(np.clip(picture, 0.0, 1.0) * 255).astype(np.uint8)
