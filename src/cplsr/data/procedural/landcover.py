"""Land seen from above: tiles of fields, woods, water, roads and roofs at any orientation, season and time of day."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from cplsr.data.procedural.canvas import CANVAS, Color, Frame, Painter, Picture, Plane, smoothstep, wobble
from cplsr.data.procedural.noise import blur, fractal_noise, nearest_cells, scattered, smooth_noise
from cplsr.data.procedural.paint import any_color, color, lit, mixed, mottled, photographed, relief


def _earth(rng: np.random.Generator, value: tuple[float, float] = (0.25, 0.75)) -> Color:
    """A color land can have in some season: from soil over straw to lush green."""
    return any_color(rng, (0.12, 0.6), value, hue=(0.04, 0.42))


def _water(rng: np.random.Generator) -> Picture:
    return mottled(rng, any_color(rng, (0.2, 0.7), (0.15, 0.55), hue=(0.4, 0.66)), 8, 0.05, stretch=2.0)


def _turned(rng: np.random.Generator, scale: float = 1.0) -> Frame:
    """The whole tile at a random orientation."""
    return CANVAS.placed(
        rng.uniform(-0.4, 0.4), rng.uniform(-0.4, 0.4), scale=scale * rng.uniform(0.8, 1.25), turn=rng.uniform(0, 6.3)
    )


def _patchwork(rng: np.random.Generator, columns: float) -> tuple[Picture, Plane, Plane]:
    """Land split into parcels: the parcels' colors, the distance to their borders, and a random number per parcel."""
    f = _turned(rng)
    row = np.floor(f.y * columns)
    shift = rng.random(64).astype(np.float32)[(row.astype(int) + 32) % 64]
    column = np.floor(f.x * columns * 0.8 + shift)
    parcel = ((row * 13 + column * 7).astype(int)) % 31
    paints = np.stack([_earth(rng) for _ in range(31)])
    u, v = np.mod(f.x * columns * 0.8 + shift, 1), np.mod(f.y * columns, 1)
    border = np.minimum(np.minimum(u, 1 - u), np.minimum(v, 1 - v)) / columns
    picture = mottled(rng, paints[parcel], 10, 0.05)
    return picture, border, rng.random(31).astype(np.float32)[parcel]


def _annual_crop(rng: np.random.Generator) -> Picture:
    """Large parcels with straight sowing lines."""
    picture, border, parcel = _patchwork(rng, rng.uniform(0.9, 1.4))
    f = _turned(rng)
    pitch = rng.uniform(38, 52)
    lines = np.where(parcel < 0.5, np.sin(f.x * pitch), np.sin(f.y * pitch))
    return mixed(picture * (1 + 0.16 * lines)[..., None], _earth(rng) * 0.7, smoothstep(0.02, 0.008, border))


def _pivot(rng: np.random.Generator) -> Picture:
    """Round fields under center-pivot irrigation."""
    f = _turned(rng)
    pitch = rng.uniform(1.1, 1.6)
    u, v = f.x * pitch, f.y * pitch
    cell = (np.floor(u) * 5 + np.floor(v) * 11).astype(int) % 17
    u, v = np.mod(u, 1) - 0.5, np.mod(v, 1) - 0.5
    radius = np.sqrt(u * u + v * v)
    crop = np.stack([_earth(rng) for _ in range(17)])[cell] * (1 + 0.08 * np.sin(radius * 60))[..., None]
    dry = mottled(rng, color(rng.uniform(0.05, 0.13), 0.35, rng.uniform(0.5, 0.85)), 5, 0.08)
    return mixed(dry, crop, smoothstep(0.47, 0.44, radius))


def _orchard(rng: np.random.Generator) -> Picture:
    """Trees planted in a grid."""
    f = wobble(rng, _turned(rng), 0.012, 5)
    pitch = rng.uniform(4.2, 5.6)
    u, v = np.mod(f.x * pitch, 1) - 0.5, np.mod(f.y * pitch, 1) - 0.5
    tree = smoothstep(0.36, 0.26, np.sqrt(u * u + v * v))
    shadow = smoothstep(0.4, 0.26, np.sqrt((u - 0.14) ** 2 + (v - 0.14) ** 2))
    ground = mottled(rng, _earth(rng, (0.5, 0.85))) * (1 - 0.4 * shadow)[..., None]
    return mixed(ground, _earth(rng, (0.2, 0.5)) * (1.1 - 0.6 * (u + v))[..., None], tree)


def _forest(rng: np.random.Generator) -> Picture:
    """A closed canopy of crowns, light on one side, dark in the gaps."""
    crowns = smooth_noise(rng, int(rng.integers(22, 28))) + 0.4 * smooth_noise(rng, 48)
    light = np.clip(relief(0.04 * crowns, rng.uniform(0, 6.3), 0.3), 0.4, 1.6) * smoothstep(-1.8, 0.8, crowns)
    leaves = any_color(rng, (0.2, 0.6), (0.25, 0.5), hue=(0.2, 0.42))
    return leaves * (light * (1 + 0.1 * fractal_noise(rng, 3)))[..., None]


