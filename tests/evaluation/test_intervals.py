import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import InputError
from cplsr.evaluation.intervals import mean_interval, paired_difference

PERCENTS = st.lists(st.floats(0, 100), min_size=2, max_size=30)


@settings(deadline=None)
@given(PERCENTS)
def test_mean_and_half_width_by_the_formula(values):
    mean = sum(values) / len(values)
    sigma = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))

    interval = mean_interval(np.array(values))

    assert interval.mean == pytest.approx(mean, abs=1e-9)
    assert interval.half_width == pytest.approx(1.96 * sigma / math.sqrt(len(values)), abs=1e-9)


def test_one_value_has_no_interval():
    interval = mean_interval(np.array([40.0]))

    assert (interval.mean, interval.half_width) == (40.0, None)


def test_no_value_is_an_error():
    with pytest.raises(InputError, match="no episodes"):
        mean_interval(np.array([]))


def test_paired_difference_by_hand():
    difference, wins = paired_difference(np.array([0.8, 0.6, 0.9, 0.5]), np.array([0.7, 0.6, 0.5, 0.6]))

    differences = [0.1, 0.0, 0.4, -0.1]
    sigma = math.sqrt(sum((d - 0.1) ** 2 for d in differences) / 3)
    assert difference.mean == pytest.approx(0.1)
    assert difference.half_width == pytest.approx(1.96 * sigma / 2)
    assert wins == 0.5  # the tie is not a win
    assert not difference.significant


def test_the_paired_interval_is_narrow_where_methods_agree_on_what_is_hard():
    generator = np.random.default_rng(0)
    hard = generator.normal(50, 10, 1000)

    difference, _ = paired_difference(hard + 1 + generator.normal(0, 1, 1000), hard)

    assert difference.significant
    assert difference.half_width < 0.1 < mean_interval(hard).half_width


def test_a_constant_gain_is_significant_and_no_change_is_not():
    values = np.array([1.0, 2.0, 3.0])

    assert paired_difference(values + 1, values)[0].significant
    assert not paired_difference(values, values)[0].significant
    assert not paired_difference(values[:1] + 1, values[:1])[0].significant  # one episode says nothing


def test_different_lengths_cannot_be_paired():
    with pytest.raises(InputError, match="3 and 2"):
        paired_difference(np.zeros(3), np.zeros(2))
