"""Closed forms against prototypes that are really made again without the image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.classifier import leave_one_out as module
from cplsr.classifier.leave_one_out import Examples, calibrated_temperature, calibration_rows, judgeable


def slow_leave_one_out(support, labels, classes, row, kind):
    """The definition: remove the image, average every class again, take cosines."""

    def scaled(vector):
        return vector / np.linalg.norm(vector)

    cosines = []
    for label in range(classes):
        members = [support[i] for i in range(len(support)) if labels[i] == label and i != row]
        if kind == "mean_of_normalized":
            members = [scaled(member) for member in members]
        cosines.append(float(scaled(support[row]) @ scaled(np.mean(members, axis=0))))
    return cosines


def drawn(seed, counts, dim=5):
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    return generator.normal(size=(len(labels), dim)) + 1.0, labels


def averaged(support, kind):
    return support / np.linalg.norm(support, axis=1, keepdims=True) if kind == "mean_of_normalized" else support


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(1, 4), min_size=1, max_size=5))
@settings(deadline=None, max_examples=30)
def test_the_closed_form_is_the_definition(kind, seed, counts):
    support, labels = drawn(seed, counts)
    vectors = averaged(support, kind)
    rows = judgeable(labels, len(counts))

    judged = Examples(vectors, labels, len(counts)).left_out(rows)

    assert sorted(rows) == [i for i in range(len(labels)) if counts[labels[i]] >= 2]
    for place, row in enumerate(rows):
        expected = slow_leave_one_out(support, labels, len(counts), row, kind)
        np.testing.assert_allclose(judged.scores[place], expected, atol=1e-10)


def test_chunks_cover_all_images_in_order(monkeypatch):
    support, labels = drawn(0, [3, 1, 4, 2])
    examples = Examples(support, labels, 4)
    whole = examples.left_out(judgeable(labels, 4))
    monkeypatch.setattr(module, "CHUNK_ENTRIES", 8)

    parts = list(examples.all_left_out())

    assert [len(part.rows) for part in parts] == [2, 2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    np.testing.assert_allclose(np.concatenate([part.scores for part in parts]), whole.scores, atol=1e-14)


def test_calibration_looks_at_a_bounded_even_sample(monkeypatch):
    labels = np.repeat(np.arange(10), 10)
    monkeypatch.setattr(module, "CALIBRATION_ENTRIES", 50)

    assert calibration_rows(labels, 10).tolist() == [0, 25, 50, 74, 99]


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
def test_own_cosines_are_raised_to_those_of_a_whole_class(kind):
    support, labels = drawn(3, [2, 3, 1, 5])
    vectors = averaged(support, kind)
    examples = Examples(vectors, labels, 4)
    judged = examples.left_out(judgeable(labels, 4))
    total = 0.0
    for label in range(4):
        members = vectors[labels == label]
        total += sum(float(((member - members.mean(axis=0)) ** 2).sum()) for member in members)
    variance = total / (1 + 2 + 0 + 4)

    raised = examples.as_if_whole(judged)

    for place, label in enumerate(labels[judged.rows]):
        n = int((labels == label).sum())
        length = float((vectors[labels == label].mean(axis=0) ** 2).sum())
        signal = max(length - variance / n, 0.05 * length)
        factor = ((signal + variance / (n - 1)) / (signal + variance / n)) ** 0.5
        for other in range(4):
            expected = judged.scores[place, other]
            if other == label:
                expected = min(1.0, expected * factor)
            assert raised[place, other] == pytest.approx(expected, abs=1e-12)


def test_the_raised_cosines_are_those_of_new_images():
    generator = np.random.default_rng(0)
    left_out, raised, new = [], [], []
    for _ in range(300):
        mean = generator.normal(size=64)
        support = mean + 1.5 * generator.normal(size=(2, 64))
        examples = Examples(support, np.zeros(2, dtype=np.int64), 1)
        judged = examples.left_out(np.arange(2))
        left_out.append(judged.scores.mean())
        raised.append(examples.as_if_whole(judged).mean())
        query, total = mean + 1.5 * generator.normal(size=64), support.sum(axis=0)
        new.append(query @ total / np.linalg.norm(query) / np.linalg.norm(total))

    assert np.mean(new) - np.mean(left_out) > 0.05
    assert abs(np.mean(new) - np.mean(raised)) < 0.02


def test_identical_and_zero_images_do_no_harm():
    labels = np.array([0, 0, 1, 1])
    support = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    examples = Examples(support, labels, 2)
    judged = examples.left_out(np.arange(4))

    np.testing.assert_array_equal(examples.as_if_whole(judged), [[1, 0], [1, 0], [0, 0], [0, 0]])


def slow_cost(temperature, cosines, labels, prior):
    total = prior * (temperature / 20.0 - np.log(temperature))
    for row, label in zip(cosines, labels, strict=True):
        odds = np.exp(temperature * row)
        total -= np.log(odds[label] / odds.sum())
    return total


@given(seed=st.integers(0, 10**6), prior=st.sampled_from([0.5, 5.0]), skill=st.floats(0.0, 0.3))
@settings(deadline=None, max_examples=30)
def test_no_other_temperature_is_better(seed, prior, skill):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, 12)
    cosines = generator.uniform(0.3, 0.6, (12, 4))
    cosines[np.arange(12), labels] += skill

    found = calibrated_temperature(cosines, labels, prior)

    best = slow_cost(found, cosines, labels, prior)
    for other in np.geomspace(0.1, 700, 200):
        assert best <= slow_cost(other, cosines, labels, prior) + 1e-4


def test_few_faultless_images_do_not_make_certainty():
    cosines = np.full((4, 2), 0.5)
    cosines[np.arange(4), [0, 0, 1, 1]] = 0.8

    few = calibrated_temperature(cosines, np.array([0, 0, 1, 1]))
    many = calibrated_temperature(np.repeat(cosines, 100, axis=0), np.repeat([0, 0, 1, 1], 100))

    assert 15 < few < 25 < many < 100


def test_without_evidence_the_usual_temperature():
    assert calibrated_temperature(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)) == 20.0
    assert calibrated_temperature(np.ones((5, 1)), np.zeros(5, dtype=np.int64)) == 20.0
