"""Places on an axis, and the round figures along it."""

import itertools
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cplsr.report.scales import Scale, has_place, round_step, scale_of, tick_label

figures = st.floats(-1e6, 1e6, allow_nan=False)


def test_the_ends_of_a_scale_are_its_first_and_last_pixels():
    scale = Scale(10.0, 30.0, 100.0, 300.0)
    assert (scale(10.0), scale(20.0), scale(30.0)) == (100.0, 200.0, 300.0)


def test_logarithms_lay_powers_of_ten_evenly():
    scale = Scale(1.0, 100.0, 0.0, 100.0, log=True)
    assert scale(10.0) == pytest.approx(50.0)


@settings(deadline=None, max_examples=60)
@given(st.lists(figures, min_size=1, max_size=20))
def test_every_figure_has_a_place_within_the_axis(values):
    scale = scale_of(values, 40.0, 390.0)
    assert all(40 - 1e-6 <= scale(value) <= 390 + 1e-6 for value in values)


@settings(deadline=None, max_examples=60)
@given(figures, figures)
def test_ticks_are_a_few_evenly_spaced_figures_within_the_scale(one, other):
    low, high = sorted((one, other))
    assume(high - low > 1e-6 * max(1.0, abs(low), abs(high)))
    ticks = Scale(low, high, 0.0, 1.0).ticks()
    assert 2 <= len(ticks) <= 8
    slack = 1e-6 * (high - low)
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    gaps = [after - before for before, after in itertools.pairwise(ticks)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps), rel=1e-6)


@settings(deadline=None, max_examples=100)
@given(st.floats(1e-4, 1e4), st.floats(1.2, 1e6))
def test_logarithmic_ticks_lie_within_the_scale(low, factor):
    scale = scale_of([low, low * factor], 0.0, 1.0, log=True)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(scale.low * 0.999 <= tick <= scale.high * 1.001 for tick in ticks)


def test_what_has_no_place_is_not_counted():
    scale = scale_of([1.0, math.nan, math.inf, 5.0], 0.0, 1.0, include=(0.0,))
    assert scale.low == 0.0
    assert 5.0 < scale.high < 6.0
    assert scale_of([0.0, -3.0, 10.0, 100.0], 0.0, 1.0, log=True).low > 0
    assert scale_of([], 0.0, 1.0).ticks() != ()


@pytest.mark.parametrize(
    "values",
    [[5e-324, 0.0], [1.0, 1.0 + 1e-15], [1e308, -1e308], [1e308], [-0.0], [1e200, -1e200], [1e-200, 3e-200], [7.0]],
)
@pytest.mark.parametrize("log", [False, True])
def test_extreme_figures_give_an_axis_all_the_same(values, log):
    scale = scale_of(values, 0.0, 100.0, log=log)
    assert all(math.isfinite(scale(tick)) for tick in scale.ticks())
    assert scale.ticks() != ()
    assert all(-1e-6 <= scale(value) <= 100 + 1e-6 for value in values if has_place(value, log=log))


def test_round_steps_and_short_labels():
    assert [round_step(step) for step in (0.9, 1.0, 1.1, 2.2, 3.0, 7.0)] == [1, 1, 2, 2.5, 5, 10]
    labels = [tick_label(value) for value in (0.0, 0.25, 40.0, 1500.0, 2e7, 3e9, 0.0001)]
    assert labels == ["0", "0.25", "40", "1.5k", "20M", "3G", "1e-4"]
