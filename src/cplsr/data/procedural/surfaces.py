"""Surface patterns: how much of a second color every point of a surface shows, from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import Frame, Plane, smoothstep
from cplsr.data.procedural.noise import fractal_noise, nearest_cells, scattered, smooth_noise

Surface = Callable[[Frame, np.random.Generator], Plane]


def _wave(position: Plane, sharpness: float = 3.0) -> Plane:
    """Alternating bands with soft edges; one period per unit."""
    return 0.5 + 0.5 * np.tanh(sharpness * np.sin(2 * math.pi * position))


def _tent(position: Plane) -> Plane:
    """A triangle wave from 0 to 1; one period per unit."""
    return np.abs(np.mod(position, 1.0) - 0.5) * 2


def _checked(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(1.4, 2.1)
    across = np.sin(2 * math.pi * (pitch * f.x + rng.random()))
    down = np.sin(2 * math.pi * (pitch * f.y + rng.random()))
    return 0.5 + 0.5 * np.tanh(6 * across * down)


def _dotted(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(2.0, 2.8)
    u, v = pitch * f.x + rng.random(), pitch * f.y + rng.random()
    u = u + 0.5 * np.mod(np.floor(v), 2)
    distance = np.sqrt((np.mod(u, 1) - 0.5) ** 2 + (np.mod(v, 1) - 0.5) ** 2)
    return 1 - smoothstep(0.22, 0.34, distance)


def _brick(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(2.2, 3.0)
    v = pitch * f.y + rng.random()
    u = 0.5 * pitch * f.x + 0.5 * np.mod(np.floor(v), 2)
    joint = np.maximum(smoothstep(0.72, 0.92, _tent(v)), smoothstep(0.84, 0.96, _tent(u)))
    return np.clip(joint + 0.08 * fractal_noise(rng, 8, octaves=2), 0, 1)


def _scaly(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(2.2, 3.0)
    v = pitch * f.y
    u = pitch * f.x + 0.5 * np.mod(np.floor(v), 2)
    return smoothstep(0.2, 0.75, np.sqrt((np.mod(u, 1) - 0.5) ** 2 + (0.9 * np.mod(v, 1)) ** 2))


def _wooden(f: Frame, rng: np.random.Generator) -> Plane:
    knots = f.y * rng.uniform(2.2, 3.2) + 0.35 * np.sin(1.3 * f.x + 6 * rng.random()) + 0.22 * smooth_noise(rng, 3)
    return 0.75 * np.mod(knots, 1.0) ** 1.5 + 0.08 * fractal_noise(rng, 12, octaves=2, stretch=3.0)


def _marbled(f: Frame, rng: np.random.Generator) -> Plane:
    vein = np.abs(np.sin(2.2 * (f.x + 0.6 * f.y) + 1.3 * fractal_noise(rng, 3)))
    return (1 - smoothstep(0.0, 0.4, vein)) * 0.9 + 0.1


def _zigzag(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(1.6, 2.3)
    return _wave(f.y * pitch + 0.45 * _tent(f.x * pitch) + rng.random())


def _netted(f: Frame, rng: np.random.Generator) -> Plane:
    pitch = rng.uniform(1.7, 2.4)
    diagonal = np.maximum(_tent(pitch * (f.x + f.y)), _tent(pitch * (f.x - f.y)))
    return smoothstep(0.7, 0.92, diagonal)


def _cracked(f: Frame, rng: np.random.Generator) -> Plane:
    first, second, _ = nearest_cells(f.x, f.y, scattered(rng, 5))
    return 1 - smoothstep(0.02, 0.1, second - first)


SURFACES: Mapping[str, Surface] = MappingProxyType(
    {
        "plain": lambda f, rng: 0.12 + 0.05 * fractal_noise(rng, 3),
        "striped": lambda f, rng: _wave(f.y * rng.uniform(1.7, 2.6) + rng.random() + 0.03 * smooth_noise(rng, 4)),
        "checked": _checked,
        "dotted": _dotted,
        "brick": _brick,
        "scaly": _scaly,
        "wooden": _wooden,
        "marbled": _marbled,
        "furry": lambda f, rng: np.clip(0.45 + 0.28 * fractal_noise(rng, 36, octaves=2, stretch=0.18), 0, 1),
        "patched": lambda f, rng: smoothstep(0.15, 0.4, fractal_noise(rng, 6, octaves=2, gain=0.3)),
        "zigzag": _zigzag,
        "ringed": lambda f, rng: _wave(f.radius * rng.uniform(2.0, 3.0) + rng.random()),
        "netted": _netted,
        "cracked": _cracked,
        "speckled": lambda f, rng: smoothstep(0.9, 1.5, smooth_noise(rng, 30)),
        "radiant": lambda f, rng: _wave(f.angle * int(rng.integers(5, 8)) / (2 * math.pi) + rng.random()),
    }
)
