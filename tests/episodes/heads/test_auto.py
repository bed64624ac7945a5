"""The head that chooses: against ridge regressions that are really fitted again without each image."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.episodes.heads.auto import Auto, Reading, part_products, spreads_of_classes


def ridge_scores(X, Y, Z, penalty):
    return Z @ X.T @ np.linalg.inv(X @ X.T + penalty * np.eye(len(X))) @ Y


def parts_of(vector, blocks):
    return [part / np.linalg.norm(part) for part in np.split(vector, 2 * blocks)]


def spreads(support, labels, blocks):
    """Of each part: one minus the mean cosine between support images of different classes."""
    parts = [parts_of(vector, blocks) for vector in support]
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if labels[i] != labels[j]]
    return [1 - np.mean([parts[i][p] @ parts[j][p] for i, j in pairs]) for p in range(2 * blocks)]


def step_of(spread, blocks, tilt):
    """min(1, r)^tilt with r = Σ spread of the patch means / Σ spread of the class tokens, in the upper half."""
    upper = range(blocks // 2, blocks)
    return min(1, sum(spread[2 * block + 1] for block in upper) / sum(spread[2 * block] for block in upper)) ** tilt


def read(vectors, decay, favor, tilt, spread, blocks):
    """Part p of block l counts (decay · step)^(blocks − 1 − l) · e^(favor · spread of p), all together 1."""
    if decay is None:
        return np.stack([parts_of(vector, blocks)[-2] for vector in vectors])
    step = decay * step_of(spread, blocks, tilt)
    weights = [step ** (blocks - 1 - part // 2) * np.exp(favor * spread[part]) for part in range(2 * blocks)]
    return np.stack(
        [
            np.concatenate([np.sqrt(w / sum(weights)) * part for w, part in zip(weights, parts, strict=True)])
            for parts in (parts_of(vector, blocks) for vector in vectors)
        ]
    )


def errors(support, labels, way, blocks, decay, favor, tilt, penalty):
    X, Y = read(support, decay, favor, tilt, spreads(support, labels, blocks), blocks), np.eye(way)[labels]
    found = []
    for i in range(len(X)):
        if (labels == labels[i]).sum() > 1:
            kept = np.arange(len(X)) != i
            found.append(((ridge_scores(X[kept], Y[kept], X[i : i + 1], penalty)[0] - Y[i]) ** 2).sum())
    return np.array(found)


USUAL = 1.0, 2.0, 2.0, 0.03
OPTIONS = [
    (*reading, penalty)
    for reading in [(None, 0, 0), (1.0, 0, 0), (1.0, 0, 2), (1.0, 2, 0), (1.0, 2, 2)]
    for penalty in (0.01, 0.03, 0.1, 0.3, 1.0)
]


def chosen(support, labels, way, blocks):
    usual = errors(support, labels, way, blocks, *USUAL)
    if len(usual) == 0:
        return USUAL
    options = {option: errors(support, labels, way, blocks, *option) for option in OPTIONS}
    best = min(options, key=lambda option: options[option].mean())
    gain = usual - options[best]
    clear = gain.mean() >= 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    return best if clear else USUAL


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

    *reading, penalty = chosen(support, labels, way, 3)
    X, Z = (read(vectors, *reading, spreads(support, labels, 3), 3) for vectors in (support, queries))
    expected = 12 * ridge_scores(X, np.eye(way)[labels], Z, penalty)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_every_kind_of_reading_is_taken_somewhere():
    taken = {chosen(*drawn(seed, [5, 5, 5])[:2], 3, 3) for seed in range(60)}

    assert {(favor, tilt) for decay, favor, tilt, _ in taken if decay} == {(0, 0), (0, 2), (2, 0), (2, 2)}
    assert len({penalty for *_, penalty in taken}) >= 3


def test_the_last_class_token_is_read_alone_where_all_else_misleads():
    generator = np.random.default_rng(0)
    support, labels = generator.normal(size=(15, 36)), np.repeat(np.arange(3), 5)
    support[:, 24:30] = np.eye(3, 6)[labels] + 0.05 * generator.normal(size=(15, 6))
    support[:, 30:] = np.eye(5, 6)[np.tile(np.arange(5), 3)]  # the same five patch means in every class

    decay, *_, penalty = chosen(support, labels, 3, 3)
    found = Auto(parts=6).scores(*map(torch.from_numpy, (support, labels, support)), 3).numpy()

    assert decay is None
    X = read(support, None, 0, 0, None, 3)
    np.testing.assert_allclose(found, 12 * ridge_scores(X, np.eye(3)[labels], X, penalty), atol=1e-8)


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


def test_where_nothing_is_clearly_better_the_usual_reading_is_taken():
    def usual(head):
        return head.readings()[head.usual]

    assert usual(Auto(parts=6)) == Reading(1.0, 2.0, 0.03, 2.0)
    assert usual(Auto()) == Reading(None, 0.0, 0.03, 0.0)
    assert usual(Auto(parts=6, decay=1.0)) == Reading(1.0, 0.0, 0.03, 0.0)


@pytest.mark.parametrize("tilt", [0.0, 2.0])
@pytest.mark.parametrize("favor", [0.0, 4.0])
@pytest.mark.parametrize("decay", [None, 0.0, 0.3, 1.0])
def test_weights_of_the_parts_add_up_to_one(decay, favor, tilt):
    weights = Reading(decay, favor, tilt=tilt).weights(torch.tensor([0.0, 0.1, 0.0, 0.2, 0.0, 0.1, 0.5, 0.5]))

    assert weights.sum() == pytest.approx(1)
    assert weights[-2] == weights.max()


def test_parts_that_spread_the_classes_out_count_more_and_one_part_counts_all():
    same, spread = Reading(1.0, 4.0, tilt=0.0).weights(torch.tensor([[0.2, 0.2], [0.0, 0.5]]))

    assert same.tolist() == [0.5, 0.5]
    assert (spread[1] / spread[0]).item() == pytest.approx(np.exp(2.0))
    assert Reading(0.9, 4.0).weights(torch.tensor([0.7])).tolist() == [1.0]


@settings(deadline=None)
@given(spread=st.lists(st.floats(1e-3, 2), min_size=2, max_size=16).filter(lambda parts: len(parts) % 2 == 0))
def test_upper_blocks_count_more_where_class_tokens_differ_more_than_patches(spread):
    blocks = len(spread) // 2

    weights = Reading(1.0, 0.0, tilt=2.0).weights(torch.tensor(spread, dtype=torch.float64)).numpy()

    expected = step_of(spread, blocks, 2) ** np.arange(blocks - 1, -1, -1).repeat(2)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-9)


def test_where_class_tokens_and_patches_differ_alike_or_not_at_all_blocks_count_alike():
    for spread in ([0.1, 0.3, 0.2, 0.2], [0.1, 0.0, 0.2, 0.9], [0.0, 0.0, 0.0, 0.0], [0.0, 1e-8, 1e-7, -1e-8]):
        assert Reading(1.0, 0.0, tilt=2.0).weights(torch.tensor(spread)).tolist() == pytest.approx([0.25] * 4)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_spreads_are_those_of_all_pairs_of_images_of_different_classes(seed, counts):
    support, labels, _ = drawn(seed, counts)

    found = spreads_of_classes(torch.from_numpy(support), torch.from_numpy(labels), len(counts), 6).numpy()

    expected = spreads(support, labels, 3) if len(counts) > 1 else np.ones(6)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_products_of_parts_are_cosines_and_0_where_a_part_is_all_zeros():
    images, others = np.random.default_rng(0).normal(size=(2, 4, 18))
    images[1, 6:12] = 0

    found = part_products(torch.from_numpy(images), torch.from_numpy(others), 3).numpy()

    for part, row, column in np.ndindex(3, 4, 4):
        x, y = (vectors[6 * part : 6 * part + 6] for vectors in (images[row], others[column]))
        expected = x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) if x.any() else 0.0
        assert found[part, row, column] == pytest.approx(expected, abs=1e-12)
