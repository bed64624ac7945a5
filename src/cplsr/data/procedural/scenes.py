"""Pictures of places: landscapes, streets and rooms, each recognizable by how it is laid out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cplsr.data.procedural.canvas import CANVAS, Color, Painter, Picture, Plane, smoothstep
from cplsr.data.procedural.noise import fractal_noise, nearest_cells, scattered, smooth_noise
from cplsr.data.procedural.paint import any_color, color, lit, mixed, mottled, photographed, relief
from cplsr.data.procedural.silhouettes import SILHOUETTES, disk

_X, _Y = CANVAS.x, CANVAS.y


def _sky(rng: np.random.Generator) -> Picture:
    """Sky at any hour: a gradient with thin clouds."""
    high, low = any_color(rng, (0.1, 0.7), (0.3, 0.95)), any_color(rng, (0.05, 0.5), (0.6, 1.0))
    clouds = smoothstep(rng.uniform(-0.2, 1.0), 2.0, fractal_noise(rng, 3, stretch=2.5))
    return mixed(mixed(high, low, (_Y + 1) / 1.6), np.ones(3, np.float32), 0.6 * clouds)


def _ridge(rng: np.random.Generator, height: float, roughness: float, cells: int) -> Plane:
    """Height of a skyline above each column, repeated over the rows."""
    profile = fractal_noise(rng, cells, octaves=4)[0]
    return np.broadcast_to(height - roughness * profile, _X.shape)


def _below(level: Plane | float, softness: float = 1.2) -> Plane:
    """Everything on the ground side of a level."""
    return CANVAS.cover(level - _Y, softness)


def _grassy(rng: np.random.Generator, paint: Color, cells: int = 14, strength: float = 0.16) -> Picture:
    return mottled(rng, paint, cells, strength, octaves=3)


def _depth(horizon: float) -> Plane:
    """Distance along the ground seen at each row below the horizon."""
    return 0.35 / np.maximum(_Y - horizon, 0.02)


def _mountains(rng: np.random.Generator) -> Picture:
    picture = _sky(rng)
    rock = any_color(rng, (0.05, 0.45), (0.25, 0.6))
    for level, cells in ((-0.25, 3), (0.1, 4), (0.45, 4)):
        ridge = _ridge(rng, level + rng.normal(0, 0.08), 0.28, cells)
        peaks = np.abs(np.mod(_X * rng.uniform(1.0, 1.6) + rng.random(), 1) - 0.5) * 0.9
        stone = mottled(rng, rock, 6, 0.3, stretch=0.5)
        snowy = mixed(stone, np.ones(3, np.float32), 0.85 * smoothstep(0.28, 0.12, _Y - ridge - peaks + 0.1))
        picture = mixed(picture, snowy if level < 0.3 else stone * 0.6, _below(ridge + peaks))
    return picture


def _dunes(rng: np.random.Generator) -> Picture:
    picture, sand = _sky(rng), any_color(rng, (0.2, 0.6), (0.6, 0.9))
    for level in (-0.1, 0.15, 0.5):
        crest = level + 0.16 * np.sin(_X * rng.uniform(1.5, 3) + 6 * rng.random())
        slope = 0.65 + 0.5 * smoothstep(-0.1, 0.15, _X * 0.2 + 0.2 * np.sin(5 * (_X + 1.5 * _Y)) + 0.1)
        ripples = 1 + 0.09 * np.sin(50 * (_Y + 0.25 * _X + 0.05 * smooth_noise(rng, 4)))
        picture = mixed(picture, sand * (slope * ripples)[..., None], _below(crest))
    return picture


def _sea(rng: np.random.Generator) -> Picture:
    horizon = rng.uniform(-0.4, 0.1)
    water = any_color(rng, (0.3, 0.8), (0.25, 0.7))
    depth = _depth(horizon)
    swell = np.sin(depth * 14 + 1.2 * fractal_noise(rng, 5, stretch=3.0))
    foam = smoothstep(0.9, 1.7, fractal_noise(rng, 20, octaves=2, stretch=5.0) + 0.4 * swell)
    surface = mixed(water * (1 + 0.2 * swell)[..., None], np.ones(3, np.float32), 0.8 * foam)
    return mixed(_sky(rng), surface, _below(horizon))


def _skyline(rng: np.random.Generator) -> Picture:
    picture = _sky(rng)
    for layer in range(2):
        count = int(rng.integers(6, 10))
        column = np.floor((_X + 1) / 2 * count + rng.random())
        tops = rng.uniform(-0.7 + 0.35 * layer, 0.35, count + 2).astype(np.float32)[column.astype(int)]
        paint = any_color(rng, (0.0, 0.35), (0.15, 0.5))
        windows = (np.sin(_X * 48) > 0.1) & (np.sin(_Y * 44) > 0.2) & (fractal_noise(rng, 20, octaves=1) > -0.2)
        tower = mixed(paint, color(0.13, 0.4, 1.0), 0.75 * windows.astype(np.float32))
        picture = mixed(picture, tower, _below(tops))
    return picture


def _forest(rng: np.random.Generator) -> Picture:
    leaf, bark = any_color(rng, (0.3, 0.7), (0.35, 0.7)), any_color(rng, (0.2, 0.6), (0.1, 0.4))
    picture = mixed(leaf * 0.4, leaf * 1.3, smoothstep(-1.5, 1.5, fractal_noise(rng, 9)))
    for _ in range(int(rng.integers(6, 10))):
        width = rng.uniform(0.03, 0.09)
        lean = rng.uniform(-1, 1) + 0.08 * rng.normal() * _Y + 0.01 * smooth_noise(rng, 4)
        trunk = np.abs(_X - lean) - width
        shade = 1 + 0.5 * (_X - lean) / width
        picture = mixed(picture, bark * np.clip(shade, 0.4, 1.7)[..., None], CANVAS.cover(trunk))
    return picture


def _road(rng: np.random.Generator) -> Picture:
    horizon, bend, shift = rng.uniform(-0.35, 0.1), rng.normal(0, 0.35), rng.normal(0, 0.15)
    depth = _depth(horizon)
    below = np.maximum(_Y - horizon, 0)
    middle = shift + bend * (1 - below) ** 2 * 0.6
    offset = (_X - middle) / (below * 0.8 + 0.02)
    asphalt = mottled(rng, any_color(rng, (0.0, 0.15), (0.25, 0.5)), 24, 0.06, octaves=2)
    dashes = (np.abs(offset) < 0.045) & (np.mod(depth * 2.2, 1) < 0.55)
    sides = np.abs(np.abs(offset) - 0.85) < 0.05
    road = mixed(asphalt, np.ones(3, np.float32), 0.9 * (dashes | sides).astype(np.float32))
    ground = mixed(_grassy(rng, any_color(rng, (0.2, 0.6), (0.3, 0.7))), road, smoothstep(1.02, 0.97, np.abs(offset)))
    return mixed(_sky(rng), ground, _below(horizon))


def _furrows(rng: np.random.Generator) -> Picture:
    horizon, vanish = rng.uniform(-0.5, -0.1), rng.uniform(-0.6, 0.6)
    below = np.maximum(_Y - horizon, 0.015)
    rows = np.sin((_X - vanish) / below * rng.uniform(4.5, 6.5) + 0.5 * smooth_noise(rng, 6))
    soil, crop = any_color(rng, (0.2, 0.6), (0.2, 0.5)), any_color(rng, (0.3, 0.8), (0.4, 0.8))
    field = mottled(rng, mixed(soil, crop, smoothstep(-0.3, 0.5, rows)), 16, 0.15)
    return mixed(_sky(rng), field, _below(horizon))


def _corridor(rng: np.random.Generator) -> Picture:
    cx, cy = rng.uniform(-0.3, 0.3), rng.uniform(-0.25, 0.25)
    dx, dy = (_X - cx) / 1.1, _Y - cy
    ring = np.maximum(np.abs(dx), np.abs(dy))
    depth = 0.25 / np.maximum(ring, 0.1)
    wall, floor, ceiling = (any_color(rng, (0.05, 0.5), (0.4, 0.9)) for _ in range(3))
    picture = np.where((np.abs(dx) > np.abs(dy))[..., None], wall, np.where((dy > 0)[..., None], floor, ceiling))
    ribs = 0.8 + 0.25 * np.tanh(4 * np.sin(depth * 9 + 6 * rng.random()))
    return (picture * (ribs * np.clip(ring * 1.3 + 0.2, 0, 1.1))[..., None]).astype(np.float32)


def _shelf(rng: np.random.Generator) -> Picture:
    rows = int(rng.integers(3, 5))
    v = (_Y + 1) / 2 * rows + 0.4 * rng.random()
    shelf = np.floor(v)
    edges = np.sort(rng.uniform(-1.1, 1.1, (rows + 2, 14)), axis=1)
    book = sum((edges[shelf.astype(int), i] < _X).astype(int) for i in range(14))
    key = shelf.astype(int) * 15 + book
    paints = np.stack([any_color(rng, (0.2, 0.8), (0.25, 0.9)) for _ in range(20)])[
        rng.integers(0, 20, 15 * (rows + 2))
    ]
    heights = rng.uniform(0.05, 0.35, 15 * (rows + 2)).astype(np.float32)
    inside = np.mod(v, 1)
    spine = paints[key] * (1 - 0.25 * (np.abs(np.mod(inside * 3, 1) - 0.5) < 0.08))[..., None]
    board = any_color(rng, (0.2, 0.6), (0.3, 0.7))
    gap = np.where((inside < heights[key])[..., None], board * 0.25, spine)
    return np.where((inside > 0.9)[..., None], board, gap).astype(np.float32)


def _stairs(rng: np.random.Generator) -> Picture:
    slope, steps, side = rng.uniform(0.5, 0.9), rng.uniform(3.5, 5.5), 1 if rng.random() < 0.5 else -1
    run = side * _X * steps
    profile = np.floor(run) / steps * slope + rng.uniform(-0.2, 0.2)
    wall = _grassy(rng, any_color(rng, (0.05, 0.4), (0.5, 0.9)), 5, 0.05)
    stone = any_color(rng, (0.05, 0.4), (0.4, 0.8))
    under = _Y + profile
    tread = np.where(under < 0.07, 1.35, np.where(np.mod(run, 1) < 0.08, 0.5, 0.85))
    return mixed(wall, stone * tread[..., None].astype(np.float32), CANVAS.cover(-under))


def _facade(rng: np.random.Generator) -> Picture:
    columns, rows = int(rng.integers(3, 5)), int(rng.integers(3, 5))
    tilt = rng.normal(0, 0.12)
    u, v = (_X * (1 + tilt * _Y) + 1) / 2 * columns + rng.random(), (_Y * (1 + tilt * _X) + 1) / 2 * rows + rng.random()
    du, dv = np.abs(np.mod(u, 1) - 0.5), np.abs(np.mod(v, 1) - 0.5)
    wall = _grassy(rng, any_color(rng, (0.1, 0.6), (0.4, 0.9)), 12, 0.08)
    frame, glass = any_color(rng, (0.0, 0.3), (0.7, 1.0)), any_color(rng, (0.1, 0.5), (0.1, 0.4))
    picture = mixed(wall, frame, smoothstep(0.34, 0.31, np.maximum(du * 1.3, dv)))
    pane = smoothstep(0.28, 0.25, np.maximum(du * 1.3, dv)) * smoothstep(0.02, 0.04, np.minimum(du, dv))
    return mixed(picture, glass * (1.2 - 0.4 * np.mod(v, 1))[..., None], pane)


def _fence(rng: np.random.Generator) -> Picture:
    slats, horizon = rng.uniform(3.5, 5.5), rng.uniform(-0.3, 0.0)
    picture = mixed(_sky(rng), _grassy(rng, any_color(rng, (0.3, 0.7), (0.3, 0.7))), _below(horizon))
    u = np.mod(_X * slats + rng.random(), 1) - 0.5
    top = horizon - 0.25 + 0.25 * np.abs(u)
    wood = mottled(rng, any_color(rng, (0.0, 0.5), (0.6, 1.0)), 16, 0.1, stretch=0.2)
    rails = ((np.abs(_Y - horizon - 0.05) < 0.05) | (np.abs(_Y - horizon - 0.55) < 0.05)).astype(np.float32)
    slat = (np.abs(u) < 0.3) * _below(top) * (1 - _below(horizon + 0.85))
    return mixed(picture, wood * (1 - 0.25 * (rails > slat))[..., None], np.maximum(slat, rails).astype(np.float32))


def _bridge(rng: np.random.Generator) -> Picture:
    level, span = rng.uniform(-0.3, 0.05), rng.uniform(0.6, 1.0)
    water = _grassy(rng, any_color(rng, (0.3, 0.7), (0.3, 0.6)), 16, 0.15)
    picture = mixed(_sky(rng), water, _below(level + 0.62))
    u = (np.mod(_X / span + rng.random(), 1) - 0.5) * span
    arch = np.sqrt(u**2 + ((_Y - level - 0.62) * 0.75) ** 2) - span * 0.38
    stone = _grassy(rng, any_color(rng, (0.05, 0.4), (0.4, 0.8)), 20, 0.12)
    wall = np.maximum(np.maximum(level - _Y, _Y - level - 0.62), -arch)
    return mixed(picture, stone, CANVAS.cover(wall))


def _pebbles(rng: np.random.Generator) -> Picture:
    first, second, owner = nearest_cells(_X, _Y, scattered(rng, int(rng.integers(5, 8))))
    base = any_color(rng, (0.05, 0.4), (0.4, 0.8))
    tone = rng.uniform(0.55, 1.35, (int(owner.max()) + 1, 1)).astype(np.float32)[owner]
    dome = np.sqrt(np.clip(second - first, 0, 0.25))
    light = relief(dome, rng.uniform(0, 6.28), 0.18) * smoothstep(0.0, 0.09, second - first)
    return mottled(rng, base * tone * light[..., None], 20, 0.06, octaves=2)


def _clouds(rng: np.random.Generator) -> Picture:
    blue = mixed(any_color(rng, (0.3, 0.8), (0.4, 0.9)), any_color(rng, (0.1, 0.5), (0.7, 1.0)), (_Y + 1) / 2)
    puff = fractal_noise(rng, 3, octaves=5, gain=0.5)
    shaded = np.ones(3, np.float32) * np.clip(relief(0.15 * puff, 1.57, 0.35), 0.6, 1.1)[..., None]
    return mixed(blue, shaded, smoothstep(0.1, 0.7, puff))


def _river(rng: np.random.Generator) -> Picture:
    horizon = rng.uniform(-0.4, -0.1)
    below = np.maximum(_Y - horizon, 0.01)
    middle = 0.45 * np.sin(1.6 * np.log(below + 0.1) * rng.uniform(1.2, 1.8) + 6 * rng.random())
    width = 0.06 + 0.4 * below**1.3
    water = mottled(rng, any_color(rng, (0.2, 0.6), (0.5, 0.9)), 16, 0.1, stretch=4.0)
    banks = mixed(
        _grassy(rng, any_color(rng, (0.3, 0.7), (0.3, 0.6)), 10, 0.25),
        water,
        CANVAS.cover(np.abs(_X - middle) - width),
    )
    hills = _ridge(rng, horizon - 0.1, 0.1, 3)
    picture = mixed(_sky(rng), any_color(rng, (0.2, 0.5), (0.3, 0.6)), _below(hills))
    return mixed(picture, banks, _below(horizon))


def _orchard(rng: np.random.Generator) -> Picture:
    horizon = rng.uniform(-0.35, -0.05)
    picture = mixed(_sky(rng), _grassy(rng, any_color(rng, (0.3, 0.7), (0.4, 0.75))), _below(horizon))
    leaf, bark = any_color(rng, (0.3, 0.8), (0.3, 0.7)), any_color(rng, (0.2, 0.6), (0.1, 0.35))
    for near in (0.12, 0.3, 0.6):
        size = 0.1 + 0.4 * near
        shift = rng.uniform(-1, 0)
        for i in range(int(2.4 / (size * 2.2)) + 2):
            cx, foot = shift + i * size * 2.2 - 0.6, horizon + near
            trunk = np.maximum(np.abs(_X - cx) - size * 0.13, np.maximum(foot - size * 1.1 - _Y, _Y - foot))
            crown = disk(CANVAS, cx, foot - size * 1.5, size * 0.85) + 0.11 * size * smooth_noise(rng, 16)
            picture = mixed(picture, bark, CANVAS.cover(trunk))
            shade = np.clip(1 - 0.5 * (_Y - foot + size * 1.5) / size, 0.4, 1.5)
            picture = mixed(picture, leaf * shade[..., None], CANVAS.cover(crown))
    return picture


def _checker_floor(rng: np.random.Generator) -> Picture:
    horizon, turn = rng.uniform(-0.5, 0.0), rng.uniform(-0.6, 0.6)
    depth = _depth(horizon)
    u, v = _X * depth * 2.4, depth * 2.4
    u, v = u * math.cos(turn) - v * math.sin(turn), u * math.sin(turn) + v * math.cos(turn)
    tiles = 0.5 + 0.5 * np.tanh(5 * np.sin(u * 3.1) * np.sin(v * 3.1))
    fade = np.clip(0.4 + 0.8 * (_Y - horizon), 0.3, 1.1)
    floor = (
        mixed(any_color(rng, (0.0, 0.6), (0.1, 0.4)), any_color(rng, (0.0, 0.4), (0.7, 1.0)), tiles) * fade[..., None]
    )
    wall = _grassy(rng, any_color(rng, (0.05, 0.5), (0.4, 0.85)), 4, 0.06)
    return mixed(wall, floor, _below(horizon))


def _night(rng: np.random.Generator) -> Picture:
    dark = mixed(any_color(rng, (0.3, 0.8), (0.05, 0.2)), any_color(rng, (0.3, 0.8), (0.15, 0.4)), (_Y + 1) / 2)
    stars = smoothstep(2.2, 3.0, smooth_noise(rng, 48))
    picture = mixed(dark, np.ones(3, np.float32), stars)
    moon = CANVAS.placed(
        rng.uniform(-0.6, 0.6), rng.uniform(-0.7, -0.2), scale=rng.uniform(0.15, 0.3), turn=rng.uniform(0, 6)
    )
    picture = mixed(picture, color(0.13, 0.2, 1.0), moon.cover(SILHOUETTES["crescent"](moon)))
    return mixed(picture, dark * 0.25, _below(_ridge(rng, 0.55, 0.12, 4)))


def _village(rng: np.random.Generator) -> Picture:
    horizon = rng.uniform(-0.25, 0.05)
    picture = mixed(_sky(rng), _grassy(rng, any_color(rng, (0.3, 0.7), (0.3, 0.7))), _below(horizon))
    for _ in range(int(rng.integers(3, 6))):
        near = rng.uniform(0.05, 0.6)
        size = 0.14 + 0.3 * near
        house = CANVAS.placed(
            rng.uniform(-0.8, 0.8), horizon + near - size * 0.7, scale=size, aspect=rng.uniform(0.9, 1.4)
        )
        shape = SILHOUETTES["house"](house)
        wall, roof = any_color(rng, (0.0, 0.4), (0.6, 1.0)), any_color(rng, (0.3, 0.8), (0.25, 0.6))
        picture = mixed(picture, mixed(roof, wall, smoothstep(-0.07, -0.03, house.y)), house.cover(shape))
    return picture


def _photograph_of(scene: Painter) -> Painter:
    def paint(rng: np.random.Generator) -> Picture:
        picture = scene(rng)
        # Half of all places are seen from the other side.
        picture = picture[:, ::-1] if rng.random() < 0.5 else picture
        return photographed(rng, lit(rng, picture), exposure=0.2)

    return paint


SCENES: Mapping[str, Painter] = MappingProxyType(
    {
        name: _photograph_of(scene)
        for name, scene in {
            "mountains": _mountains, "dunes": _dunes, "sea": _sea, "skyline": _skyline, "forest": _forest,
            "road": _road, "furrows": _furrows, "corridor": _corridor, "bookshelf": _shelf, "stairs": _stairs,
            "facade": _facade, "fence": _fence, "bridge": _bridge, "pebbles": _pebbles, "clouds": _clouds,
            "river": _river, "orchard": _orchard, "checker floor": _checker_floor, "night sky": _night,
            "village": _village,
        }.items()
    }
)  # fmt: skip
