"""Skin lesions under a dermoscope: any skin, any lesion outline; the class is the structure inside and at the rim."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import CANVAS, Color, Frame, Painter, Picture, Plane, smoothstep, wobble
from cplsr.data.procedural.noise import fractal_noise, nearest_cells, scattered, smooth_noise
from cplsr.data.procedural.paint import any_color, color, lit, mixed, photographed


@dataclass(frozen=True)
class Lesion:
    """A lesion before its structure is drawn: its frame (radius 1 at the rim), signed distance, skin and pigment."""

    frame: Frame
    distance: Plane
    skin: Picture
    pigment: Color

    def tinted(self, amount: Plane | float, rim: float = 0.25) -> Picture:
        """The skin with `amount` of pigment inside the lesion, fading over a rim this wide."""
        inside = smoothstep(rim / 2, -rim / 2, self.distance)
        return mixed(self.skin, self.pigment, np.clip(amount * inside, 0, 1))


def _lesion(rng: np.random.Generator) -> Lesion:
    tone = any_color(rng, (0.2, 0.45), (0.65, 0.95), hue=(0.0, 0.09))
    skin = tone * (1 + 0.04 * fractal_noise(rng, 3) + 0.03 * fractal_noise(rng, 20, octaves=2))[..., None]
    pigment = any_color(rng, (0.4, 0.8), (0.16, 0.45), hue=(-0.02, 0.09))
    frame = CANVAS.placed(
        rng.uniform(-0.18, 0.18), rng.uniform(-0.18, 0.18),
        scale=rng.uniform(0.45, 0.72), turn=rng.uniform(0, 2 * math.pi), aspect=math.exp(rng.normal(0, 0.15)),
    )  # fmt: skip
    frame = wobble(rng, frame, 0.05)
    lumps = sum(rng.normal(0, 0.07) * np.cos(k * frame.angle + rng.uniform(0, 6.3)) for k in (2, 3, 4))
    return Lesion(frame, frame.radius - 0.92 - lumps, skin.astype(np.float32), pigment)


def _network(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A honeycomb of brown lines."""
    f = wobble(rng, lesion.frame, 0.03, 6)
    first, second, _ = nearest_cells(f.x, f.y, scattered(rng, 9, jitter=0.5))
    lines = smoothstep(0.11, 0.02, second - first)
    return lesion.tinted(0.25 + 0.75 * lines, 0.5)