def _meadow(rng: np.random.Generator) -> Picture:
    """Open grass, wild and mottled, with scattered shrubs."""
    picture = mixed(_earth(rng), _earth(rng), smoothstep(-1.5, 1.5, fractal_noise(rng, 3, octaves=5, gain=0.65)))
    shrubs = smoothstep(1.5, 1.9, smooth_noise(rng, 22))
    return mixed(picture, picture * 0.45, shrubs)


def _pasture(rng: np.random.Generator) -> Picture:
    """Irregular meadows enclosed by hedges."""
    f = wobble(rng, _turned(rng), 0.05)
    first, second, owner = nearest_cells(f.x, f.y, scattered(rng, 4, jitter=0.8))
    green = _earth(rng)
    tone = rng.uniform(0.8, 1.2, (16, 1)).astype(np.float32)[owner]
    hedge = smoothstep(0.07, 0.03, second - first + 0.02 * smooth_noise(rng, 30))
    return mixed(mottled(rng, green * tone, 8, 0.06), green * 0.4, hedge)


def _roofs(rng: np.random.Generator, count: int) -> Float[np.ndarray, "count 3"]:
    return np.stack([any_color(rng, (0.0, 0.6), (0.4, 0.95), hue=(-0.03, 0.1)) for _ in range(count)])


def _residential(rng: np.random.Generator) -> Picture:
    """Blocks of small houses in gardens along streets."""
    f = wobble(rng, _turned(rng), 0.015)
    lots = rng.uniform(4.2, 5.4)
    u, v = f.x * lots, f.y * lots
    block = np.minimum(np.abs(np.mod(u / 4, 1) - 0.5) * 4, np.abs(np.mod(v / 2, 1) - 0.5) * 2)
    cell = (np.floor(u) * 7 + np.floor(v) * 17).astype(int) % 29
    grow = rng.uniform(0.26, 0.38, 29).astype(np.float32)[cell]
    du, dv = np.mod(u, 1) - 0.5, np.mod(v, 1) - 0.5
    house = smoothstep(0.04, -0.04, np.maximum(np.abs(du) - grow, np.abs(dv) - 0.3))
    gable = np.where(dv > 0, 0.75, 1.1)
    garden = mottled(rng, _earth(rng, (0.25, 0.6)), 20, 0.12)
    picture = mixed(garden, _roofs(rng, 29)[cell] * gable[..., None], house)
    return mixed(picture, color(0.0, 0.0, rng.uniform(0.45, 0.75)), smoothstep(0.17, 0.12, block))


def _industrial(rng: np.random.Generator) -> Picture:
    """Large flat roofs with vents, on paved yards."""
    f = _turned(rng)
    yard = mottled(rng, color(0.1, 0.06, rng.uniform(0.35, 0.65)), 12, 0.07)
    pitch = rng.uniform(1.3, 1.7)
    row = np.floor(f.y * pitch)
    u = f.x * pitch * 0.7 + rng.random(64).astype(np.float32)[(row.astype(int) + 32) % 64]
    cell = (np.floor(u) * 5 + row * 3).astype(int) % 13
    du, dv = (np.mod(u, 1) - 0.5) / 0.7, np.mod(f.y * pitch, 1) - 0.5
    size = rng.uniform(0.34, 0.62, 13).astype(np.float32)[cell]
    edge = np.maximum(np.abs(du) - size, np.abs(dv) - 0.36)
    roofs = np.stack([color(rng.random(), rng.uniform(0.0, 0.3), rng.uniform(0.55, 1.0)) for _ in range(13)])[cell]
    ribs = 1 + 0.1 * np.sign(np.sin(du * 26))
    vents = (np.abs(np.mod(du * 3, 1) - 0.5) < 0.1) & (np.abs(np.abs(dv) - 0.17) < 0.05)
    shadow = np.maximum(np.abs(du - 0.05) - size, np.abs(dv - 0.06) - 0.36)
    picture = yard * (1 - 0.5 * smoothstep(0.02, -0.02, shadow))[..., None]
    return mixed(picture, roofs * (ribs * (1 - 0.5 * vents))[..., None], smoothstep(0.015, -0.015, edge))


def _open_land(rng: np.random.Generator) -> Picture:
    """Whatever a road or a river may cross."""
    kind = rng.random()
    if kind < 0.4:
        picture, border, _ = _patchwork(rng, rng.uniform(1.0, 1.8))
        return mixed(picture, picture * 0.6, smoothstep(0.02, 0.008, border))
    if kind < 0.7:
        return _meadow(rng)
    return mottled(rng, _earth(rng, (0.25, 0.55)), 14, 0.2)


