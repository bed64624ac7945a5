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


def _ball(f: Frame) -> Plane:
    return disk(f, 0.0, 0.0, 0.9)


def _tile(f: Frame) -> Plane:
    return box(f, 0.0, 0.0, 0.82, 0.82, 0.1)


def _wedge(f: Frame) -> Plane:
    return polygon(f, (0.0, -0.95), (0.95, 0.75), (-0.95, 0.75))


def _star(f: Frame) -> Plane:
    turned = f.angle + math.pi / 2
    sector = np.abs(np.mod(turned + math.pi / 5, 2 * math.pi / 5) - math.pi / 5)
    return 0.75 * (f.radius * (np.cos(sector) + 1.25 * np.sin(sector)) - 0.95)


def _cross(f: Frame) -> Plane:
    return joined(box(f, 0.0, 0.0, 0.95, 0.3), box(f, 0.0, 0.0, 0.3, 0.95))


def _wheel(f: Frame) -> Plane:
    spokes = [bar(f, (-0.8 * math.cos(a), -0.8 * math.sin(a)), (0.8 * math.cos(a), 0.8 * math.sin(a)), 0.07)
              for a in (0.0, math.pi / 3, 2 * math.pi / 3)]  # fmt: skip
    return joined(np.abs(f.radius - 0.8) - 0.15, disk(f, 0.0, 0.0, 0.2), *spokes)


def _ring(f: Frame) -> Plane:
    return np.abs(f.radius - 0.65) - 0.27


def _crescent(f: Frame) -> Plane:
    return without(disk(f, 0.0, 0.0, 0.95), disk(f, 0.42, -0.05, 0.74))


def _heart(f: Frame) -> Plane:
    x, y = np.abs(f.x), -f.y + 0.15
    return 0.6 * (np.sqrt(x**2 + (y - 0.75 * np.sqrt(x + 1e-4)) ** 2) - 0.72)


def _drop(f: Frame) -> Plane:
    return joined(disk(f, 0.0, 0.32, 0.62), polygon(f, (0.0, -0.98), (0.56, 0.1), (-0.56, 0.1)))


def _flower(f: Frame) -> Plane:
    return lobed(f, 6, 0.5)


def _gear(f: Frame) -> Plane:
    teeth = np.tanh(4 * np.sin(9 * f.angle))
    return without(f.radius - (0.82 + 0.11 * teeth), disk(f, 0.0, 0.0, 0.28))


def _arrow(f: Frame) -> Plane:
    return joined(polygon(f, (0.95, 0.0), (0.1, 0.75), (0.1, -0.75)), box(f, -0.4, 0.0, 0.55, 0.26))


def _bottle(f: Frame) -> Plane:
    return joined(
        box(f, 0.0, 0.35, 0.4, 0.6, 0.15), box(f, 0.0, -0.55, 0.14, 0.42, 0.03), box(f, 0.0, -0.9, 0.2, 0.07, 0.03)
    )


def _mug(f: Frame) -> Plane:
    handle = np.abs(np.sqrt((f.x - 0.5) ** 2 + (f.y - 0.0) ** 2) - 0.36) - 0.09
    return joined(box(f, -0.15, 0.0, 0.6, 0.75, 0.1), handle)


def _house(f: Frame) -> Plane:
    walls = without(box(f, 0.0, 0.4, 0.65, 0.52, 0.02), box(f, 0.1, 0.65, 0.16, 0.3, 0.02))
    roof = polygon(f, (0.0, -0.9), (0.92, -0.05), (-0.92, -0.05))
    return joined(walls, roof, box(f, 0.48, -0.6, 0.1, 0.3, 0.01))


def _fish(f: Frame) -> Plane:
    tail = polygon(f, (0.35, 0.0), (0.95, -0.55), (0.95, 0.55))
    return without(joined(oval(f, -0.2, 0.0, 0.72, 0.45), tail), disk(f, -0.6, -0.1, 0.08))


def _conifer(f: Frame) -> Plane:
    tiers = [polygon(f, (0.0, top), (0.3 + 0.2 * i, top + 0.65), (-0.3 - 0.2 * i, top + 0.65))
             for i, top in enumerate((-0.98, -0.6, -0.15))]  # fmt: skip
    return joined(*tiers, box(f, 0.0, 0.7, 0.12, 0.28, 0.01))


def _key(f: Frame) -> Plane:
    head = np.abs(np.sqrt((f.x + 0.55) ** 2 + f.y**2) - 0.28) - 0.11
    return joined(
        head, box(f, 0.3, 0.0, 0.6, 0.09), box(f, 0.6, 0.2, 0.07, 0.18, 0.01), box(f, 0.83, 0.2, 0.07, 0.18, 0.01)
    )


def _hourglass(f: Frame) -> Plane:
    halves = joined(
        polygon(f, (-0.65, -0.9), (0.65, -0.9), (0.0, 0.15)), polygon(f, (0.0, -0.15), (0.65, 0.9), (-0.65, 0.9))
    )
    return joined(halves, box(f, 0.0, -0.88, 0.75, 0.09), box(f, 0.0, 0.88, 0.75, 0.09))


def _mushroom(f: Frame) -> Plane:
    cap = np.maximum(oval(f, 0.0, 0.0, 0.92, 0.85), f.y - 0.05)
    return joined(cap, box(f, 0.0, 0.42, 0.24, 0.48, 0.1))


