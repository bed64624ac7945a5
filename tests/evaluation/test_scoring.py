import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.episodes.heads import HEADS, make_head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.prototypes import accuracy, cosine_logits, prototypes, query_targets
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation import scoring
from cplsr.evaluation.scoring import ScoredEpisodes, Scoring


@pytest.fixture(params=["gathered", "looked up"], autouse=True)
def way_to_score(request, monkeypatch):
    """Every test of this file once with gathered embeddings and once with the products of all pairs of images."""
    monkeypatch.setattr(scoring, "GRAM_BYTES", 0 if request.param == "gathered" else 1 << 29)
    monkeypatch.setattr(scoring, "LOOKING_UP", 0)
    monkeypatch.setattr(scoring, "GATHERING", 1e9)
    return request.param


def accuracies(vectors, episodes, kind="mean", threads=None):
    return Scoring(vectors).accuracies(episodes, Prototypes(kind), threads=threads)


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

    fast = accuracies(vectors, episodes, kind, threads)

    np.testing.assert_allclose(fast, accuracies_literally(vectors, episodes, kind), atol=1e-12)


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
@pytest.mark.parametrize("shot", [1, 4])
def test_logits_are_those_of_the_shared_classifier(kind, shot):
    vectors, labels = clustered(200, 16, 8, seed=1)
    episodes = EpisodeSampler(labels, way=5, shot=shot, query=6).draw(700)  # a chunk for each thread
    tensor = torch.from_numpy(vectors)

    parts = list(Scoring(vectors).scores(episodes, Prototypes(kind), threads=2))

    assert [part.first for part in parts] == [0, 350]
    fast = torch.from_numpy(np.concatenate([part.scores for part in parts])).transpose(1, 2)
    queries = tensor[torch.from_numpy(episodes.query)].flatten(1, 2)
    expected = cosine_logits(queries, prototypes(tensor[torch.from_numpy(episodes.support)], kind))
    torch.testing.assert_close(fast, expected, rtol=1e-5, atol=3e-5)
    np.testing.assert_allclose(accuracies(vectors, episodes, kind), accuracy(expected, query_targets(5, 6)).numpy())


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("queries", ["balanced", "dirichlet"])
def test_the_scores_of_every_head_are_those_of_its_single_episodes(name, queries):
    vectors, labels = clustered(200, 12, 6, seed=4)
    episodes = EpisodeSampler(labels, way=4, shot=2, query=3, queries=queries).draw(7)
    head = make_head(name, **({"steps": 5} if name == "alpha_tim" else {}))

    fast = np.concatenate([part.scores for part in Scoring(vectors).scores(episodes, head)])

    tensor, classes = torch.from_numpy(vectors).double(), torch.arange(4).repeat_interleave(2)
    for number in range(7):
        support, asked = (tensor[images[number].reshape(-1)] for images in (episodes.support, episodes.asked))
        expected = head.scores(support, classes, asked, 4)
        np.testing.assert_allclose(fast[number].T, expected.numpy(), rtol=1e-3, atol=2e-4)


def test_the_number_of_threads_and_the_chunk_change_nothing(monkeypatch):
    vectors, labels = clustered(300, 24, 10, seed=2)
    episodes = EpisodeSampler(labels, query=5).draw(123)
    whole = accuracies(vectors, episodes, threads=1)

    monkeypatch.setattr(scoring, "EPISODES_PER_CHUNK", 10)
    monkeypatch.setattr(scoring, "GATHERED_BYTES", 1)

    np.testing.assert_array_equal(accuracies(vectors, episodes, threads=3), whole)


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
@pytest.mark.parametrize("shot", [1, 3])
def test_answers_by_prototypes_do_not_depend_on_the_way_to_score(kind, shot, monkeypatch):
    generator = np.random.default_rng(0)
    labels = np.arange(300) % 6
    few = generator.normal(size=(40, 24))[generator.integers(0, 40, 300)]  # many images are the same but for rounding
    vectors = (few + 3e-7 * generator.normal(size=(300, 24))).astype(np.float32)
    episodes = EpisodeSampler(labels, shot=shot, query=10).draw(300)

    here = np.concatenate([part.predictions() for part in Scoring(vectors).scores(episodes, Prototypes(kind))])
    monkeypatch.setattr(scoring, "GRAM_BYTES", 0)
    gathered = np.concatenate([part.predictions() for part in Scoring(vectors).scores(episodes, Prototypes(kind))])

    np.testing.assert_array_equal(here, gathered)


def test_predictions_take_the_first_of_equals():
    scores = np.array([[[1, 0, -1], [1, 2, -3], [0, 2, -1]]], dtype=np.float32)

    assert ScoredEpisodes(0, scores).predictions().tolist() == scores.argmax(axis=1).tolist() == [[0, 1, 0]]


