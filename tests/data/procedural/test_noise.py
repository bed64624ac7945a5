import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from cplsr.data.procedural.noise import (
    SIDE,
    _spline_matrix,
    blur,
    fractal_noise,
    grain,
    nearest_cells,
    scattered,
    smooth_noise,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def cubic_b_spline(t: float) -> float:
    """The uniform cubic B-spline basis, literally, from its four polynomial pieces."""
    t = abs(t)
    if t < 1:
        return (4 - 6 * t**2 + 3 * t**3) / 6
    return (2 - t) ** 3 / 6 if t < 2 else 0.0


@pytest.mark.parametrize("cells", [1, 3, 40])
def test_spline_weights_are_the_b_spline_basis(cells: int) -> None:
    matrix = _spline_matrix(cells)
    expected = np.array(
        [[cubic_b_spline((row + 0.5) / SIDE * cells - node) for node in range(-1, cells + 2)] for row in range(SIDE)]
    )
    scale = matrix.sum() / expected.sum()
    np.testing.assert_allclose(matrix, expected * scale, atol=1e-6)


@pytest.mark.parametrize("make", [lambda rng: smooth_noise(rng, 12), lambda rng: fractal_noise(rng, 6), grain])
def test_noise_has_mean_zero_and_variance_one(make) -> None:
    fields = np.stack([make(generator(seed)) for seed in range(40)])
    assert abs(fields.mean()) < 0.06
    assert fields.var() == pytest.approx(1, abs=0.12)


def test_stretched_noise_changes_more_slowly_from_left_to_right() -> None:
    field = fractal_noise(generator(), 12, stretch=4.0)
    across, down = np.abs(np.diff(field, axis=1)).mean(), np.abs(np.diff(field, axis=0)).mean()
    assert across < 0.5 * down


def test_noise_follows_the_generator() -> None:
    assert np.array_equal(fractal_noise(generator(3), 5), fractal_noise(generator(3), 5))
    assert not np.array_equal(fractal_noise(generator(3), 5), fractal_noise(generator(4), 5))


@pytest.mark.parametrize("sigma", [0.5, 1.35, 4.0])
def test_blur_is_the_gaussian_filter_with_reflecting_borders(sigma: float) -> None:
    field = grain(generator())
    expected = gaussian_filter(field.astype(np.float64), sigma, mode="reflect", truncate=7)
    np.testing.assert_allclose(blur(field, sigma), expected, atol=2e-3)


def test_blur_treats_colors_separately() -> None:
    picture = generator().random((SIDE, SIDE, 3), dtype=np.float32)
    planes = np.stack([blur(picture[..., channel], 2.0) for channel in range(3)], axis=-1)
    np.testing.assert_allclose(blur(picture, 2.0), planes, atol=1e-5)


def test_a_tiny_blur_changes_nothing() -> None:
    field = grain(generator())
    assert blur(field, 0.1) is field


@settings(deadline=None, max_examples=15)
@given(st.integers(2, 80), st.integers(0, 2**31))
def test_nearest_cells_agree_with_sorting_all_distances(count: int, seed: int) -> None:
    rng = generator(seed)
    seeds = rng.uniform(-1, 1, (count, 2))
    x, y = (rng.uniform(-1, 1, (SIDE, SIDE)).astype(np.float32) for _ in range(2))
    first, second, owner = nearest_cells(x, y, seeds)
    distances = np.sqrt((x[..., None] - seeds[:, 0]) ** 2 + (y[..., None] - seeds[:, 1]) ** 2)
    nearest = np.sort(distances, axis=-1)
    np.testing.assert_allclose(first, nearest[..., 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second, nearest[..., 1], rtol=1e-4, atol=1e-5)
    claimed = np.take_along_axis(distances, owner[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(claimed, nearest[..., 0], rtol=1e-4, atol=1e-5)


def test_scattered_points_stay_in_their_cells() -> None:
    points = scattered(generator(), 6, jitter=1.0)
    cells = np.floor((points + 1) / 2 * 6).astype(int)
    assert len({tuple(cell) for cell in cells}) == len(points) == 36
