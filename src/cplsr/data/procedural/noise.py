"""Random fields on a square grid: smooth noise, fractal noise, cells and blur.

Everything smooth is a product with a small cached matrix, which is what makes a whole picture cost milliseconds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

SIDE = 96  # every procedural picture is SIDE x SIDE pixels

# A cubic B-spline through independent unit normals has this standard deviation per axis.
_SPLINE_DEVIATION = math.sqrt(151 / 315)


@lru_cache(maxsize=256)
def _spline_matrix(cells: int) -> Float[np.ndarray, "side nodes"]:
    """Weights of a uniform cubic B-spline with `cells` intervals over the side of the picture."""
    position = (np.arange(SIDE) + 0.5) / SIDE * cells
    distance = np.abs(position[:, None] - np.arange(-1, cells + 2)[None, :])
    inner = 2 / 3 - distance**2 + distance**3 / 2
    outer = np.maximum(2 - distance, 0) ** 3 / 6
    weights = np.where(distance < 1, inner, outer)
    return (weights / _SPLINE_DEVIATION).astype(np.float32)


def smooth_noise(rng: np.random.Generator, rows: int, columns: int | None = None) -> Float[np.ndarray, "side side"]:
    """Smooth noise of mean 0 and variance 1 whose bumps are about 1/rows high and 1/columns wide."""
    down, across = _spline_matrix(rows), _spline_matrix(columns or rows)
    nodes = rng.standard_normal((down.shape[1], across.shape[1]), dtype=np.float32)
    return down @ nodes @ across.T


def fractal_noise(
    rng: np.random.Generator, cells: int, *, octaves: int = 4, gain: float = 0.55, stretch: float = 1.0
) -> Float[np.ndarray, "side side"]:
    """Octaves of smooth noise, each twice as fine and `gain` times as strong; mean 0, variance 1.

    A `stretch` above 1 makes the bumps longer from left to right, as in wood or in calm water.
    """
    total = np.zeros((SIDE, SIDE), np.float32)
    power = 0.0
    for octave in range(octaves):
        rows = min(cells * 2**octave, SIDE)
        columns = max(1, round(rows / stretch))
        total += gain**octave * smooth_noise(rng, rows, columns)
        power += gain ** (2 * octave)
    return total / math.sqrt(power)


def grain(rng: np.random.Generator) -> Float[np.ndarray, "side side"]:
    """Independent unit-variance noise in every pixel."""
    return rng.standard_normal((SIDE, SIDE), dtype=np.float32)


@lru_cache(maxsize=64)
def _blur_matrix(twentieths: int) -> Float[np.ndarray, "side side"]:
    sigma = twentieths / 20
    position = np.arange(SIDE)
    weights = np.zeros((SIDE, SIDE))
    # The borders reflect: light from beyond the edge comes from its mirror image.
    for mirrored in (position, -1 - position, 2 * SIDE - 1 - position):
        weights += np.exp(-0.5 * ((position[:, None] - mirrored[None, :]) / sigma) ** 2)
    weights[weights < 1e-7] = 0  # denormal numbers would make the product many times slower
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def blur(field: Float[np.ndarray, "side side *channels"], sigma: float) -> Float[np.ndarray, "side side *channels"]:
    """Gaussian blur of `sigma` pixels (rounded to a twentieth; nothing happens below that)."""
    twentieths = round(sigma * 20)
    if twentieths < 4:
        return field
    matrix = _blur_matrix(twentieths)
    if field.ndim == 2:
        return matrix @ field @ matrix.T
    planes = np.ascontiguousarray(np.moveaxis(field, -1, 0))  # a strided operand would leave the fast path
    return np.ascontiguousarray(np.moveaxis(matrix @ planes @ matrix.T, 0, -1))


def _distance(coded: Int[np.ndarray, "side side"]) -> Float[np.ndarray, "side side"]:
    return np.sqrt((coded & ~255).view(np.float32))


def nearest_cells(
    x: Float[np.ndarray, "side side"], y: Float[np.ndarray, "side side"], seeds: Float[np.ndarray, "count 2"]
) -> tuple[Float[np.ndarray, "side side"], Float[np.ndarray, "side side"], Int[np.ndarray, "side side"]]:
    """For every pixel: distance to its nearest seed, to the second nearest, and which seed is the nearest.

    Takes 2 to 256 seeds; distances are right to about one part in 30,000.
    """
    seeds = seeds.astype(np.float32)
    squared = x.astype(np.float32)[None] - seeds[:, 0, None, None]
    squared *= squared
    down = y.astype(np.float32)[None] - seeds[:, 1, None, None]
    down *= down
    squared += down
    # Floats that are not negative keep their order when read as integers. With the seed's number in the eight lowest
    # bits, one integer minimum finds distance and owner together, several times faster than argmin along this axis.
    coded = squared.view(np.int32)
    coded &= ~255
    coded |= np.arange(len(seeds), dtype=np.int32)[:, None, None]
    nearest = coded.min(axis=0)
    second = np.where(coded == nearest, np.iinfo(np.int32).max, coded).min(axis=0)
    return _distance(nearest), _distance(second), nearest & 255


def scattered(rng: np.random.Generator, columns: int, *, jitter: float = 0.8) -> Float[np.ndarray, "count 2"]:
    """Points (x, y) over the square [-1, 1]²: one in every cell of a grid, moved about inside it."""
    axis = (np.arange(columns) + 0.5) / columns * 2 - 1
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return points + rng.uniform(-jitter, jitter, points.shape) / columns
