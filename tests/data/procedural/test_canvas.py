import colorsys
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.procedural.canvas import CANVAS, smoothstep, wobble
from cplsr.data.procedural.noise import SIDE
from cplsr.data.procedural.paint import color, lit, mixed, photographed, quantized, relief

unit = st.floats(0, 1, allow_nan=False)
GREY = np.full((SIDE, SIDE, 3), np.float32(0.5))


def test_the_canvas_runs_from_minus_one_to_one_with_y_downwards() -> None:
    half = 1 / SIDE
    assert (CANVAS.x[0, 0], CANVAS.y[0, 0]) == pytest.approx((-1 + half, -1 + half))
    assert (CANVAS.x[0, -1], CANVAS.y[-1, 0]) == pytest.approx((1 - half, 1 - half))


@settings(deadline=None, max_examples=30)
@given(
    st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(0.2, 2), st.floats(-3, 3), st.floats(0.5, 2),
    st.floats(-1, 1), st.floats(-1, 1),
)  # fmt: skip
def test_a_placed_frame_undoes_stretching_turning_and_moving(x, y, scale, turn, aspect, u, v) -> None:
    # The point (u, v) of the object, stretched, turned clockwise on the screen (y is downwards) and moved ...
    across, down = u * scale * aspect, v * scale
    px = x + across * math.cos(turn) - down * math.sin(turn)
    py = y + across * math.sin(turn) + down * math.cos(turn)
    shifted = CANVAS.bent(px - CANVAS.x, py - CANVAS.y)  # ... is looked at by every pixel,
    placed = shifted.placed(x, y, scale=scale, turn=turn, aspect=aspect)
    np.testing.assert_allclose(placed.x, u, atol=1e-4)  # and the frame must find (u, v) again.
    np.testing.assert_allclose(placed.y, v, atol=1e-4)


def test_coverage_is_the_area_of_a_disk() -> None:
    covered = CANVAS.cover(CANVAS.radius - 0.6).mean() * 4
    assert covered == pytest.approx(math.pi * 0.6**2, rel=0.003)


@given(unit, unit, unit)
def test_color_is_hsv(hue: float, saturation: float, value: float) -> None:
    assert color(hue, saturation, value) == pytest.approx(colorsys.hsv_to_rgb(hue, saturation, value), abs=1e-6)


def test_color_wraps_the_hue_and_clips_the_rest() -> None:
    assert np.array_equal(color(1.25, 2.0, 3.0), color(0.25, 1.0, 1.0))


def test_mixing_goes_from_the_first_to_the_second() -> None:
    red, blue = color(0.0, 1.0, 1.0), color(2 / 3, 1.0, 1.0)
    share = np.linspace(0, 1, SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    picture = mixed(red, np.full((SIDE, SIDE, 3), blue), share)
    np.testing.assert_allclose(picture[..., 0], 1 - share, atol=1e-6)
    np.testing.assert_allclose(picture[..., 2], share, atol=1e-6)


def test_smoothstep_rises_once_in_either_direction() -> None:
    rising = smoothstep(-0.5, 0.5, CANVAS.x)[0]
    assert rising[0] == 0
    assert rising[-1] == 1
    assert (np.diff(rising) >= 0).all()
    np.testing.assert_allclose(smoothstep(0.5, -0.5, CANVAS.x)[0], 1 - rising, atol=1e-6)


def test_relief_brightens_the_slope_that_faces_the_light() -> None:
    bump = 0.3 * np.exp(-(CANVAS.radius**2) / 0.1)
    light = relief(bump, math.pi, 0.5)  # the slope that rises to the right faces left
    assert light[SIDE // 2, SIDE // 3] > 1.1
    assert light[SIDE // 2, -SIDE // 3] < 0.9
    np.testing.assert_allclose(relief(np.zeros_like(bump), 1.0, 0.5), 1)


@pytest.mark.parametrize("change", [lambda rng: lit(rng, GREY),
                                    lambda rng: photographed(rng, GREY),
                                    lambda rng: wobble(rng, CANVAS, 0.1).x])  # fmt: skip
def test_chance_comes_from_the_generator_alone(change) -> None:
    first, again, other = (change(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_quantizing_clips_and_rounds() -> None:
    picture = np.full((SIDE, SIDE, 3), np.array([-0.5, 0.5, 1.5], np.float32))
    assert quantized(picture)[0, 0].tolist() == [0, 128, 255]
