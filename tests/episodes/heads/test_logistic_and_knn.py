import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from cplsr.episodes.heads import logistic
from cplsr.episodes.heads.knn import Knn
from cplsr.episodes.heads.logistic import Logistic, fit_logistic
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError


def problem(way, shot, query=3, dim=12, count=4, seed=0, spread=1.0):
    """Clustered embeddings of very different lengths, and episodes over them."""
    generator = np.random.default_rng(seed)
    labels = np.arange(10 * (shot + query)) % 10
    vectors = generator.normal(size=(10, dim))[labels] + spread * generator.normal(size=(len(labels), dim))
    vectors = (vectors * generator.uniform(0.1, 10, (len(labels), 1))).astype(np.float32)
    return vectors, EpisodeSampler(labels, way=way, shot=shot, query=query, seed=seed).draw(count)


def unit(vectors):
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def scores(head, vectors, episodes):
    """(episodes, queries, way)."""
    table = torch.from_numpy(vectors.astype(np.float64))
    support, queries = (table[torch.from_numpy(images).flatten(1)] for images in (episodes.support, episodes.query))
    return head.scores(support, classes_of(episodes.way, episodes.shot), queries, episodes.way).numpy()


def classes_of(way, shot):
    return torch.arange(way).repeat_interleave(shot)


@pytest.mark.parametrize(("way", "shot", "C"), [(5, 1, 1.0), (5, 5, 1.0), (3, 4, 10.0), (2, 3, 1.0), (4, 20, 0.1)])
def test_logistic_regression_is_scikit_learns(way, shot, C):
    vectors, episodes = problem(way, shot)

    logits = scores(Logistic(C=C), vectors, episodes)

    truth = np.repeat(np.arange(way), shot)
    for episode in range(len(episodes)):
        support = unit(vectors[episodes.support[episode].reshape(-1)])
        queries = unit(vectors[episodes.query[episode].reshape(-1)])
        theirs = LogisticRegression(C=C, tol=1e-12, max_iter=100_000).fit(support, truth)
        dual, own = fit_logistic(torch.from_numpy(support @ support.T)[None], classes_of(way, shot), way, C=C)
        weights, intercept = dual[0].T.numpy() @ support, own[0].numpy()
        if way == 2:  # one weight vector there, two opposite ones here
            weights, intercept = weights[1:] - weights[:1], intercept[1:] - intercept[:1]
        np.testing.assert_allclose(weights, theirs.coef_, atol=2e-5)
        np.testing.assert_allclose(intercept, theirs.intercept_, atol=2e-5)
        np.testing.assert_array_equal(logits[episode].argmax(axis=1), theirs.predict(queries))
        probabilities = torch.from_numpy(logits[episode]).softmax(dim=1).numpy()
        np.testing.assert_allclose(probabilities, theirs.predict_proba(queries), atol=2e-5)


@settings(deadline=None, max_examples=25)
@given(
    way=st.integers(3, 6),
    shot=st.integers(1, 8),
    C=st.sampled_from([0.01, 1.0, 100.0]),
    spread=st.sampled_from([0.05, 1.0]),
    seed=st.integers(0, 100),
)
def test_the_gradient_of_the_written_objective_is_zero(way, shot, C, spread, seed):
    vectors, episodes = problem(way, shot, count=2, seed=seed, spread=spread)
    for images in episodes.support:
        X = torch.from_numpy(unit(vectors[images.reshape(-1)]))
        dual, intercept = fit_logistic((X @ X.T)[None], classes_of(way, shot), way, C=C)
        W = (dual[0].T @ X).requires_grad_()
        b = intercept[0].clone().requires_grad_()

        loss = C * torch.nn.functional.cross_entropy(
            X @ W.T + b, torch.arange(way).repeat_interleave(shot), reduction="sum"
        )
        (loss + 0.5 * W.square().sum()).backward()

        assert max(W.grad.abs().max(), b.grad.abs().max()) < 1e-6 * max(1, C)


def test_equal_support_images_and_one_class_are_no_trouble():
    twice = torch.ones(1, 6, 6, dtype=torch.float64)  # six times the same unit vector
    dual, intercept = fit_logistic(twice, classes_of(3, 2), 3)
    torch.testing.assert_close((twice @ dual + intercept[:, None]).softmax(2), torch.full((1, 6, 3), 1 / 3).double())

    vectors, episodes = problem(1, 2)
    assert (scores(Logistic(), vectors, episodes) == 0).all()


def test_a_regression_that_does_not_settle_is_an_error(monkeypatch):
    monkeypatch.setattr(logistic, "MAX_STEPS", 2)

    with pytest.raises(InputError, match="did not settle in 2 steps"):
        scores(Logistic(), *problem(5, 5))


def knn_literally(support, truth, query, k):
    """The class with most votes among the k nearest; of several, the one that comes first in the order of nearness."""
    cosines = [float(row @ query) for row in support]
    nearest = sorted(range(len(support)), key=lambda i: (-cosines[i], i))[:k]
    voters = [int(truth[i]) for i in nearest]
    most = max(voters.count(c) for c in voters)
    return next(c for c in voters if voters.count(c) == most), sum(voters.count(c) == most for c in set(voters)) > 1


@pytest.mark.parametrize(("way", "shot", "neighbors"), [(5, 1, 5), (5, 5, 5), (3, 4, 2), (4, 7, 5)])
def test_nearest_neighbors_against_a_literal_vote_and_scikit_learn(way, shot, neighbors):
    vectors, episodes = problem(way, shot, count=12, spread=2.0)
    k = min(shot, neighbors)
    truth = np.repeat(np.arange(way), shot)
    ties = 0

    answers = scores(Knn(neighbors=neighbors), vectors, episodes).argmax(axis=2)

    for episode in range(len(episodes)):
        support = unit(vectors[episodes.support[episode].reshape(-1)])
        queries = unit(vectors[episodes.query[episode].reshape(-1)])
        theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(support, truth).predict(queries)
        for number, query in enumerate(queries):
            expected, tie = knn_literally(support, truth, query, k)
            assert answers[episode, number] == expected
            assert tie or answers[episode, number] == theirs[number]
            ties += tie
    assert (ties > 0) == (k > 1)


def test_of_equal_cosines_the_first_image_counts_as_nearer():
    vectors = np.eye(4, dtype=np.float32)[[0, 0, 0, 1]]
    episodes = EpisodeSampler([0, 1, 0, 1], way=2, shot=1, query=1).draw(1)
    episodes.support[:] = [[[0], [1]]]
    episodes.query[:] = [[[2], [3]]]

    assert scores(Knn(), vectors, episodes).argmax(axis=2).ravel().tolist() == [0, 0]
    with pytest.raises(InputError, match="neighbors is 0"):
        Knn(neighbors=0)
