"""The terms of the bound against the paper's formulas written out as loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.analysis.bound import (
    NOT_ESTIMATED,
    UnitMoments,
    base_term,
    between_trace,
    bound_terms,
    distance_term,
    proxy_distance,
    unit_length,
    unit_moments,
    within_trace,
)
from cplsr.errors import InputError

CASES = {"seed": st.integers(0, 10_000), "classes": st.integers(2, 6), "dim": st.integers(2, 7)}


def draw(seed, classes=4, dim=5):
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 7, classes)
    labels = np.repeat(np.arange(classes) * 3, counts)  # labels need not be consecutive
    centers = generator.normal(size=(classes, dim))
    order = generator.permutation(len(labels))
    vectors = centers[labels // 3] + generator.uniform(0.1, 1) * generator.normal(size=(len(labels), dim))
    return vectors[order], labels[order]


def transcription(vectors, labels, shot, way):
    """Every quantity as the paper defines it, one number at a time; covariance matrices in full."""
    unit = [[float(v) / math.sqrt(sum(float(w) ** 2 for w in row)) for v in row] for row in vectors]
    classes, dim = sorted(set(labels.tolist())), len(unit[0])
    mu, trace = {}, {}
    for c in classes:
        rows = [row for row, label in zip(unit, labels, strict=True) if label == c]
        mu[c] = [sum(row[i] for row in rows) / len(rows) for i in range(dim)]
        covariance = [
            [sum((row[i] - mu[c][i]) * (row[j] - mu[c][j]) for row in rows) / len(rows) for j in range(dim)]
            for i in range(dim)
        ]
        trace[c] = sum(covariance[i][i] for i in range(dim))
    center = [sum(mu[c][i] for c in classes) / len(classes) for i in range(dim)]
    tr_sigma = sum(sum((mu[c][i] - center[i]) ** 2 for c in classes) / len(classes) for i in range(dim))
    tr_sigma_tau = sum(trace.values()) / len(classes)
    variance = sum((trace[c] - tr_sigma_tau) ** 2 for c in classes) / len(classes)
    pairs = [(y, c) for y in classes for c in classes if y != c]
    square = {(y, c): sum((mu[y][i] - mu[c][i]) ** 2 for i in range(dim)) for y, c in pairs}
    mu_mu = sum(m * m for m in center)
    V_tr = (4 / shot + 2 / shot**2) * variance
    V_wit = 8 / shot * tr_sigma_tau * (tr_sigma + mu_mu)
    V_wit += 4 * (tr_sigma + mu_mu) ** 2
    V_wit += 4 * sum(trace[y] * square[y, c] for y, c in pairs) / len(pairs)
    Ed2 = sum(square[pair] ** 2 for pair in pairs) / len(pairs)
    total = way - 1 - sum(4 * tr_sigma**2 / (V_tr + V_wit + Ed2) for _ in range(way - 1))
    return {"V_tr": V_tr, "V_wit": V_wit, "Ed2": Ed2, "base_term": total, "tr_sigma": tr_sigma,
            "tr_sigma_tau": tr_sigma_tau}  # fmt: skip


@given(**CASES, shot=st.integers(1, 20), way=st.integers(2, 20))
@settings(max_examples=40, deadline=None)
def test_every_term_is_the_papers_formula(seed, classes, dim, shot, way):
    vectors, labels = draw(seed, classes, dim)
    terms = bound_terms(unit_moments(vectors, labels), shot=shot, way=way)
    for name, value in transcription(vectors, labels, shot, way).items():
        assert getattr(terms, name) == pytest.approx(value, rel=1e-9, abs=1e-12), name


@given(**CASES)
@settings(max_examples=40, deadline=None)
def test_moments_of_unit_vectors_are_tied_to_the_lengths_of_the_means(seed, classes, dim):
    moments = unit_moments(*draw(seed, classes, dim))
    squares = (moments.means**2).sum(1)
    np.testing.assert_allclose(moments.traces, 1 - squares, atol=1e-12)
    mu = moments.means.mean(0)
    assert between_trace(moments) == pytest.approx(squares.mean() - mu @ mu, abs=1e-12)
    assert within_trace(moments) + between_trace(moments) + mu @ mu == pytest.approx(1)


@given(**CASES)
@settings(max_examples=25, deadline=None)
def test_rotation_scale_and_order_change_nothing(seed, classes, dim):
    vectors, labels = draw(seed, classes, dim)
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(dim, dim)))[0]
    order = generator.permutation(len(labels))
    lengths = generator.uniform(0.1, 10, (len(labels), 1))
    moved = (vectors * lengths @ rotation)[order]
    before = bound_terms(unit_moments(vectors, labels), shot=5, way=5)
    after = bound_terms(unit_moments(moved, labels[order]), shot=5, way=5)
    for name in ("V_tr", "V_wit", "Ed2", "base_term", "tr_sigma", "tr_sigma_tau"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-8, abs=1e-12)


@given(**CASES, shot=st.integers(1, 10))
@settings(max_examples=25, deadline=None)
def test_the_variance_of_the_norms_is_zero_for_unit_vectors_and_only_for_them(seed, classes, dim, shot):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), 6)
    raw = generator.normal(size=(len(labels), dim)) * generator.uniform(0.5, 2, (len(labels), 1))

    def simulated(vectors):
        """EV = (4/K) E_c[Var_{x∼c} ‖ψ(x)‖²], which the terms of the bound leave out."""
        of_class = []
        for c in range(classes):
            norms = [sum(float(v) ** 2 for v in x) for x, label in zip(vectors, labels, strict=True) if label == c]
            mean = sum(norms) / len(norms)
            of_class.append(sum((norm - mean) ** 2 for norm in norms) / len(norms))
        return 4 / shot * sum(of_class) / classes

    assert simulated(raw) > 1e-3
    assert simulated(unit_length(raw)) == pytest.approx(0, abs=1e-28)


def test_more_shots_tighten_and_the_distances_do_not_depend_on_them():
    moments = unit_moments(*draw(3))
    one, five = (bound_terms(moments, shot=shot, way=5) for shot in (1, 5))
    assert five.V_tr == pytest.approx(one.V_tr * (4 / 5 + 2 / 25) / 6)
    assert five.V_wit < one.V_wit
    assert five.Ed2 == one.Ed2 == distance_term(moments)
    assert five.base_term < one.base_term


def test_two_opposite_points_by_hand():
    moments = unit_moments(np.array([[2.0, 0.0], [-1.0, 0.0]]), np.array([0, 1]))
    terms = bound_terms(moments, shot=1, way=2)
    # μ = 0, tr Σ = 1, nothing within; V_wit = 4·1², Ed² = (2²)² = 16, so 1 − 4/20
    assert (terms.V_tr, terms.V_wit, terms.Ed2) == (0, 4, 16)
    assert terms.base_term == pytest.approx(0.8)


def test_where_nothing_is_known_the_base_term_is_its_largest():
    nothing = UnitMoments(np.zeros((2, 3)), np.ones(2))
    terms = bound_terms(nothing, shot=1, way=5)
    assert terms.base_term == 4


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda: unit_moments(np.ones((3, 2)), np.array([1, 1, 1])), "1 classes"),
        (lambda: unit_length(np.array([[1.0, 0.0], [0.0, 0.0]])), "all zeros"),
        (lambda: unit_length(np.array([[np.nan, 0.0]])), "not finite"),
        (lambda: bound_terms(unit_moments(*draw(0)), shot=0, way=5), "shot 0"),
        (lambda: base_term(1.0, 1.0, way=1), "way 1"),
        (lambda: proxy_distance(np.ones((4, 2)), np.ones((90, 2))), "needs 5 images of each, not 4"),
    ],
)
def test_what_cannot_be_measured_is_refused(action, words):
    with pytest.raises(InputError, match=words):
        action()


def clouds(gap, base=60, target=60, dim=6, seed=0):
    generator = np.random.default_rng(seed)
    shift = np.zeros(dim)
    shift[0] = gap
    center = np.full(dim, 2.0)
    return center + generator.normal(size=(base, dim)), center + shift + generator.normal(size=(target, dim))


def test_domains_far_apart_have_distance_two_and_equal_ones_nearly_none():
    assert proxy_distance(*clouds(40.0)) == 2
    assert proxy_distance(*clouds(0.0, 400, 400)) < 0.4
    near, far = (proxy_distance(*clouds(gap, 200, 200)) for gap in (1.0, 3.0))
    assert 0 < near < far < 2


def test_the_proxy_distance_is_the_cross_validated_error_written_out():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    base, target = clouds(1.5)
    generator = np.random.default_rng(4)
    sides = []
    for side in (base, target):
        chosen = generator.choice(len(side), 60, replace=False)
        sides.append(np.stack([side[i] / math.sqrt(sum(side[i] ** 2)) for i in chosen]))
    x, y = np.concatenate(sides), np.array([0] * 60 + [1] * 60)
    x = x - x.mean(0)
    x = x / math.sqrt((x**2).sum() / x.size)
    wrong = 0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=4).split(x, y):
        classifier = LogisticRegression(max_iter=1000).fit(x[train], y[train])
        wrong += sum(int(guess != truth) for guess, truth in zip(classifier.predict(x[test]), y[test], strict=True))
    assert proxy_distance(base, target, seed=4) == pytest.approx(2 * (1 - 2 * wrong / 120))


def test_the_proxy_distance_does_not_profit_from_unequal_sizes_and_keeps_to_its_limit():
    base, target = clouds(0.0, 400, 40)
    assert proxy_distance(base, target) < 1  # always guessing the base domain would give 1.6
    far_base, far_target = clouds(40.0, 400, 400)
    assert proxy_distance(far_base, far_target, limit=10) == 2


def test_the_proxy_distance_is_never_negative_and_repeatable():
    base = clouds(0.0)[0]
    assert proxy_distance(base, base) >= 0
    assert proxy_distance(*clouds(1.0), seed=3) == proxy_distance(*clouds(1.0), seed=3)
    constant = np.ones((20, 3))
    assert proxy_distance(constant, constant) == 0


def test_what_is_not_estimated_is_said():
    assert "λ" in NOT_ESTIMATED
    assert "sample-size" in NOT_ESTIMATED