def _boat(f: Frame) -> Plane:
    hull = polygon(f, (-0.95, 0.3), (0.95, 0.3), (0.6, 0.8), (-0.65, 0.8))
    sails = joined(
        polygon(f, (0.05, -0.95), (0.75, 0.15), (0.05, 0.15)), polygon(f, (-0.1, -0.7), (-0.1, 0.15), (-0.7, 0.15))
    )
    return joined(hull, sails, box(f, -0.02, -0.2, 0.04, 0.6, 0.01))


def _butterfly(f: Frame) -> Plane:
    x = np.abs(f.x)
    mirrored = Frame(x, f.y, f.pixel)
    upper, lower = mirrored.placed(0.48, -0.35, turn=-0.6), mirrored.placed(0.4, 0.42, turn=0.6)
    return joined(
        oval(upper, 0.0, 0.0, 0.55, 0.36), oval(lower, 0.0, 0.0, 0.42, 0.3), box(f, 0.0, 0.0, 0.08, 0.7, 0.08)
    )


def _car(f: Frame) -> Plane:
    cabin = without(polygon(f, (-0.45, -0.5), (0.35, -0.5), (0.65, 0.0), (-0.65, 0.0)), box(f, -0.05, -0.25, 0.3, 0.13))
    return joined(box(f, 0.0, 0.17, 0.97, 0.25, 0.12), cabin, disk(f, -0.52, 0.45, 0.24), disk(f, 0.52, 0.45, 0.24))


def _chair(f: Frame) -> Plane:
    legs = joined(box(f, -0.5, 0.5, 0.09, 0.48, 0.02), box(f, 0.5, 0.5, 0.09, 0.48, 0.02))
    return joined(legs, box(f, 0.0, 0.1, 0.62, 0.14), box(f, -0.5, -0.4, 0.11, 0.57, 0.04))


def _lamp(f: Frame) -> Plane:
    shade = polygon(f, (-0.35, -0.9), (0.35, -0.9), (0.75, -0.1), (-0.75, -0.1))
    return joined(shade, box(f, 0.0, 0.35, 0.07, 0.5), oval(f, 0.0, 0.85, 0.45, 0.13))


def _bird(f: Frame) -> Plane:
    head = joined(disk(f, -0.55, -0.35, 0.27), polygon(f, (-0.98, -0.25), (-0.72, -0.45), (-0.72, -0.2)))
    tail = polygon(f, (0.3, -0.05), (0.98, -0.3), (0.9, 0.05))
    return joined(
        head,
        oval(f, 0.0, 0.05, 0.62, 0.37),
        tail,
        bar(f, (0.0, 0.3), (-0.05, 0.8), 0.05),
        bar(f, (0.2, 0.3), (0.2, 0.8), 0.05),
    )


def _cactus(f: Frame) -> Plane:
    left = joined(bar(f, (-0.55, -0.25), (-0.55, 0.1), 0.16), bar(f, (-0.55, 0.15), (0.0, 0.15), 0.14))
    right = joined(bar(f, (0.55, -0.5), (0.55, -0.1), 0.16), bar(f, (0.55, -0.1), (0.0, -0.1), 0.14))
    return joined(bar(f, (0.0, -0.72), (0.0, 0.9), 0.24), left, right)


def _umbrella(f: Frame) -> Plane:
    dome = np.maximum(disk(f, 0.0, 0.0, 0.92), f.y - 0.02 + 0.1 * np.abs(np.sin(f.x * 5.1)))
    hook = np.maximum(np.abs(np.sqrt((f.x - 0.15) ** 2 + (f.y - 0.75) ** 2) - 0.15) - 0.055, 0.75 - f.y)
    return joined(dome, box(f, 0.0, 0.35, 0.05, 0.42, 0.01), hook)


def _guitar(f: Frame) -> Plane:
    body = joined(disk(f, 0.0, 0.5, 0.45), disk(f, 0.0, 0.02, 0.32))
    return joined(
        without(body, disk(f, 0.0, 0.3, 0.12)), box(f, 0.0, -0.5, 0.07, 0.42, 0.01), box(f, 0.0, -0.9, 0.13, 0.1, 0.02)
    )


def _spiral(f: Frame) -> Plane:
    turns = np.mod(f.radius / 0.36 - f.angle / (2 * math.pi), 1.0)
    return np.maximum(0.36 * (np.abs(turns - 0.5) - 0.27), f.radius - 0.95)


SILHOUETTES: Mapping[str, Silhouette] = MappingProxyType(
    {
        "ball": _ball, "tile": _tile, "wedge": _wedge, "star": _star, "cross": _cross, "wheel": _wheel,
        "ring": _ring, "crescent": _crescent, "heart": _heart, "drop": _drop, "flower": _flower, "gear": _gear,
        "arrow": _arrow, "bottle": _bottle, "mug": _mug, "house": _house, "fish": _fish, "conifer": _conifer,
        "key": _key, "hourglass": _hourglass, "mushroom": _mushroom, "boat": _boat, "butterfly": _butterfly,
        "car": _car, "chair": _chair, "lamp": _lamp, "bird": _bird, "cactus": _cactus, "umbrella": _umbrella,
        "guitar": _guitar, "spiral": _spiral,
    }
)  # fmt: skip
