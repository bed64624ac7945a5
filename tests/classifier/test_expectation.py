"""The accuracy to expect, and its interval."""

import numpy as np
import pytest

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.expectation import Expectation, expected_accuracy, grown, held_out_parts


def test_one_image_of_every_class_is_held_out_at_once():
    labels = np.array([2, 0, 1, 0, 1, 2, 0, 1, 2])

    parts = list(held_out_parts(labels, 3))

    assert len(parts) == 12
    for train, test in parts:
        assert sorted(labels[test]) == [0, 1, 2]
        assert sorted([*train, *test]) == list(range(9))
    for first in range(0, 12, 3):  # three times in turn, every image once
        assert sorted(np.concatenate([test for _, test in parts[first : first + 3]])) == list(range(9))


def test_unequal_classes_keep_an_image_and_single_ones_are_never_held_out():
    labels = np.repeat([0, 1, 2, 3], [1, 2, 30, 5])

    for train, test in held_out_parts(labels, 4):
        assert (np.bincount(labels[train], minlength=4) >= 1).all()
        assert 0 not in labels[test]


def test_many_images_are_spared_fits():
    assert len(list(held_out_parts(np.arange(20_000) % 500, 500))) == 1


def test_accuracy_grows_with_examples_and_chance_stays_chance():
    assert grown(0.125, 8, 1.0, 0.5) == pytest.approx(0.125, abs=1e-3)
    assert 0.65 < grown(0.57, 8, 1.0, 0.5) < 0.75
    assert grown(0.57, 8, 0.1, 0.1) == pytest.approx(0.57, abs=1e-3)
    assert [grown(value, 5, 1.0, 0.5) for value in (0.0, 1.0)] == [0.0, 1.0]


@pytest.mark.parametrize("shot", [2, 5])
def test_the_truth_is_in_the_interval_about_as_often_as_it_says(shot):
    generator = np.random.default_rng(shot)
    covered = 0
    for _ in range(40):
        centers = generator.normal(size=(5, 24))
        y = np.repeat(np.arange(5), shot)
        head = EmbeddingClassifier("ridge", 1.0).fit(centers[y] + 1.5 * generator.normal(size=(len(y), 24)), y)
        asked = np.repeat(np.arange(5), 100)
        truth = float((head.predict(centers[asked] + 1.5 * generator.normal(size=(500, 24))) == asked).mean())
        expected = expected_accuracy(head)
        covered += expected.low <= truth <= expected.high

    assert covered >= 36


def test_nothing_is_said_of_single_examples():
    assert expected_accuracy(EmbeddingClassifier().fit(np.eye(3), ["a", "b", "c"])) is None


def test_the_sentence_says_what_it_means():
    sentence = Expectation(0.886, 0.842, 0.9251).sentence()

    assert sentence == "Of 100 new pictures like these, expect 84 to 93 to be labeled correctly (best guess 89)."
