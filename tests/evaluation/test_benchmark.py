import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.episodes.prototypes import accuracy, cosine_logits, prototypes, query_targets
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation import benchmark
from cplsr.evaluation.benchmark import EpisodeLogits, episode_accuracies, episode_logits


def accuracies_literally(vectors, episodes, kind):
    """One episode after the other, one query after the other."""
    vectors = vectors.astype(np.float64)
    result = []
    for support, query in zip(episodes.support, episodes.query, strict=True):
        class_prototypes = []
        for images in support:
            rows = [vectors[image] for image in images]
            if kind == "mean_of_normalized":
                rows = [row / np.linalg.norm(row) for row in rows]
            class_prototypes.append(sum(rows) / len(rows))
        right = []
        for truth, images in enumerate(query):
            for image in images:
                cosines = [
                    vectors[image] @ p / (np.linalg.norm(vectors[image]) * np.linalg.norm(p)) for p in class_prototypes
                ]
                right.append(int(np.argmax(cosines)) == truth)
        result.append(sum(right) / len(right))
    return result


def clustered(images, dim, classes, seed):
    generator = np.random.default_rng(seed)
    labels = np.arange(images) % classes
    centers = generator.normal(size=(classes, dim))
    vectors = centers[labels] + 1.5 * generator.normal(size=(images, dim))
    return (vectors * generator.uniform(0.1, 10, (images, 1))).astype(np.float32), labels


