"""Chest radiographs: grey projections of the same anatomy that differ by one finding.

Density adds up along the ray, so a picture is a sum of soft tissue, bone, lung and finding under one exposure curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import CANVAS, Frame, Painter, Picture, Plane, smoothstep, wobble
from cplsr.data.procedural.noise import blur, fractal_noise, grain, smooth_noise
from cplsr.data.procedural.silhouettes import bar, box, disk, joined, oval


@dataclass(frozen=True)
class Chest:
    """The anatomy of one patient: a frame in body coordinates and where the lungs are (1 inside, 0 outside)."""

    frame: Frame
    left: Plane
    right: Plane
    density: Plane

    @property
    def lungs(self) -> Plane:
        """Both lungs."""
        return np.maximum(self.left, self.right)

    def one_lung(self, rng: np.random.Generator) -> tuple[float, Plane]:
        """A lung by chance: the sign of its x coordinate, and where it is."""
        return (-1.0, self.left) if rng.random() < 0.5 else (1.0, self.right)


def _anatomy(rng: np.random.Generator, heart_size: float) -> Chest:
    frame = CANVAS.placed(
        rng.normal(0, 0.04), rng.normal(0, 0.05),
        scale=rng.uniform(0.92, 1.1), turn=rng.normal(0, 0.05), aspect=rng.uniform(0.95, 1.1),
    )  # fmt: skip
    frame = wobble(rng, frame, 0.018)
    x, y = frame.x, frame.y
    dome = rng.uniform(0.48, 0.66)
    lungs = []
    for side in (-1, 1):
        floor = dome + rng.normal(0, 0.03) + 0.9 * (x - side * 0.38) ** 2
        lung = np.maximum(oval(frame, side * 0.43, 0.05, 0.34, 0.85), y - floor)
        lungs.append(smoothstep(0.05, -0.07, lung))
    torso = smoothstep(0.12, -0.25, np.maximum(np.abs(x) - 0.92 + 0.1 * y, -y - 0.98))
    shoulders = smoothstep(0.1, -0.1, y + 0.62 + 0.45 * (1 - np.abs(x)))
    spine = np.exp(-((x / 0.09) ** 2)) * (1 + 0.16 * np.sin(y * rng.uniform(18, 24)))
    heart = smoothstep(0.06, -0.06, oval(frame, 0.13, 0.33, heart_size, 0.3))
    aorta = smoothstep(0.05, -0.05, joined(oval(frame, 0.1, -0.25, 0.09, 0.1), box(frame, 0.0, 0.0, 0.1, 0.4)))
    density = 0.6 * torso + 0.22 * shoulders + 0.3 * spine + 0.34 * np.maximum(heart, 0.7 * aorta)
    density = density - 0.52 * np.maximum(*lungs) * (1 - 0.75 * heart)
    return Chest(frame, lungs[0], lungs[1], density + 0.045 * fractal_noise(rng, 4) + _bones(rng, frame) * torso)


def _bones(rng: np.random.Generator, frame: Frame) -> Plane:
    """Ribs that curve down and outwards, and the collar bones."""
    x, y = np.abs(frame.x), frame.y
    position = (y + 0.55 * (x - 0.35) ** 2 + 0.3 * x) * rng.uniform(3.0, 3.8) + rng.random()
    rib = np.exp(-(((np.mod(position, 1) - 0.5) / 0.16) ** 2)) * smoothstep(0.08, 0.25, x)
    tilt = rng.uniform(0.0, 0.12)
    collar = bar(Frame(x, y, frame.pixel), (0.12, -0.62 + tilt), (0.75, -0.75 - tilt), 0.035)
    return rng.uniform(0.07, 0.13) * rib + 0.12 * smoothstep(0.03, -0.03, collar)


def _vessels(rng: np.random.Generator, chest: Chest) -> Plane:
    """Branching lung markings, dense near the middle and fading outwards."""
    near = np.exp(-(((np.abs(chest.frame.x) - 0.15) / 0.22) ** 2) - ((chest.frame.y - 0.05) / 0.4) ** 2)
    ridges = 1 - np.minimum(np.abs(fractal_noise(rng, 9, octaves=3)) * 2.2, 1)
    return chest.lungs * (0.03 + 0.14 * near) * ridges


def _spot(rng: np.random.Generator, chest: Chest, radius: float, softness: float) -> Plane:
    side, _ = chest.one_lung(rng)
    spot = chest.frame.placed(side * rng.uniform(0.4, 0.58), rng.uniform(-0.45, 0.3), aspect=rng.uniform(0.85, 1.2))
    return smoothstep(softness, -softness, disk(wobble(rng, spot, 0.02, 6), 0.0, 0.0, radius))


def _effusion(rng: np.random.Generator, chest: Chest) -> Plane:
    side, lung = chest.one_lung(rng)
    outward = side * chest.frame.x - 0.35
    level = rng.uniform(-0.15, 0.2) - 0.9 * np.maximum(outward, 0) ** 1.5 - 0.1 * outward
    return rng.uniform(0.42, 0.52) * lung * smoothstep(-0.04, 0.06, chest.frame.y - level)


def _pneumothorax(rng: np.random.Generator, chest: Chest) -> Plane:
    side, lung = chest.one_lung(rng)
    f = chest.frame
    shrink = rng.uniform(0.66, 0.8)
    edge = oval(f, side * 0.33, 0.12, 0.34 * shrink, 0.85 * shrink)
    outside = smoothstep(-0.015, 0.015, edge)
    line = np.exp(-((edge / 0.022) ** 2))
    return lung * (0.26 * line - 0.2 * outside + 0.14 * (1 - outside))


def _infiltrate(rng: np.random.Generator, chest: Chest) -> Plane:
    side, lung = chest.one_lung(rng)
    near = np.exp(
        -(((chest.frame.x - side * 0.4) / 0.36) ** 2) - ((chest.frame.y - rng.uniform(-0.2, 0.3)) / 0.44) ** 2
    )
    return 0.75 * lung * near * smoothstep(-0.5, 0.9, fractal_noise(rng, 12, octaves=3, gain=0.7))


def _reticular(rng: np.random.Generator, chest: Chest) -> Plane:
    net = 1 - np.minimum(np.abs(smooth_noise(rng, 15)) * 3.0, 1)
    net = np.maximum(net, 1 - np.minimum(np.abs(smooth_noise(rng, 15)) * 3.0, 1))
    return rng.uniform(0.3, 0.4) * chest.lungs * net * smoothstep(-0.7, 0.2, chest.frame.y)


def _pacemaker(rng: np.random.Generator, chest: Chest) -> Plane:
    side = 1.0 if rng.random() < 0.7 else -1.0
    f = chest.frame.placed(side * rng.uniform(0.5, 0.62), rng.uniform(-0.5, -0.36), turn=rng.normal(0, 0.3))
    can = smoothstep(0.012, -0.012, box(f, 0.0, 0.0, 0.13, 0.11, 0.07))
    g, bow = chest.frame, rng.uniform(0.1, 0.3)
    path = side * (0.5 - (g.y + 0.45) * 0.65) + bow * np.sin((g.y + 0.45) * 3.6) * side
    lead = np.exp(-(((g.x - path) / 0.016) ** 2)) * smoothstep(-0.48, -0.4, g.y) * smoothstep(0.48, 0.42, g.y)
    return 0.75 * can + 0.5 * lead


def _atelectasis(rng: np.random.Generator, chest: Chest) -> Plane:
    side, lung = chest.one_lung(rng)
    total = np.zeros_like(lung)
    for _ in range(int(rng.integers(3, 5))):
        f = chest.frame.placed(side * 0.45, rng.uniform(-0.1, 0.48), turn=side * rng.normal(-0.15, 0.2))
        total = np.maximum(total, smoothstep(0.014, -0.014, box(f, 0.0, 0.0, rng.uniform(0.2, 0.3), 0.03, 0.01)))
    return 0.46 * lung * total


Finding = Callable[[np.random.Generator, Chest], Plane]

_FINDINGS: Mapping[str, Finding] = {
    "clear": lambda rng, chest: np.zeros_like(chest.density),
    "cardiomegaly": lambda rng, chest: np.zeros_like(chest.density),  # the heart is drawn with the anatomy
    "nodule": lambda rng, chest: rng.uniform(0.4, 0.5) * _spot(rng, chest, rng.uniform(0.08, 0.11), 0.025),
    "mass": lambda rng, chest: rng.uniform(0.42, 0.55) * _spot(rng, chest, rng.uniform(0.24, 0.32), 0.04),
    "effusion": _effusion,
    "pneumothorax": _pneumothorax,
    "infiltrate": _infiltrate,
    "reticular": _reticular,
    "miliary": lambda rng, chest: rng.uniform(0.36, 0.46) * chest.lungs * smoothstep(0.5, 1.2, smooth_noise(rng, 40)),
    "atelectasis": _atelectasis,
    "pacemaker": _pacemaker,
}
_HEART_SIZES = {"clear": (0.27, 0.34), "cardiomegaly": (0.5, 0.6)}  # half widths; other findings have the usual ones
_USUAL_HEART = (0.27, 0.36)


def paint_radiograph(rng: np.random.Generator, finding: str) -> Picture:
    """One exposure of one patient with this finding."""
    chest = _anatomy(rng, rng.uniform(*_HEART_SIZES.get(finding, _USUAL_HEART)))
    density = chest.density + _vessels(rng, chest) + _FINDINGS[finding](rng, chest)
    # The tube's field is uneven and the exposure differs from film to film.
    side = rng.uniform(0, 2 * math.pi)
    density = density + rng.uniform(0, 0.12) * (CANVAS.x * math.cos(side) + CANVAS.y * math.sin(side))
    level = 1 / (1 + np.exp(-rng.uniform(3.4, 4.6) * (density - rng.uniform(0.3, 0.5))))
    level = blur(level, rng.uniform(0.3, 0.8)) * rng.uniform(0.75, 1.0) + rng.uniform(0.0, 0.08)
    level = level + rng.uniform(0.008, 0.025) * blur(grain(rng), 0.4)
    return np.repeat(level[..., None], 3, axis=2)


CLASSES: Mapping[str, Painter] = MappingProxyType({name: partial(paint_radiograph, finding=name) for name in _FINDINGS})