@settings(deadline=None, max_examples=50)
@given(way=st.integers(1, 5), queries=st.integers(1, 9), count=st.integers(1, 6), seed=st.integers(0, 100))
def test_predictions_with_ties_everywhere(way, queries, count, seed):
    few_values = np.random.default_rng(seed).integers(0, 3, (count, way, queries)).astype(np.float32)

    np.testing.assert_array_equal(ScoredEpisodes(0, few_values).predictions(), few_values.argmax(axis=1))


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
def test_equal_embeddings_are_answered_with_the_first_class(kind):
    episodes = EpisodeSampler(np.arange(60) % 6, way=4, shot=2, query=3).draw(20)

    for vectors in (np.zeros((60, 4), dtype=np.float32), np.ones((60, 4), dtype=np.float32)):
        np.testing.assert_array_equal(accuracies(vectors, episodes, kind), 1 / 4)


@settings(deadline=None, max_examples=15)
@given(shot=st.integers(1, 3), seed=st.integers(0, 100))
def test_the_length_of_embeddings_matters_only_inside_a_mean(shot, seed):
    vectors, labels = clustered(60, 8, 6, seed)
    episodes = EpisodeSampler(labels, shot=shot, query=3, seed=seed).draw(30)
    powers = 2.0 ** np.random.default_rng(seed).integers(-8, 9, (60, 1))  # exact factors, so that nothing is rounded
    stretched = (vectors * powers).astype(np.float32)

    kind = "mean" if shot == 1 else "mean_of_normalized"

    np.testing.assert_array_equal(accuracies(stretched, episodes, kind), accuracies(vectors, episodes, kind))


def test_accuracies_are_those_of_the_logits():
    vectors, labels = clustered(400, 16, 10, seed=3)
    episodes = EpisodeSampler(labels, shot=2, query=4).draw(600)

    right = np.concatenate([part.predictions() for part in Scoring(vectors).scores(episodes)]) == episodes.truth

    np.testing.assert_array_equal(accuracies(vectors, episodes), right.mean(axis=1))


def test_no_episodes_give_no_accuracies():
    vectors, labels = clustered(60, 4, 6, seed=0)
    episodes = EpisodeSampler(labels, query=3).draw(5)[:0]

    assert accuracies(vectors, episodes).shape == (0,)
    assert list(Scoring(vectors).scores(episodes)) == []


def test_zero_embeddings_give_zero_logits():
    vectors, labels = clustered(60, 4, 6, seed=0)
    vectors[::2] = 0
    episodes = EpisodeSampler(labels, way=3, query=3).draw(20)

    logits = np.concatenate([part.scores for part in Scoring(vectors).scores(episodes)])

    assert np.isfinite(logits).all()
    zero_query = episodes.asked % 2 == 0
    assert (np.moveaxis(logits, 1, -1)[zero_query] == 0).all()
    assert (np.moveaxis(logits, 1, -1)[~zero_query] != 0).any()


def test_a_consumer_that_stops_early_stops_the_work():
    vectors, labels = clustered(60, 4, 6, seed=0)
    parts = Scoring(vectors).scores(EpisodeSampler(labels, query=3).draw(5000), threads=2)

    assert next(parts).first == 0
    parts.close()


def test_memory_does_not_grow_with_the_number_of_episodes():
    vectors, labels = clustered(400, 16, 10, seed=0)
    episodes = EpisodeSampler(labels, shot=5).draw(8000)

    def peak(count):
        tracemalloc.start()
        accuracies(vectors, episodes[:count], threads=1)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(8000) < peak(2500) + 200_000  # the accuracies themselves are 8 bytes an episode


def test_no_second_copy_of_the_embeddings_is_made(monkeypatch):
    monkeypatch.setattr(scoring, "GRAM_BYTES", 1 << 29)  # 20,000 images are too many for all pairs
    vectors, labels = clustered(20_000, 64, 10, seed=0)
    episodes = EpisodeSampler(labels, shot=5).draw(10)

    tracemalloc.start()
    accuracies(vectors, episodes, "mean_of_normalized", threads=1)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert highest < vectors.nbytes / 2


def test_episodes_of_other_embeddings_are_refused():
    vectors, labels = clustered(60, 4, 6, seed=0)
    episodes = EpisodeSampler(labels, query=3).draw(5)

    with pytest.raises(InputError, match="30 embeddings were given"):
        accuracies(vectors[:30], episodes)
    with pytest.raises(InputError, match="hold images -"):
        accuracies(vectors, Episodes(episodes.support, episodes.query - 60, episodes.classes))
