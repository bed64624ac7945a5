import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.episodes.sampling import EpisodeSampler
from cplsr.evaluation import scoring
from cplsr.evaluation.metrics import (
    bin_means,
    bin_sums,
    confusion_counts,
    expected_calibration_error,
    recall,
    score_episodes,
)
from cplsr.evaluation.scoring import Scoring


@pytest.mark.parametrize("queries", ["balanced", "dirichlet"])
def test_one_pass_gives_what_separate_passes_give(monkeypatch, queries):
    monkeypatch.setattr(scoring, "EPISODES_PER_CHUNK", 1)
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 8
    vectors = (generator.normal(size=(8, 6))[labels] + generator.normal(size=(120, 6))).astype(np.float32)
    episodes = EpisodeSampler(labels, way=4, shot=2, query=5, queries=queries).draw(40)

    scores = score_episodes(Scoring(vectors).scores(episodes), episodes, 8)

    parts = list(Scoring(vectors).scores(episodes, threads=1))
    assert len(parts) == 8
    predictions = np.concatenate([part.predictions() for part in parts])
    right = labels[episodes.asked] == np.take_along_axis(episodes.classes, predictions, axis=1)
    np.testing.assert_array_equal(scores.accuracies, right.mean(axis=1))
    np.testing.assert_array_equal(scores.confusion, confusion_counts(episodes.classes, episodes.truth, predictions, 8))
    logits = np.concatenate([part.scores for part in parts])
    np.testing.assert_allclose(scores.calibration, bin_sums(logits, right), rtol=1e-6)
    assert 0.3 < right.mean() < 0.95


@settings(deadline=None, max_examples=30)
@given(
    episodes=st.integers(0, 6),
    way=st.integers(1, 4),
    queries=st.integers(1, 12),
    more=st.integers(0, 3),
    seed=st.integers(0, 1000),
)
def test_counts_against_a_literal_loop(episodes, way, queries, more, seed):
    generator = np.random.default_rng(seed)
    count = way + more
    classes = np.array([generator.permutation(count)[:way] for _ in range(episodes)], dtype=np.int64)
    classes = classes.reshape(episodes, way)
    truth, predictions = generator.integers(0, way, (2, episodes, queries))
    expected = np.zeros((count, count), dtype=np.int64)
    for episode in range(episodes):
        for own, answer in zip(truth[episode], predictions[episode], strict=True):
            expected[classes[episode, own], classes[episode, answer]] += 1

    counts = confusion_counts(classes, truth, predictions, count)

    np.testing.assert_array_equal(counts, expected)
    shares = [row[i] / sum(row) if sum(row) else 0 for i, row in enumerate(expected.tolist())]
    np.testing.assert_allclose(recall(counts), shares)


def calibration_literally(logits, correct):
    """(confidence, accuracy, share) of the bins that have answers, and the error: one query after the other."""
    answers = []
    for episode, way, _, query in [(e, *logits.shape[1:]) for e in range(len(logits))]:
        for truth in range(way):
            for number in range(query):
                scores = [math.exp(float(logits[episode, place, truth, number])) for place in range(way)]
                answers.append((max(scores) / sum(scores), bool(correct[episode, truth, number])))
    bins, error = [], 0.0
    for number in range(15):
        inside = [(p, right) for p, right in answers if number / 15 < p <= (number + 1) / 15]
        if inside:
            confidence = sum(p for p, _ in inside) / len(inside)
            accuracy = sum(right for _, right in inside) / len(inside)
            bins.append((confidence, accuracy, len(inside) / len(answers)))
            error += len(inside) / len(answers) * abs(accuracy - confidence)
    return bins, error


@settings(deadline=None, max_examples=30)
@given(
    episodes=st.integers(1, 8),
    way=st.integers(2, 5),
    query=st.integers(1, 4),
    spread=st.sampled_from([0.3, 2.0, 8.0]),
    seed=st.integers(0, 1000),
)
def test_error_and_bins_against_a_literal_loop(episodes, way, query, spread, seed):
    generator = np.random.default_rng(seed)
    logits = (spread * generator.normal(size=(episodes, way, way, query))).astype(np.float32)
    correct = logits.argmax(axis=1) == np.arange(way)[:, None]
    bins, error = calibration_literally(logits, correct)

    sums = bin_sums(logits, correct)

    np.testing.assert_allclose(bin_means(sums), bins, rtol=1e-5)
    assert expected_calibration_error(sums) == pytest.approx(error, rel=1e-4, abs=1e-6)
    parts = [bin_sums(logits[e : e + 1], correct[e : e + 1]) for e in range(episodes)]
    np.testing.assert_allclose(sum(parts), sums, rtol=1e-6)


def test_large_logits_overflow_nothing_and_certainty_is_in_the_last_bin():
    logits = np.zeros((1, 2, 2, 1), dtype=np.float32)
    logits[0, 0, 0, 0], logits[0, 0, 1, 0] = 1e4, 1e4

    sums = bin_sums(logits, np.array([[[True], [False]]]))

    assert bin_means(sums).tolist() == [[1.0, 0.5, 1.0]]
    assert sums[0].tolist() == [0] * 14 + [2]
    assert expected_calibration_error(sums) == 0.5
