"""The head that chooses: against ridge regressions that are really fitted again without each image."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.episodes.heads.auto import Auto, Reading


def ridge_scores(X, Y, Z, penalty):
    return Z @ X.T @ np.linalg.inv(X @ X.T + penalty * np.eye(len(X))) @ Y


def read(vectors, decay, blocks):
    """The class token and patch mean of block l count decay^(blocks − 1 − l) in inner products, all together 1."""
    rows = []
    for vector in vectors:
        parts = np.split(vector, 2 * blocks)
        if decay is None:
            rows.append(parts[-2] / np.linalg.norm(parts[-2]))
            continue
        weights = [decay ** (blocks - 1 - part // 2) for part in range(2 * blocks)]
        scaled = [
            np.sqrt(weight / sum(weights)) * part / np.linalg.norm(part)
            for part, weight in zip(parts, weights, strict=True)
        ]
        rows.append(np.concatenate(scaled))
    return np.stack(rows)


def errors(support, labels, way, blocks, decay, penalty):
    X, Y = read(support, decay, blocks), np.eye(way)[labels]
    found = []
    for i in range(len(X)):
        if (labels == labels[i]).sum() > 1:
            kept = np.arange(len(X)) != i
            found.append(((ridge_scores(X[kept], Y[kept], X[i : i + 1], penalty)[0] - Y[i]) ** 2).sum())
    return np.array(found)


def usual_decay(support, labels, blocks):
    """0.4 for classes whose class tokens of the last block are unlike each other, 0.8 for those that are alike."""
    tokens = read(support, None, blocks)
    cosines = [tokens[i] @ tokens[j] for i in range(len(tokens)) for j in range(len(tokens)) if labels[i] != labels[j]]
    return 0.4 if np.mean(cosines) < 0.25 else 0.6 if np.mean(cosines) < 0.3 else 0.8


def chosen(support, labels, way, blocks):
    decay = usual_decay(support, labels, blocks)
    usual = errors(support, labels, way, blocks, decay, 0.03)
    if len(usual) == 0:
        return decay, 0.03
    options = {
        (decay, penalty): errors(support, labels, way, blocks, decay, penalty)
        for decay in (None, 0.0, 0.4, 0.6, 0.8, 1.0)
        for penalty in (0.01, 0.03, 0.1, 0.3, 1.0)
    }
    best = min(options, key=lambda option: options[option].mean())
    gain = usual - options[best]
    clear = gain.mean() >= 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    return best if clear else (decay, 0.03)


def drawn(seed, counts, blocks=3, queries=5, width=6):
    """Classes that differ more in some parts than in others, and in each draw are more or less alike altogether."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    telling = generator.uniform(0, 2, 2 * blocks).repeat(width)  # some parts know the classes better than others
    centers = generator.normal(size=(len(counts), 2 * blocks * width)) * telling
    centers += generator.normal(size=2 * blocks * width) * generator.uniform(0, 2)
    support = centers[labels] + generator.normal(size=(len(labels), 2 * blocks * width))
    asked = centers[generator.integers(0, len(counts), queries)] + generator.normal(size=(queries, 2 * blocks * width))
    return support, labels, asked


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_it_answers_with_the_reading_that_refitting_finds(seed, counts):
    support, labels, queries = drawn(seed, counts)
    way = len(counts)

    found = Auto(parts=6).scores(*map(torch.from_numpy, (support, labels, queries)), way).numpy()

    decay, penalty = chosen(support, labels, way, 3)
    expected = 12 * ridge_scores(read(support, decay, 3), np.eye(way)[labels], read(queries, decay, 3), penalty)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_every_kind_of_reading_is_taken_somewhere():
    taken = {chosen(*drawn(seed, [5, 5, 5])[:2], 3, 3) for seed in range(60)}

    assert {(0.4, 0.03), (0.8, 0.03)} <= taken
    assert len({decay for decay, _ in taken}) >= 4
    assert len({penalty for _, penalty in taken}) >= 3


def test_episodes_choose_each_for_itself():
    first, second = drawn(1, [5, 5, 5]), drawn(2, [5, 5, 5])
    labels = np.repeat(np.arange(3), 5)
    support, queries = (torch.from_numpy(np.stack([a, b])) for a, b in zip(first[::2], second[::2], strict=True))
    head = Auto(parts=6)

    both = head.scores(support, torch.from_numpy(labels), queries, 3)

    for number in range(2):
        alone = head.scores(support[number], torch.from_numpy(labels), queries[number], 3)
        torch.testing.assert_close(both[number], alone, rtol=0, atol=1e-9)


def test_plain_embeddings_and_a_given_decay_choose_the_penalty_only():
    assert {reading.decay for reading in Auto().readings()} == {None}
    assert {reading.decay for reading in Auto(parts=6, decay=1.0).readings()} == {1.0}


@pytest.mark.parametrize(
    ("likeness", "decay"), [(-1.0, 0.4), (0.2499, 0.4), (0.25, 0.6), (0.2999, 0.6), (0.3, 0.8), (1.0, 0.8)]
)
def test_the_usual_reading_goes_deeper_the_more_alike_the_classes_are(likeness, decay):
    def usual(head):
        return head.readings()[int(head.usual(torch.tensor(likeness)))]

    assert usual(Auto(parts=6)) == Reading(decay, 0.03)
    assert usual(Auto()) == Reading(None, 0.03)
    assert usual(Auto(parts=6, decay=1.0)) == Reading(1.0, 0.03)


@pytest.mark.parametrize("decay", [None, 0.0, 0.3, 1.0])
def test_weights_of_the_parts_add_up_to_one(decay):
    weights = Reading(decay).weights(8)

    assert weights.sum() == pytest.approx(1)
    assert weights[-2] == weights.max()