def _highway(rng: np.random.Generator) -> Picture:
    """A dual carriageway, nearly straight, with traffic and sometimes a ramp."""
    f = _turned(rng)
    offset = f.y - rng.normal(0, 0.12) * f.x**2
    asphalt = color(0.6, 0.05, rng.uniform(0.35, 0.65))
    lanes = (np.abs(np.abs(offset) - 0.105) < 0.012) & (np.mod(f.x * 6, 1) < 0.6)
    cars = (np.abs(np.abs(np.abs(offset) - 0.105) - 0.045) < 0.02) & (
        np.mod(f.x * 3.3 + np.sign(offset) * 0.3, 1) < 0.14
    )
    road = mixed(asphalt, np.ones(3, np.float32), 0.9 * (lanes | cars).astype(np.float32))
    strip = mixed(road, _earth(rng), smoothstep(0.03, 0.02, np.abs(offset)))
    picture = _open_land(rng)
    if rng.random() < 0.5:
        ramp = np.abs(np.sqrt((f.x - 0.1) ** 2 + (f.y - 0.55) ** 2) - 0.36) - 0.04
        picture = mixed(picture, asphalt, f.cover(ramp))
    return mixed(picture, strip, f.cover(np.abs(offset) - 0.19))


def _river(rng: np.random.Generator) -> Picture:
    """A winding ribbon of water with wooded banks."""
    f = _turned(rng)
    bend = rng.uniform(2.2, 3.6)
    middle = 0.3 * np.sin(f.x * bend + rng.uniform(0, 6.3)) + 0.06 * smooth_noise(rng, 4)
    width = rng.uniform(0.09, 0.18) * (1 + 0.15 * smooth_noise(rng, 4))
    distance = np.abs(f.y - middle) - width
    wooded = smoothstep(0.16, 0.02, distance + 0.04 * smooth_noise(rng, 20))
    land = _open_land(rng)
    picture = mixed(land, land * 0.5, wooded)
    return mixed(picture, _water(rng), f.cover(distance, 2.0))


def _coast(rng: np.random.Generator) -> Picture:
    """Open water with a shore, a beach and a line of surf."""
    f = _turned(rng)
    shore = f.y + rng.uniform(-0.2, 0.3) + 0.13 * fractal_noise(rng, 2, octaves=5)
    sand = color(0.11, 0.3, rng.uniform(0.7, 0.95))
    picture = mixed(_open_land(rng), sand, smoothstep(0.22, 0.16, shore))
    picture = mixed(picture, _water(rng), smoothstep(0.05, -0.02, shore))
    surf = np.exp(-(((shore + 0.03) / 0.025) ** 2)) + 0.6 * np.exp(-(((shore + 0.14) / 0.02) ** 2))
    return mixed(picture, np.ones(3, np.float32), np.clip(0.85 * surf, 0, 1))


def _solar(rng: np.random.Generator) -> Picture:
    """Rows of panels in straight, separate tables."""
    f = _turned(rng)
    pitch = rng.uniform(4.5, 6.0)
    v = np.mod(f.y * pitch, 1)
    u = np.mod(f.x * rng.uniform(1.1, 1.6), 1)
    panel = smoothstep(0.06, 0.1, v) * smoothstep(0.62, 0.58, v) * smoothstep(0.02, 0.04, u) * smoothstep(0.94, 0.92, u)
    blue = any_color(rng, (0.3, 0.7), (0.2, 0.45), hue=(0.58, 0.68))
    glass = blue * (1 + 0.2 * np.sign(np.sin(f.x * 60)))[..., None]
    return mixed(mottled(rng, _earth(rng, (0.45, 0.8))), glass, panel)


def _badlands(rng: np.random.Generator) -> Picture:
    """Bare hills with valleys that branch like veins, in raking light."""
    ridged = 1 - np.abs(fractal_noise(rng, 4, octaves=5, gain=0.6))
    light = np.clip(relief(0.14 * ridged, rng.uniform(0, 6.3), 0.5), 0.25, 1.7)
    return any_color(rng, (0.1, 0.5), (0.4, 0.75), hue=(0.02, 0.13)) * light[..., None]


_COVERS: Mapping[str, Painter] = {
    "annual crop": _annual_crop,
    "pivot irrigation": _pivot,
    "orchard": _orchard,
    "forest": _forest,
    "meadow": _meadow,
    "hedged pasture": _pasture,
    "residential": _residential,
    "industrial": _industrial,
    "highway": _highway,
    "river": _river,
    "coast": _coast,
    "solar farm": _solar,
    "badlands": _badlands,
}


def paint_landcover(rng: np.random.Generator, cover: str) -> Picture:
    """One tile, through an atmosphere that is hazy by chance."""
    picture = _COVERS[cover](rng)
    if rng.random() < 0.6:  # real tiles are seldom pure: other land reaches in from one side
        f = _turned(rng)
        picture = mixed(picture, _open_land(rng), smoothstep(0.02, 0.05, f.y - 0.45 + 0.1 * fractal_noise(rng, 3)))
    haze = color(rng.uniform(0.5, 0.62), 0.12, rng.uniform(0.6, 0.9))
    picture = mixed(picture, haze, np.full_like(CANVAS.x, rng.uniform(0.0, 0.45)))
    picture = picture * (1 + 0.06 * math.copysign(1, rng.normal()) * blur(smooth_noise(rng, 2), 2.0))[..., None]
    return photographed(rng, lit(rng, picture, 0.2), exposure=0.12, cast=0.07, softness=1.3)


CLASSES: Mapping[str, Painter] = MappingProxyType({name: partial(paint_landcover, cover=name) for name in _COVERS})
