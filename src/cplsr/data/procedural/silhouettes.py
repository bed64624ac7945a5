"""Outlines of things: signed distances in a frame where the thing fills about [-1, 1]²."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import Frame, Plane

Silhouette = Callable[[Frame], Plane]


def disk(frame: Frame, x: float, y: float, radius: float) -> Plane:
    """A disk."""
    return np.sqrt((frame.x - x) ** 2 + (frame.y - y) ** 2) - radius


def oval(frame: Frame, x: float, y: float, width: float, height: float) -> Plane:
    """An ellipse with these half axes (its distance is exact only at the border)."""
    scaled = np.sqrt(((frame.x - x) / width) ** 2 + ((frame.y - y) / height) ** 2)
    return (scaled - 1) * min(width, height)


def box(frame: Frame, x: float, y: float, width: float, height: float, rounding: float = 0.05) -> Plane:
    """A rectangle of half width and half height, with rounded corners."""
    dx = np.abs(frame.x - x) - (width - rounding)
    dy = np.abs(frame.y - y) - (height - rounding)
    outside = np.sqrt(np.maximum(dx, 0) ** 2 + np.maximum(dy, 0) ** 2)
    return outside + np.minimum(np.maximum(dx, dy), 0) - rounding


def bar(frame: Frame, start: tuple[float, float], end: tuple[float, float], radius: float) -> Plane:
    """A thick line with round ends."""
    (ax, ay), (bx, by) = start, end
    vx, vy = bx - ax, by - ay
    along = np.clip(((frame.x - ax) * vx + (frame.y - ay) * vy) / (vx * vx + vy * vy + 1e-9), 0, 1)
    return np.sqrt((frame.x - ax - along * vx) ** 2 + (frame.y - ay - along * vy) ** 2) - radius


def polygon(frame: Frame, *corners: tuple[float, float]) -> Plane:
    """A convex polygon, corners clockwise on the screen."""
    distance = np.full_like(frame.x, -np.inf)
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        length = math.hypot(bx - ax, by - ay)
        distance = np.maximum(distance, ((frame.x - ax) * (by - ay) - (frame.y - ay) * (bx - ax)) / length)
    return distance


def ring(frame: Frame, x: float, y: float, radius: float, width: float) -> Plane:
    """A circle drawn with a line of half this width."""
    return np.abs(disk(frame, x, y, radius)) - width


def joined(*parts: Plane) -> Plane:
    """Everything inside at least one part."""
    return np.minimum.reduce(parts)


def without(body: Plane, hole: Plane) -> Plane:
    """The body outside the hole."""
    return np.maximum(body, -hole)


def lobed(frame: Frame, lobes: int, depth: float, sharpness: float = 1.0) -> Plane:
    """A rosette: `lobes` rounded petals, or spikes when sharpness is below 1."""
    wave = np.abs(np.cos(frame.angle * (lobes / 2) + math.pi / 2 * lobes / 2)) ** sharpness
    return frame.radius - (1 - depth * wave)


def _star(f: Frame) -> Plane:
    turned = f.angle + math.pi / 2
    sector = np.abs(np.mod(turned + math.pi / 5, 2 * math.pi / 5) - math.pi / 5)
    return 0.75 * (f.radius * (np.cos(sector) + 1.25 * np.sin(sector)) - 0.95)


def _wheel(f: Frame) -> Plane:
    turns = (0.0, math.pi / 3, 2 * math.pi / 3)
    ends = [(0.8 * math.cos(turn), 0.8 * math.sin(turn)) for turn in turns]
    spokes = [bar(f, (-x, -y), (x, y), 0.07) for x, y in ends]
    return joined(np.abs(f.radius - 0.8) - 0.15, disk(f, 0.0, 0.0, 0.2), *spokes)


def _heart(f: Frame) -> Plane:
    x, y = np.abs(f.x), -f.y + 0.15
    return 0.6 * (np.sqrt(x**2 + (y - 0.75 * np.sqrt(x + 1e-4)) ** 2) - 0.72)


def _conifer(f: Frame) -> Plane:
    tiers = [polygon(f, (0.0, top), (0.3 + 0.2 * i, top + 0.65), (-0.3 - 0.2 * i, top + 0.65))
             for i, top in enumerate((-0.98, -0.6, -0.15))]  # fmt: skip
    return joined(*tiers, box(f, 0.0, 0.7, 0.12, 0.28, 0.01))


def _butterfly(f: Frame) -> Plane:
    mirrored = Frame(np.abs(f.x), f.y, f.pixel)
    upper, lower = mirrored.placed(0.48, -0.35, turn=-0.6), mirrored.placed(0.4, 0.42, turn=0.6)
    wings = joined(oval(upper, 0.0, 0.0, 0.55, 0.36), oval(lower, 0.0, 0.0, 0.42, 0.3))
    return joined(wings, box(f, 0.0, 0.0, 0.08, 0.7, 0.08))


def _umbrella(f: Frame) -> Plane:
    dome = np.maximum(disk(f, 0.0, 0.0, 0.92), f.y - 0.02 + 0.1 * np.abs(np.sin(f.x * 5.1)))
    hook = np.maximum(ring(f, 0.15, 0.75, 0.15, 0.055), 0.75 - f.y)
    return joined(dome, box(f, 0.0, 0.35, 0.05, 0.42, 0.01), hook)


def _spiral(f: Frame) -> Plane:
    turns = np.mod(f.radius / 0.36 - f.angle / (2 * math.pi), 1.0)
    return np.maximum(0.36 * (np.abs(turns - 0.5) - 0.27), f.radius - 0.95)


# Of things made of parts, each part stands on a line of its own.
SILHOUETTES: Mapping[str, Silhouette] = MappingProxyType(
    {
        "ball": lambda f: disk(f, 0.0, 0.0, 0.9),
        "tile": lambda f: box(f, 0.0, 0.0, 0.82, 0.82, 0.1),
        "wedge": lambda f: polygon(f, (0.0, -0.95), (0.95, 0.75), (-0.95, 0.75)),
        "star": _star,
        "cross": lambda f: joined(box(f, 0.0, 0.0, 0.95, 0.3), box(f, 0.0, 0.0, 0.3, 0.95)),
        "wheel": _wheel,
        "ring": lambda f: np.abs(f.radius - 0.65) - 0.27,
        "crescent": lambda f: without(disk(f, 0.0, 0.0, 0.95), disk(f, 0.42, -0.05, 0.74)),
        "heart": _heart,
        "drop": lambda f: joined(disk(f, 0.0, 0.32, 0.62), polygon(f, (0.0, -0.98), (0.56, 0.1), (-0.56, 0.1))),
        "flower": lambda f: lobed(f, 6, 0.5),
        "gear": lambda f: without(
            f.radius - (0.82 + 0.11 * np.tanh(4 * np.sin(9 * f.angle))),
            disk(f, 0.0, 0.0, 0.28),
        ),
        "arrow": lambda f: joined(
            polygon(f, (0.95, 0.0), (0.1, 0.75), (0.1, -0.75)),
            box(f, -0.4, 0.0, 0.55, 0.26),
        ),
        "bottle": lambda f: joined(
            box(f, 0.0, 0.35, 0.4, 0.6, 0.15),
            box(f, 0.0, -0.55, 0.14, 0.42, 0.03),
            box(f, 0.0, -0.9, 0.2, 0.07, 0.03),
        ),
        "mug": lambda f: joined(box(f, -0.15, 0.0, 0.6, 0.75, 0.1), ring(f, 0.5, 0.0, 0.36, 0.09)),
        "house": lambda f: joined(
            without(box(f, 0.0, 0.4, 0.65, 0.52, 0.02), box(f, 0.1, 0.65, 0.16, 0.3, 0.02)),
            polygon(f, (0.0, -0.9), (0.92, -0.05), (-0.92, -0.05)),
            box(f, 0.48, -0.6, 0.1, 0.3, 0.01),
        ),
        "fish": lambda f: without(
            joined(oval(f, -0.2, 0.0, 0.72, 0.45), polygon(f, (0.35, 0.0), (0.95, -0.55), (0.95, 0.55))),
            disk(f, -0.6, -0.1, 0.08),
        ),
        "conifer": _conifer,
        "key": lambda f: joined(
            ring(f, -0.55, 0.0, 0.28, 0.11),
            box(f, 0.3, 0.0, 0.6, 0.09),
            box(f, 0.6, 0.2, 0.07, 0.18, 0.01),
            box(f, 0.83, 0.2, 0.07, 0.18, 0.01),
        ),
        "hourglass": lambda f: joined(
            polygon(f, (-0.65, -0.9), (0.65, -0.9), (0.0, 0.15)),
            polygon(f, (0.0, -0.15), (0.65, 0.9), (-0.65, 0.9)),
            box(f, 0.0, -0.88, 0.75, 0.09),
            box(f, 0.0, 0.88, 0.75, 0.09),
        ),
        "mushroom": lambda f: joined(
            np.maximum(oval(f, 0.0, 0.0, 0.92, 0.85), f.y - 0.05),
            box(f, 0.0, 0.42, 0.24, 0.48, 0.1),
        ),
        "boat": lambda f: joined(
            polygon(f, (-0.95, 0.3), (0.95, 0.3), (0.6, 0.8), (-0.65, 0.8)),
            polygon(f, (0.05, -0.95), (0.75, 0.15), (0.05, 0.15)),
            polygon(f, (-0.1, -0.7), (-0.1, 0.15), (-0.7, 0.15)),
            box(f, -0.02, -0.2, 0.04, 0.6, 0.01),
        ),
        "butterfly": _butterfly,
        "car": lambda f: joined(
            box(f, 0.0, 0.17, 0.97, 0.25, 0.12),
            without(
                polygon(f, (-0.45, -0.5), (0.35, -0.5), (0.65, 0.0), (-0.65, 0.0)), box(f, -0.05, -0.25, 0.3, 0.13)
            ),
            disk(f, -0.52, 0.45, 0.24),
            disk(f, 0.52, 0.45, 0.24),
        ),
        "chair": lambda f: joined(
            box(f, -0.5, 0.5, 0.09, 0.48, 0.02),
            box(f, 0.5, 0.5, 0.09, 0.48, 0.02),
            box(f, 0.0, 0.1, 0.62, 0.14),
            box(f, -0.5, -0.4, 0.11, 0.57, 0.04),
        ),
        "lamp": lambda f: joined(
            polygon(f, (-0.35, -0.9), (0.35, -0.9), (0.75, -0.1), (-0.75, -0.1)),
            box(f, 0.0, 0.35, 0.07, 0.5),
            oval(f, 0.0, 0.85, 0.45, 0.13),
        ),
        "bird": lambda f: joined(
            disk(f, -0.55, -0.35, 0.27),
            polygon(f, (-0.98, -0.25), (-0.72, -0.45), (-0.72, -0.2)),
            oval(f, 0.0, 0.05, 0.62, 0.37),
            polygon(f, (0.3, -0.05), (0.98, -0.3), (0.9, 0.05)),
            bar(f, (0.0, 0.3), (-0.05, 0.8), 0.05),
            bar(f, (0.2, 0.3), (0.2, 0.8), 0.05),
        ),
        "cactus": lambda f: joined(
            bar(f, (0.0, -0.72), (0.0, 0.9), 0.24),
            bar(f, (-0.55, -0.25), (-0.55, 0.1), 0.16),
            bar(f, (-0.55, 0.15), (0.0, 0.15), 0.14),
            bar(f, (0.55, -0.5), (0.55, -0.1), 0.16),
            bar(f, (0.55, -0.1), (0.0, -0.1), 0.14),
        ),
        "umbrella": _umbrella,
        "guitar": lambda f: joined(
            without(joined(disk(f, 0.0, 0.5, 0.45), disk(f, 0.0, 0.02, 0.32)), disk(f, 0.0, 0.3, 0.12)),
            box(f, 0.0, -0.5, 0.07, 0.42, 0.01),
            box(f, 0.0, -0.9, 0.13, 0.1, 0.02),
        ),
        "spiral": _spiral,
    }
)
