"""Outlines and veins of leaves, tip up, in a frame where the leaf fills about [-1, 1]²."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import Frame, Plane, smoothstep
from cplsr.data.procedural.silhouettes import bar, joined, oval


@dataclass(frozen=True)
class Blade:
    """A leaf's geometry in its own frame (tip up): signed distance of the blade, of its stalk, and its veins (0..1)."""

    distance: Plane
    stalk: Plane
    veins: Plane


def _line(distance: Plane, width: float) -> Plane:
    return smoothstep(width, 0.3 * width, np.abs(distance))


def _pinnate(f: Frame, slope: float, pitch: float, width: float = 0.03) -> Plane:
    """A midrib with side veins rising to the rim."""
    side = np.mod((f.y + slope * np.abs(f.x)) * pitch, 1) - 0.5
    return np.maximum(_line(f.x, width), 0.8 * _line(side / pitch, 0.7 * width))


def _lens(f: Frame, half_width: float, belly: float) -> Plane:
    """A pointed blade from (0, 0.8) up to (0, -0.95), widest at `belly` (0: base, 1: tip)."""
    t = np.clip((0.8 - f.y) / 1.75, 0.0, 1.0)
    width = half_width * np.abs(np.sin(math.pi * t ** (math.log(0.5) / math.log(belly)))) ** 0.8
    return np.maximum((np.abs(f.x) - width) * 0.85, np.abs(f.y + 0.075) - 0.875)


def _stalk(f: Frame, start: float) -> Plane:
    return bar(f, (0.0, start), (0.04, 1.25), 0.035)


def _cherry(f: Frame) -> Blade:
    teeth = 0.02 * np.abs(np.mod((f.y + 0.4 * np.abs(f.x)) * 9, 1) - 0.5)
    return Blade(_lens(f, 0.52, 0.42) + teeth, _stalk(f, 0.75), _pinnate(f, 0.8, 4.0))


def _peach(f: Frame) -> Blade:
    bent = Frame(f.x + 0.12 * f.y**2 - 0.05, f.y, f.pixel)
    return Blade(_lens(bent, 0.26, 0.45), _stalk(bent, 0.75), _pinnate(bent, 1.2, 5.0))


def _linden(f: Frame) -> Blade:
    x, y = np.abs(f.x), f.y - 0.02
    heart = 0.55 * (np.sqrt(x**2 + (y - 0.1) ** 2 + 0.55 * x * (0.2 - y)) - 0.72)
    notch = np.sqrt(x**2 + (f.y - 0.95) ** 2) - 0.24
    return Blade(np.maximum(heart, -notch), _stalk(f, 0.65), _pinnate(f, 1.0, 3.2, 0.035))


def _maple(f: Frame) -> Blade:
    g = f.placed(0.0, 0.25)
    angle = np.abs(np.arctan2(g.x, -g.y))  # from the tip, both sides alike
    lobes = np.abs(np.mod(angle + 0.45, 0.9) - 0.45)
    reach = 1.2 - 0.16 * np.floor((angle + 0.45) / 0.9)
    rim = reach * (0.5 + 0.5 * np.exp(-((lobes / 0.24) ** 2))) - 0.04 * np.abs(np.sin(angle * 13))
    veins = _line(lobes * g.radius, 0.035) * (angle < 2.3)
    return Blade(0.6 * (g.radius - rim * smoothstep(3.3, 2.3, angle)), _stalk(f, 0.2), veins)


def _grape(f: Frame) -> Blade:
    g = f.placed(0.0, 0.1)
    angle = np.abs(np.arctan2(g.x, -g.y))
    rim = 0.82 + 0.12 * np.cos(angle * 5) + 0.035 * np.sin(angle * 21)
    spread = np.abs(np.mod(angle + 0.6283, 1.2566) - 0.6283)
    notch = np.sqrt(g.x**2 + (g.y - 0.85) ** 2) - 0.3
    return Blade(np.maximum(0.8 * (g.radius - rim), -notch), _stalk(f, 0.5), _line(spread * g.radius, 0.035))


def _corn(f: Frame) -> Blade:
    bent = Frame(f.x + 0.25 * (f.y - 0.2) ** 2 - 0.1, f.y, f.pixel)
    width = 0.33 * np.clip((f.y + 1.1) / 1.1, 0, 1) ** 0.6
    blade = np.maximum(np.abs(bent.x) - width, -1.1 - f.y)  # its base lies outside the picture
    lines = _line(np.mod(bent.x * 11, 1) - 0.5, 0.2) * 0.5
    return Blade(blade, blade, np.maximum(_line(bent.x, 0.045), lines))


# x, y, size and turn of each leaflet
_TOMATO_LEAFLETS = (
    (0.0, -0.52, 0.46, 0.0),
    (0.42, -0.05, 0.34, 1.0),
    (-0.42, 0.0, 0.34, -1.0),
    (0.36, 0.45, 0.28, 1.15),
    (-0.36, 0.5, 0.28, -1.15),
)


def _tomato(f: Frame) -> Blade:
    parts, veins = [], _line(f.x, 0.03)
    for x, y, size, turn in _TOMATO_LEAFLETS:
        g = f.placed(x, y, scale=size, turn=turn)
        notches = 0.08 * np.abs(np.sin(g.y * 5))
        parts.append((_lens(g, 0.72, 0.4) + notches) * size)
        veins = np.maximum(veins, _pinnate(g, 0.9, 3.0, 0.05) * (parts[-1] < 0))
    stems = [bar(f, (0.0, y + 0.1), (x, y), 0.025) for x, y, _, _ in _TOMATO_LEAFLETS]
    return Blade(joined(*parts), joined(_stalk(f, -0.3), *stems), veins)


def _strawberry(f: Frame) -> Blade:
    parts, veins = [], np.zeros_like(f.x)
    for turn in (0.0, 1.75, -1.75):
        g = f.placed(0.48 * math.sin(turn), 0.12 - 0.48 * math.cos(turn), scale=0.52, turn=turn)
        teeth = 0.07 * np.abs(np.sin(g.angle * 8))
        parts.append((oval(g, 0.0, 0.0, 0.72, 0.92) + teeth) * 0.52)
        veins = np.maximum(veins, _pinnate(g, 0.9, 3.2, 0.05) * (parts[-1] < 0))
    return Blade(joined(*parts), _stalk(f, 0.1), veins)


def _chestnut(f: Frame) -> Blade:
    parts, veins = [], np.zeros_like(f.x)
    for turn in (-1.9, -0.95, 0.0, 0.95, 1.9):
        g = f.placed(0.5 * math.sin(turn), 0.35 - 0.58 * math.cos(turn), scale=0.6, turn=turn)
        parts.append(_lens(g, 0.36, 0.62) * 0.6)
        veins = np.maximum(veins, _pinnate(g, 0.8, 4.0, 0.05) * (parts[-1] < 0))
    return Blade(joined(*parts), _stalk(f, 0.3), veins)


BLADES: Mapping[str, Callable[[Frame], Blade]] = MappingProxyType(
    {
        "cherry": _cherry,
        "peach": _peach,
        "linden": _linden,
        "maple": _maple,
        "grape": _grape,
        "corn": _corn,
        "tomato": _tomato,
        "strawberry": _strawberry,
        "chestnut": _chestnut,
    }
)
