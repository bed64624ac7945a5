"""The ratio of the spread within classes to the spread between them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.analysis.bound import unit_moments, within_between


@given(seed=st.integers(0, 10_000), classes=st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_the_ratio_is_that_of_the_traces_of_both_covariances(seed, classes):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), 4)
    vectors = generator.normal(size=(len(labels), 3))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    within = sum(np.trace(np.cov(unit[labels == c].T, bias=True)) for c in range(classes)) / classes
    means = np.stack([unit[labels == c].mean(0) for c in range(classes)])
    between = np.trace(np.cov(means.T, bias=True))
    assert within_between(unit_moments(vectors, labels)) == pytest.approx(within / between)


def test_drawing_classes_together_makes_it_smaller():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 10)
    centers = np.array([[1.0, 0.0], [0.0, 1.0]])[labels]
    noise = generator.normal(size=(20, 2))
    wide, tight = (within_between(unit_moments(centers + width * noise, labels)) for width in (0.5, 0.1))
    assert tight < wide


def test_classes_in_one_place_have_no_finite_ratio():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert within_between(unit_moments(vectors, np.array([0, 0, 1, 1]))) == math.inf
