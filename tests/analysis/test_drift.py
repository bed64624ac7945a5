"""Drift against its definition, image by image."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.analysis.drift import drift


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 1000))
def test_it_is_the_definition(images, dim, seed):
    rng = np.random.default_rng(seed)
    before, after = rng.normal(size=(2, images, dim))
    cosines, center, moved = [], before.mean(0), after.mean(0) - before.mean(0)
    for b, a in zip(before, after, strict=True):
        cosines.append(sum(b * a) / math.sqrt(sum(b * b)) / math.sqrt(sum(a * a)))
    spread = math.sqrt(sum(sum((b - center) ** 2) for b in before) / images)
    found = drift(before, after)
    assert found.cosine == pytest.approx(sum(cosines) / images)
    assert found.shift == pytest.approx(math.sqrt(sum(moved**2)) / spread)


def test_what_did_not_move_has_no_drift():
    vectors = np.random.default_rng(0).normal(size=(5, 3))
    same = drift(vectors, vectors)
    assert (same.cosine, same.shift) == (pytest.approx(1), 0)
    assert drift(vectors, 3 * vectors).cosine == pytest.approx(1)


def test_a_domain_without_spread():
    one = np.ones((4, 3))
    assert drift(one, one).shift == 0
    assert drift(one, one + 1).shift == math.inf
    assert drift(np.zeros((2, 3)), one[:2]).cosine == 0