def _globules(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """Round brown clods, lying apart on a pale ground."""
    f = lesion.frame
    first, _, owner = nearest_cells(f.x, f.y, scattered(rng, 6, jitter=0.5))
    size = rng.uniform(0.07, 0.13, 36).astype(np.float32)[owner]
    return lesion.tinted(0.22 + 0.75 * smoothstep(0.03, -0.03, first - size), 0.3)


def _starburst(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A dark core with streaks radiating from all of the rim."""
    f, count = lesion.frame, int(rng.integers(14, 20))
    rays = 0.5 + 0.5 * np.cos(count * f.angle + 1.5 * smooth_noise(rng, 4))
    core = smoothstep(-0.25, -0.4, lesion.distance)
    streaks = smoothstep(0.12, -0.02, lesion.distance - 0.12 * rays) * smoothstep(0.35, 0.75, rays)
    return mixed(lesion.skin, lesion.pigment, np.clip(np.maximum(core, streaks), 0, 1) * 0.92)


def _homogeneous(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """Even pigment without any structure."""
    return lesion.tinted(0.8 + 0.06 * fractal_noise(rng, 2, octaves=2), rng.uniform(0.25, 0.5))


def _milia(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A sharply cut plaque with pale cysts and dark pits."""
    f = lesion.frame
    picture = lesion.tinted(0.6 + 0.1 * fractal_noise(rng, 6), 0.06)
    first, _, owner = nearest_cells(f.x, f.y, scattered(rng, 6, jitter=0.8))
    kind = rng.random(36).astype(np.float32)[owner]
    spot = smoothstep(0.085, 0.05, first) * smoothstep(0.0, -0.12, lesion.distance)
    picture = mixed(picture, color(0.12, 0.15, 1.0), spot * (kind < 0.45))
    return mixed(picture, lesion.pigment * 0.35, spot * (kind > 0.7))


def _lacunes(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """Crowded round lagoons parted by pale septa."""
    f = lesion.frame
    first, second, owner = nearest_cells(f.x, f.y, scattered(rng, 5, jitter=0.7))
    tone = rng.uniform(0.65, 1.3, (25, 1)).astype(np.float32)[owner]
    blood = any_color(rng, (0.6, 0.85), (0.4, 0.65), hue=(-0.07, 0.02)) * tone
    lagoon = smoothstep(0.05, 0.14, second - first) * smoothstep(0.05, -0.05, lesion.distance)
    return mixed(lesion.tinted(0.12, 0.1), blood, lagoon)


def _melanoma(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A ragged outline, patches of several colors, a blue-white veil off center."""
    f = lesion.frame
    ragged = lesion.distance + 0.16 * fractal_noise(rng, 6, octaves=3)
    inside = smoothstep(0.04, -0.04, ragged)
    dark, pale = lesion.pigment * 0.5, mixed(lesion.skin, lesion.pigment, np.full_like(inside, 0.5))
    picture = mixed(lesion.skin, mixed(pale, dark, smoothstep(-0.4, 0.5, fractal_noise(rng, 4))), inside)
    veil = f.placed(rng.uniform(-0.4, 0.4), rng.uniform(-0.4, 0.4), scale=rng.uniform(0.35, 0.5))
    bluish = color(rng.uniform(0.55, 0.65), 0.25, 0.7)
    return mixed(picture, bluish, 0.75 * inside * smoothstep(1.2, 0.4, veil.radius + 0.2 * smooth_noise(rng, 6)))


def _central_scar(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A white scar in the middle of a delicate brown ring."""
    f = lesion.frame
    scar = f.placed(rng.normal(0, 0.08), rng.normal(0, 0.08), scale=rng.uniform(0.4, 0.55))
    first, second, _ = nearest_cells(f.x, f.y, scattered(rng, 9, jitter=0.6))
    fine = smoothstep(0.1, 0.02, second - first)
    picture = lesion.tinted(0.45 + 0.3 * fine, 0.5)
    return mixed(picture, color(0.04, 0.06, 0.97), 0.85 * smoothstep(1.15, 0.7, scar.radius))


def _vessels(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """A pale nodule crossed by branching vessels."""
    f = lesion.frame
    picture = mixed(lesion.skin, color(0.98, 0.22, 0.92), 0.7 * smoothstep(0.1, -0.1, lesion.distance))
    blood = color(0.98, 0.8, rng.uniform(0.4, 0.6))
    start = rng.uniform(0, 2 * math.pi)
    for trunk in range(int(rng.integers(3, 5))):
        g = f.placed(turn=start + trunk * 2 * math.pi / 3.6)
        path = g.y - 0.16 * np.sin(g.x * rng.uniform(3, 5) + rng.uniform(0, 6)) * g.x
        fork = np.abs(path) - np.maximum(g.x - rng.uniform(0.3, 0.5), 0) * rng.uniform(0.4, 0.8)
        vessel = smoothstep(0.055, 0.015, np.abs(fork)) * smoothstep(0.0, 0.08, g.x)
        picture = mixed(picture, blood, vessel * smoothstep(0.1, -0.02, lesion.distance))
    return picture


def _parallel(rng: np.random.Generator, lesion: Lesion) -> Picture:
    """Pigment in parallel bands along the ridges of palm or sole."""
    f = lesion.frame
    bands = np.sin(f.y * rng.uniform(15, 20) + 1.2 * smooth_noise(rng, 3))
    return lesion.tinted(0.12 + 0.8 * smoothstep(-0.1, 0.6, bands), 0.4)


Structure = Callable[[np.random.Generator, Lesion], Picture]

_STRUCTURES: Mapping[str, Structure] = {
    "pigment network": _network,
    "globules": _globules,
    "starburst": _starburst,
    "homogeneous": _homogeneous,
    "milia cysts": _milia,
    "vascular lacunes": _lacunes,
    "irregular veil": _melanoma,
    "central scar": _central_scar,
    "branching vessels": _vessels,
    "parallel ridges": _parallel,
}


def _with_hair(rng: np.random.Generator, picture: Picture) -> Picture:
    """A few hairs across the field."""
    for _ in range(int(rng.integers(0, 7))):
        f = CANVAS.placed(rng.uniform(-0.7, 0.7), rng.uniform(-0.7, 0.7), turn=rng.uniform(0, 2 * math.pi))
        strand = np.abs(f.y - rng.normal(0, 0.3) * f.x**2) - 0.008
        reach = smoothstep(rng.uniform(0.5, 1.2), 0.4, np.abs(f.x))
        picture = mixed(picture, color(0.07, 0.4, 0.15), 0.75 * f.cover(strand) * reach)
    return picture


def paint_dermoscopy(rng: np.random.Generator, structure: str) -> Picture:
    """One view through the dermoscope."""
    lesion = _lesion(rng)
    # Some lesions are faint: part of the bare skin shows through.
    picture = mixed(_STRUCTURES[structure](rng, lesion), lesion.skin, np.full_like(CANVAS.x, rng.uniform(0.0, 0.5)))
    picture = _with_hair(rng, picture)
    if rng.random() < 0.25:  # some instruments show the round edge of their lens
        picture = picture * smoothstep(rng.uniform(1.25, 1.4), 1.1, CANVAS.radius)[..., None]
    return photographed(rng, lit(rng, picture, 0.25), exposure=0.12, cast=0.06, softness=0.9)


CLASSES: Mapping[str, Painter] = MappingProxyType(
    {name: partial(paint_dermoscopy, structure=name) for name in _STRUCTURES}
)
