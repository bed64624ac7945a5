"""Colors, light, and what a camera does to the picture at the end."""

from __future__ import annotations

import colorsys
import math

import numpy as np

from cplsr.data.procedural.canvas import CANVAS, Color, Picture, Plane
from cplsr.data.procedural.noise import blur, fractal_noise, grain


def color(hue: float, saturation: float, value: float) -> Color:
    """A color from its hue (in turns, wrapping around), saturation and value (both clipped to 0..1)."""
    rgb = colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0.0), 1.0), min(max(value, 0.0), 1.0))
    return np.array(rgb, np.float32)


def any_color(
    rng: np.random.Generator,
    saturation: tuple[float, float] = (0.15, 0.8),
    value: tuple[float, float] = (0.3, 0.95),
    *,
    hue: tuple[float, float] = (0.0, 1.0),
) -> Color:
    """A color from these ranges, by default of any hue."""
    return color(rng.uniform(*hue), rng.uniform(*saturation), rng.uniform(*value))


def mottled(
    rng: np.random.Generator,
    paint: Color | Picture,
    cells: int = 10,
    strength: float = 0.1,
    *,
    octaves: int = 4,
    stretch: float = 1.0,
) -> Picture:
    """The paint, brighter here and darker there, in patches of about 1 / `cells` of the picture."""
    return paint * (1 + strength * fractal_noise(rng, cells, octaves=octaves, stretch=stretch))[..., None]


def mixed(first: Color | Picture, second: Color | Picture, share: Plane) -> Picture:
    """`first` where `share` is 0, `second` where it is 1."""
    return first + (second - first) * share[..., None]


def relief(height: Plane, toward: float, strength: float) -> Plane:
    """Brightness factor of a surface of this height (in canvas units) lit from direction `toward` (radians)."""
    down, across = np.gradient(height, CANVAS.pixel)
    return 1 - strength * np.clip(across * math.cos(toward) + down * math.sin(toward), -1.6, 1.6)


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