@settings(deadline=None, max_examples=25)
@given(
    way=st.integers(1, 5),
    shot=st.integers(1, 3),
    query=st.integers(1, 4),
    dim=st.integers(2, 9),
    count=st.integers(1, 12),
    kind=st.sampled_from(["mean", "mean_of_normalized"]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_accuracies_against_a_literal_loop(way, shot, query, dim, count, kind, threads, seed):
    vectors, labels = clustered(60, dim, 6, seed)
    episodes = EpisodeSampler(labels, way=way, shot=shot, query=query, seed=seed).draw(count)

    fast = episode_accuracies(vectors, episodes, prototype=kind, threads=threads)

    np.testing.assert_allclose(fast, accuracies_literally(vectors, episodes, kind), atol=1e-12)


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
@pytest.mark.parametrize("shot", [1, 4])
def test_logits_are_those_of_the_shared_classifier(kind, shot):
    vectors, labels = clustered(200, 16, 8, seed=1)
    episodes = EpisodeSampler(labels, way=5, shot=shot, query=6).draw(700)  # several chunks
    tensor = torch.from_numpy(vectors)

    parts = list(episode_logits(vectors, episodes, temperature=7.0, prototype=kind, threads=2))

    assert [part.first for part in parts] == list(range(0, 700, benchmark.EPISODES_PER_CHUNK))
    fast = torch.from_numpy(np.concatenate([part.logits for part in parts])).flatten(2).transpose(1, 2)
    queries = tensor[torch.from_numpy(episodes.query)].flatten(1, 2)
    expected = cosine_logits(queries, prototypes(tensor[torch.from_numpy(episodes.support)], kind), 7.0)
    torch.testing.assert_close(fast, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        episode_accuracies(vectors, episodes, prototype=kind), accuracy(expected, query_targets(5, 6)).numpy()
    )


def test_the_number_of_threads_and_the_chunk_change_nothing(monkeypatch):
    vectors, labels = clustered(300, 24, 10, seed=2)
    episodes = EpisodeSampler(labels, query=5).draw(123)
    whole = episode_accuracies(vectors, episodes, threads=1)

    monkeypatch.setattr(benchmark, "EPISODES_PER_CHUNK", 10)
    monkeypatch.setattr(benchmark, "GATHERED_BYTES", 1)

    np.testing.assert_array_equal(episode_accuracies(vectors, episodes, threads=3), whole)


def test_predictions_take_the_first_of_equals():
    logits = np.zeros((1, 3, 3, 1), dtype=np.float32)
    logits[0, :, 0, 0] = [1, 1, 0]
    logits[0, :, 1, 0] = [0, 2, 2]
    logits[0, :, 2, 0] = [-1, -3, -1]

    part = EpisodeLogits(0, logits)

    assert part.predictions().ravel().tolist() == logits.argmax(axis=1).ravel().tolist() == [0, 1, 0]
    assert part.correct().ravel().tolist() == [True, True, False]


@settings(deadline=None, max_examples=50)
@given(way=st.integers(1, 5), query=st.integers(1, 4), count=st.integers(1, 6), seed=st.integers(0, 100))
def test_correct_is_the_prediction_of_the_true_class_with_ties_everywhere(way, query, count, seed):
    few_values = np.random.default_rng(seed).integers(0, 3, (count, way, way, query)).astype(np.float32)

    part = EpisodeLogits(0, few_values)

    np.testing.assert_array_equal(part.predictions(), few_values.argmax(axis=1))
    np.testing.assert_array_equal(part.correct(), few_values.argmax(axis=1) == np.arange(way)[:, None])


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
def test_equal_embeddings_are_answered_with_the_first_class(kind):
    episodes = EpisodeSampler(np.arange(60) % 6, way=4, shot=2, query=3).draw(20)

    for vectors in (np.zeros((60, 4), dtype=np.float32), np.ones((60, 4), dtype=np.float32)):
        np.testing.assert_array_equal(episode_accuracies(vectors, episodes, prototype=kind), 1 / 4)


@settings(deadline=None, max_examples=15)
@given(shot=st.integers(1, 3), seed=st.integers(0, 100))
def test_the_length_of_embeddings_matters_only_inside_a_mean(shot, seed):
    vectors, labels = clustered(60, 8, 6, seed)
    episodes = EpisodeSampler(labels, shot=shot, query=3, seed=seed).draw(30)
    powers = 2.0 ** np.random.default_rng(seed).integers(-8, 9, (60, 1))  # exact factors, so that nothing is rounded
    stretched = (vectors * powers).astype(np.float32)

    kind = "mean" if shot == 1 else "mean_of_normalized"

    np.testing.assert_array_equal(
        episode_accuracies(stretched, episodes, prototype=kind), episode_accuracies(vectors, episodes, prototype=kind)
    )


def test_accuracies_are_those_of_the_logits():
    vectors, labels = clustered(400, 16, 10, seed=3)
    episodes = EpisodeSampler(labels, shot=2, query=4).draw(600)

    right = np.concatenate([part.correct() for part in episode_logits(vectors, episodes)])

    np.testing.assert_array_equal(episode_accuracies(vectors, episodes), right.mean(axis=(1, 2)))


def test_no_episodes_give_no_accuracies():
    vectors, labels = clustered(60, 4, 6, seed=0)
    episodes = EpisodeSampler(labels, query=3).draw(5)[:0]

    assert episode_accuracies(vectors, episodes).shape == (0,)
    assert list(episode_logits(vectors, episodes)) == []


def test_zero_embeddings_give_zero_logits():
    vectors, labels = clustered(60, 4, 6, seed=0)
    vectors[::2] = 0
    episodes = EpisodeSampler(labels, way=3, query=3).draw(20)

    logits = np.concatenate([part.logits for part in episode_logits(vectors, episodes)])

    assert np.isfinite(logits).all()
    zero_query = episodes.query % 2 == 0
    assert (np.moveaxis(logits, 1, -1)[zero_query] == 0).all()
    assert (np.moveaxis(logits, 1, -1)[~zero_query] != 0).any()


def test_a_consumer_that_stops_early_stops_the_work():
    vectors, labels = clustered(60, 4, 6, seed=0)
    parts = episode_logits(vectors, EpisodeSampler(labels, query=3).draw(5000), threads=2)

    assert next(parts).first == 0
    parts.close()


def test_memory_does_not_grow_with_the_number_of_episodes():
    vectors, labels = clustered(400, 16, 10, seed=0)
    episodes = EpisodeSampler(labels, shot=5).draw(3000)

    def peak(count):
        tracemalloc.start()
        episode_accuracies(vectors, episodes[:count], threads=1)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(3000) < peak(500) + 200_000  # the accuracies themselves are 8 bytes an episode


def test_no_second_copy_of_the_embeddings_is_made():
    vectors, labels = clustered(20_000, 64, 10, seed=0)
    episodes = EpisodeSampler(labels, shot=5).draw(10)

    tracemalloc.start()
    episode_accuracies(vectors, episodes, prototype="mean_of_normalized", threads=1)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert highest < vectors.nbytes / 2


def test_episodes_of_other_embeddings_are_refused():
    vectors, labels = clustered(60, 4, 6, seed=0)
    episodes = EpisodeSampler(labels, query=3).draw(5)

    with pytest.raises(InputError, match="30 embeddings were given"):
        episode_accuracies(vectors[:30], episodes)
    with pytest.raises(InputError, match="hold images -"):
        episode_accuracies(vectors, Episodes(episodes.support, episodes.query - 60, episodes.classes))
