"""Pictures of things: a silhouette with a surface, once or several times, in front of a cluttered background."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import CANVAS, Color, Picture, smoothstep, wobble
from cplsr.data.procedural.noise import blur, fractal_noise, grain
from cplsr.data.procedural.paint import any_color, color, lit, mixed, mottled, photographed, relief
from cplsr.data.procedural.silhouettes import SILHOUETTES
from cplsr.data.procedural.surfaces import SURFACES


@dataclass(frozen=True)
class Placement:
    """Where one copy of a thing stands."""

    x: float
    y: float
    scale: float
    turn: float


Layout = Callable[[np.random.Generator], list[Placement]]


def _tilt(rng: np.random.Generator) -> float:
    return rng.normal(0, 0.35)


def _one(rng: np.random.Generator) -> list[Placement]:
    scale = rng.uniform(0.48, 0.8)
    reach = 0.9 - scale
    return [Placement(rng.uniform(-reach, reach), rng.uniform(-reach, reach), scale, _tilt(rng))]


def _along(rng: np.random.Generator, count: int, step: float, scale: float, direction: float) -> list[Placement]:
    """`count` copies on a line through the middle of the picture."""
    dx, dy = step * math.cos(direction), step * math.sin(direction)
    ox, oy = rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12)
    steps = [i - (count - 1) / 2 for i in range(count)]
    return [Placement(ox + dx * i, oy + dy * i, scale * math.exp(rng.normal(0, 0.08)), _tilt(rng) * 0.6) for i in steps]


def _circle(rng: np.random.Generator) -> list[Placement]:
    count, start = int(rng.integers(5, 7)), rng.uniform(0, 2 * math.pi)
    radius, scale = rng.uniform(0.56, 0.66), rng.uniform(0.22, 0.28)
    turns = [start + 2 * math.pi * i / count for i in range(count)]
    return [Placement(radius * math.cos(a), radius * math.sin(a), scale, a + math.pi / 2) for a in turns]


def _scatter(rng: np.random.Generator) -> list[Placement]:
    cells = rng.permutation(9)[: int(rng.integers(5, 8))]
    return [
        Placement(
            (cell % 3 - 1) * 0.64 + rng.normal(0, 0.09),
            (cell // 3 - 1) * 0.64 + rng.normal(0, 0.09),
            rng.uniform(0.2, 0.3),
            rng.uniform(0, 2 * math.pi),
        )
        for cell in cells.tolist()
    ]


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "one": _one,
        "pair": lambda rng: _along(rng, 2, rng.uniform(0.75, 0.95), rng.uniform(0.38, 0.5), rng.normal(0, 0.5)),
        "row": lambda rng: _along(rng, 3, rng.uniform(0.58, 0.66), rng.uniform(0.26, 0.34), rng.normal(0, 0.25)),
        "stack": lambda rng: _along(
            rng, 3, rng.uniform(0.5, 0.6), rng.uniform(0.3, 0.38), math.pi / 2 + rng.normal(0, 0.2)
        ),
        "circle": _circle,
        "scatter": _scatter,
    }
)


def background(rng: np.random.Generator) -> Picture:
    """Something out of focus behind the subject: a wall, a table or ground, with blurred things on it."""
    near, far = any_color(rng, (0.05, 0.6)), any_color(rng, (0.05, 0.6))
    picture = mixed(near, far, smoothstep(-1.8, 1.8, fractal_noise(rng, int(rng.integers(2, 5)))))
    if rng.random() < 0.5:  # a table edge or a horizon
        edge = rng.uniform(-0.3, 0.5) + rng.normal(0, 0.2) * CANVAS.x
        ground = mottled(rng, any_color(rng, (0.05, 0.6)), 10, 0.12, octaves=3, stretch=rng.uniform(1, 4))
        picture = mixed(picture, ground, CANVAS.cover(edge - CANVAS.y, 3.0))
    names = list(SILHOUETTES)
    for _ in range(int(rng.integers(2, 6))):
        frame = CANVAS.placed(
            rng.uniform(-1, 1), rng.uniform(-1, 1), scale=rng.uniform(0.15, 0.5), turn=rng.uniform(0, 6.28)
        )
        shape = SILHOUETTES[names[int(rng.integers(len(names)))]](frame)
        picture = mixed(picture, any_color(rng, (0.05, 0.7)), 0.8 * frame.cover(shape))
    picture = blur(picture, rng.uniform(1.2, 3.5))
    return picture * (1 + rng.uniform(0.0, 0.1) * blur(grain(rng), 0.6))[..., None]


def _two_colors(rng: np.random.Generator) -> tuple[Color, Color]:
    """A body color and a pattern color that stand apart in brightness, either one the brighter."""
    hue = rng.random()
    dark = color(hue, rng.uniform(0.2, 0.9), rng.uniform(0.15, 0.45))
    bright = color(hue + rng.normal(0, 0.2), rng.uniform(0.05, 0.7), rng.uniform(0.65, 1.0))
    return (dark, bright) if rng.random() < 0.5 else (bright, dark)


def paint_objects(rng: np.random.Generator, silhouette: str, surface: str, layout: str) -> Picture:
    """One photograph of a class such as ("mug", "striped", "pair"); everything but these three is chance."""
    picture = background(rng)
    body, pattern = _two_colors(rng)
    toward = rng.uniform(0, 2 * math.pi)
    aspect, gloss = math.exp(rng.normal(0, 0.12)), rng.uniform(0.0, 0.35)
    for copy in LAYOUTS[layout](rng):
        frame = CANVAS.placed(copy.x, copy.y, scale=copy.scale, turn=copy.turn, aspect=aspect)
        frame = wobble(rng, frame, 0.035)
        distance = SILHOUETTES[silhouette](frame)
        shifted = np.roll(
            frame.cover(distance, 2.0), (round(-6 * math.sin(toward)), round(-6 * math.cos(toward))), (0, 1)
        )
        picture = picture * (1 - 0.45 * blur(shifted, 2.0))[..., None]
        dome = np.sqrt(np.clip(-distance, 0.0, 0.35)) * copy.scale
        light = relief(blur(dome, 1.0), toward + math.pi, 0.38)
        painted = mixed(body, pattern, SURFACES[surface](frame, rng)) * light[..., None]
        painted = painted + (gloss * smoothstep(1.3, 1.7, light))[..., None]
        picture = mixed(picture, painted, frame.cover(distance, 1.2))
    return photographed(rng, lit(rng, picture))
