"""Plant leaves: shapes of several plants crossed with disease patterns, on any ground, leaning either way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.blades import BLADES, Blade
from cplsr.data.procedural.canvas import CANVAS, Color, Frame, Painter, Picture, smoothstep, wobble
from cplsr.data.procedural.noise import blur, fractal_noise, nearest_cells, scattered, smooth_noise
from cplsr.data.procedural.paint import any_color, color, lit, mixed, mottled, photographed, relief


@dataclass(frozen=True)
class Tissue:
    """What a disease works on: the painted blade with its geometry."""

    frame: Frame
    blade: Blade
    paint: Picture
    green: Color


Disease = Callable[[np.random.Generator, Tissue], Picture]


def _necrotic(rng: np.random.Generator) -> Color:
    return any_color(rng, (0.35, 0.7), (0.2, 0.45), hue=(0.03, 0.11))


def _healthy(rng: np.random.Generator, t: Tissue) -> Picture:
    return t.paint


def _spots(rng: np.random.Generator, t: Tissue) -> Picture:
    """Round dark spots with a yellow halo."""
    first, _, owner = nearest_cells(CANVAS.x, CANVAS.y, scattered(rng, 7, jitter=0.9))
    size = (rng.uniform(0.035, 0.085, 49) * (rng.random(49) < 0.7)).astype(np.float32)[owner]
    picture = mixed(t.paint, color(0.15, 0.65, 0.85), 0.8 * smoothstep(0.035, 0.0, first - size) * (size > 0))
    return mixed(picture, _necrotic(rng) * 0.7, smoothstep(0.012, -0.012, first - size))


def _rust(rng: np.random.Generator, t: Tissue) -> Picture:
    """Many tiny orange pustules."""
    pustules = smoothstep(0.7, 1.1, smooth_noise(rng, 46))
    return mixed(t.paint, color(rng.uniform(0.05, 0.09), 0.85, rng.uniform(0.7, 0.95)), pustules)


def _mildew(rng: np.random.Generator, t: Tissue) -> Picture:
    """White powder in soft patches."""
    patches = smoothstep(-0.1, 0.9, fractal_noise(rng, 4, octaves=4))
    return mixed(t.paint, color(0.2, 0.04, 0.95), 0.85 * patches)


def _blight(rng: np.random.Generator, t: Tissue) -> Picture:
    """One large dead area that eats its way in from the rim."""
    turn = rng.uniform(0, 2 * math.pi)
    front = t.frame.x * math.cos(turn) + t.frame.y * math.sin(turn) - rng.uniform(-0.05, 0.25)
    front = front + 0.14 * fractal_noise(rng, 5)
    picture = mixed(t.paint, color(0.15, 0.6, 0.75), 0.6 * smoothstep(-0.16, 0.0, front))
    dead = mottled(rng, _necrotic(rng), 14, 0.25)
    return mixed(picture, dead, smoothstep(-0.02, 0.04, front))


def _mosaic(rng: np.random.Generator, t: Tissue) -> Picture:
    """Angular yellow and green patches."""
    f = wobble(rng, t.frame, 0.05, 8)
    _, _, owner = nearest_cells(f.x, f.y, scattered(rng, 8, jitter=0.9))
    yellow = (rng.random(64) < 0.45).astype(np.float32)[owner]
    pale = mixed(t.paint, color(0.16, 0.6, 0.95), np.full_like(yellow, 0.75))
    return mixed(t.paint, pale, blur(yellow, 0.6))


def _rings(rng: np.random.Generator, t: Tissue) -> Picture:
    """A few large targets of concentric rings."""
    first, _, owner = nearest_cells(t.frame.x, t.frame.y, scattered(rng, 3, jitter=0.7))
    size = rng.uniform(0.2, 0.32, 9).astype(np.float32)[owner]
    bands = 0.5 + 0.5 * np.cos(first * rng.uniform(60, 80))
    target = mixed(_necrotic(rng) * 0.6, color(0.1, 0.4, 0.8), bands)
    return mixed(t.paint, target, smoothstep(0.02, -0.02, first - size))


def _yellow_veins(rng: np.random.Generator, t: Tissue) -> Picture:
    """Veins and their surroundings bleached."""
    near = np.clip(1.6 * blur(t.blade.veins, 1.6), 0, 1)
    return mixed(t.paint, color(0.16, 0.55, 0.98), 0.9 * near)


def _scorch(rng: np.random.Generator, t: Tissue) -> Picture:
    """A burnt margin all around."""
    depth = -t.blade.distance + 0.03 * fractal_noise(rng, 8)
    picture = mixed(t.paint, color(0.14, 0.6, 0.8), 0.7 * smoothstep(0.16, 0.1, depth))
    return mixed(picture, mottled(rng, _necrotic(rng), 14, 0.2), smoothstep(0.1, 0.06, depth))


def _miner(rng: np.random.Generator, t: Tissue) -> Picture:
    """Pale winding tunnels of leaf miners."""
    tunnels = np.zeros_like(t.frame.x)
    for _ in range(int(rng.integers(3, 5))):
        g = t.frame.placed(rng.uniform(-0.4, 0.4), rng.uniform(-0.5, 0.5), turn=rng.uniform(0, 6.3))
        path = g.y - 0.09 * np.sin(g.x * rng.uniform(9, 13) + rng.uniform(0, 6.3))
        tunnels = np.maximum(tunnels, smoothstep(0.05, 0.025, np.abs(path)) * smoothstep(0.55, 0.45, np.abs(g.x)))
    return mixed(t.paint, color(0.14, 0.12, 0.97), 0.9 * tunnels)


def _holes(rng: np.random.Generator, blade: Blade) -> Blade:
    """Bites out of the blade and its rim."""
    first, _, owner = nearest_cells(CANVAS.x, CANVAS.y, scattered(rng, 5, jitter=0.9))
    size = (rng.uniform(0.06, 0.13, 25) * (rng.random(25) < 0.75)).astype(np.float32)[owner]
    hole = np.where(size > 0, first - size, 1.0) + 0.012 * smooth_noise(rng, 14)
    return Blade(np.maximum(blade.distance, -hole * 1.3), blade.stalk, blade.veins)


_DISEASES: Mapping[str, Disease] = {
    "healthy": _healthy,
    "spots": _spots,
    "rust": _rust,
    "mildew": _mildew,
    "blight": _blight,
    "mosaic": _mosaic,
    "rings": _rings,
    "yellow veins": _yellow_veins,
    "scorch": _scorch,
    "miner": _miner,
    "holes": _healthy,  # the only one that works on the outline instead of the tissue
}
_COMBINATIONS: Mapping[str, tuple[str, ...]] = {
    "cherry": ("healthy", "mildew", "holes", "rust"),
    "peach": ("healthy", "spots", "scorch", "holes"),
    "linden": ("healthy", "miner", "mosaic", "blight"),
    "maple": ("healthy", "rings", "mildew", "yellow veins", "scorch"),
    "grape": ("healthy", "spots", "blight", "mildew", "rust"),
    "corn": ("healthy", "rust", "blight", "mosaic"),
    "tomato": ("healthy", "spots", "rings", "mosaic", "yellow veins"),
    "strawberry": ("healthy", "scorch", "spots", "miner"),
    "chestnut": ("healthy", "rust", "miner"),
}


def _ground(rng: np.random.Generator) -> Picture:
    """Paper, soil or a bench, in any color."""
    first, second = any_color(rng, (0.02, 0.3)), any_color(rng, (0.02, 0.3))
    share = smoothstep(-2.0, 2.0, fractal_noise(rng, int(rng.integers(2, 8))))
    return mixed(first, second, share * rng.uniform(0.2, 1.0)) * (1 + 0.04 * smooth_noise(rng, 40))[..., None]


def paint_leaf(rng: np.random.Generator, plant: str, disease: str) -> Picture:
    """One leaf on the ground."""
    frame = CANVAS.placed(
        rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12), scale=rng.uniform(0.68, 0.88),
        turn=rng.normal(0, 0.8), aspect=math.exp(rng.normal(0, 0.1)),
    )  # fmt: skip
    frame = wobble(rng, frame, 0.03)
    blade = BLADES[plant](frame)
    if disease == "holes":
        blade = _holes(rng, blade)
    green = any_color(rng, (0.35, 0.8), (0.3, 0.75), hue=(0.17, 0.4))
    toward = rng.uniform(0, 2 * math.pi)
    light = relief(0.035 * blur(blade.veins, 0.8), toward, 0.3) * (1 + 0.06 * fractal_noise(rng, 5))
    tissue = mixed(green, green * 1.45 + 0.05, 0.5 * blade.veins)
    tissue = _DISEASES[disease](rng, Tissue(frame, blade, tissue, green)) * light[..., None]
    outline = frame.cover(np.minimum(blade.distance, blade.stalk), 1.2)
    shadow = np.roll(outline, (round(4 * math.sin(toward)), round(4 * math.cos(toward))), (0, 1))
    picture = _ground(rng) * (1 - 0.5 * blur(shadow, 1.5))[..., None]
    picture = mixed(picture, green * 0.9, frame.cover(blade.stalk, 1.2))
    return photographed(
        rng, lit(rng, mixed(picture, tissue, frame.cover(blade.distance, 1.2)), 0.25), exposure=0.12, softness=0.4
    )


CLASSES: Mapping[str, Painter] = MappingProxyType(
    {
        f"{plant} {disease}": partial(paint_leaf, plant=plant, disease=disease)
        for plant, diseases in _COMBINATIONS.items()
        for disease in diseases
    }
)
