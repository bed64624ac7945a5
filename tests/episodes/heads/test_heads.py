"""Every head against its formula written out, one episode after the other, and what all of them have in common."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf_shrinkage as scikit_learns_shrinkage
from sklearn.linear_model import RidgeClassifier

from cplsr.episodes.heads import HEADS, Products, make_head
from cplsr.episodes.heads.head import Task
from cplsr.episodes.heads.lda import ledoit_wolf_shrinkage
from cplsr.episodes.heads.ridge import Ridge, fit_ridge, leave_one_out_scores
from cplsr.errors import InputError

NAMES = list(HEADS)
QUICK = {"alpha_tim": {"steps": 4, "rate": 0.01}}
"""Few and large steps where the literal version is slow."""


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def softmax(values):
    likelihoods = np.exp(values - values.max(axis=-1, keepdims=True))
    return likelihoods / likelihoods.sum(axis=-1, keepdims=True)


def class_means(support, labels, way):
    return np.stack([support[labels == k].mean(axis=0) for k in range(way)])


def prototypes(support, labels, queries, way, kind="mean"):
    means = class_means(unit(support) if kind == "mean_of_normalized" else support, labels, way)
    return 20 * unit(queries) @ unit(means).T


def ridge(support, labels, queries, way, penalty=0.1):
    X, Y = unit(support), np.eye(way)[labels]
    return 12 * unit(queries) @ X.T @ np.linalg.inv(X @ X.T + penalty * np.eye(len(X))) @ Y


def lda(support, labels, queries, way, shrinkage=0.8):
    X, Z = unit(support), unit(queries)
    means = class_means(X, labels, way)
    deviations = X - means[labels]
    if shrinkage == "ledoit_wolf":
        shrinkage = scikit_learns_shrinkage(deviations, assume_centered=True)
    d = X.shape[1]
    S = deviations.T @ deviations / (len(X) - way)
    A = np.linalg.inv((1 - shrinkage) * S + shrinkage * np.trace(S) / d * np.eye(d))
    return np.array([[z @ A @ mean - mean @ A @ mean / 2 for mean in means] for z in Z])


def centered_rows(support, labels, queries, way, center):
    X, Z = unit(support), unit(queries)
    middle = Z.mean(axis=0)
    if center == "classes":
        shares = softmax(prototypes(X, labels, Z, way))
        middle = np.mean([(shares[:, k, None] * Z).sum(axis=0) / shares[:, k].sum() for k in range(way)], axis=0)
    return unit(X - middle), unit(Z - middle)


def centered(support, labels, queries, way, center="queries"):
    X, Z = centered_rows(support, labels, queries, way, center)
    return prototypes(X, labels, Z, way)


def em(support, labels, queries, way, gamma=0.5, sharpness=10, pseudo_count=1, iterations=20, center="queries"):
    X, Z = centered_rows(support, labels, queries, way, center)
    w, prior = class_means(X, labels, way), np.full(way, 1 / way)

    def logits():
        return np.array(
            [[gamma * math.log(prior[k]) - sharpness / 2 * ((z - w[k]) ** 2).sum() for k in range(way)] for z in Z]
        )

    for _ in range(iterations):
        p = softmax(logits())
        w = np.stack(
            [
                (X[labels == k].sum(axis=0) + (p[:, k, None] * Z).sum(axis=0)) / ((labels == k).sum() + p[:, k].sum())
                for k in range(way)
            ]
        )
        prior = (p.sum(axis=0) + pseudo_count) / (len(Z) + way * pseudo_count)
    return logits()


def bd_cspn(support, labels, queries, way):
    X, Z = unit(support), unit(queries)
    Z = Z + X.mean(axis=0) - Z.mean(axis=0)
    means = class_means(X, labels, way)
    of_support, of_queries = (softmax(10 * unit(rows) @ unit(means).T) for rows in (X, Z))
    answers = (unit(Z) @ unit(means).T).argmax(axis=1)
    rectified = []
    for k in range(way):
        members = [(of_support[i, k], X[i]) for i in range(len(X)) if labels[i] == k]
        assigned = [(of_queries[i, k], Z[i]) for i in range(len(Z)) if answers[i] == k]
        if assigned:
            members += assigned
            rectified.append(sum(weight * z for weight, z in members) / sum(weight for weight, _ in members))
        else:
            rectified.append(means[k])
    return 10 * unit(Z) @ unit(np.stack(rectified)).T


def alpha_tim(support, labels, queries, way, steps=4, rate=0.01, sharpness=15):
    """Adam on a gradient by the chain rule, written out."""
    X, Z, Y = unit(support), unit(queries), np.eye(way)[labels]
    alpha = 2 if len(labels) == way else 7
    W = class_means(X, labels, way)

    def logits(rows):
        return -sharpness / 2 * ((rows[:, None] - W[None]) ** 2).sum(axis=2)

    def through_softmax(p, gradient):
        return p * (gradient - (p * gradient).sum(axis=1, keepdims=True))

    first, second = np.zeros_like(W), np.zeros_like(W)
    for step in range(1, steps + 1):
        p, q = softmax(logits(X)), softmax(logits(Z))
        mean = q.mean(axis=0)
        on_q = alpha / (alpha - 1) * (mean ** (alpha - 1) - q ** (alpha - 1)) / len(Z)
        gradient = np.zeros_like(W)
        for rows, on_logits in ((X, (p - Y) / len(X)), (Z, through_softmax(q, on_q))):
            for k in range(way):
                gradient[k] += sum(on_logits[i, k] * sharpness * (rows[i] - W[k]) for i in range(len(rows)))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        W = W - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return logits(Z) + sharpness / 2 * (Z**2).sum(axis=1, keepdims=True)


ORACLES = {
    "prototypes": prototypes,
    "ridge": ridge,
    "lda": lda,
    "centered": centered,
    "em": em,
    "bd_cspn": bd_cspn,
    "alpha_tim": alpha_tim,
}
OPTIONS = [
    ("prototypes", {}),
    ("prototypes", {"kind": "mean_of_normalized"}),
    ("ridge", {}),
    ("ridge", {"penalty": 3.0}),
    ("lda", {}),
    ("lda", {"shrinkage": 0.3}),
    ("lda", {"shrinkage": "ledoit_wolf"}),
    ("centered", {}),
    ("centered", {"center": "classes"}),
    ("em", {}),
    ("em", {"gamma": 1.0, "sharpness": 4.0, "pseudo_count": 0.5, "iterations": 3, "center": "classes"}),
    ("bd_cspn", {}),
    ("alpha_tim", {"steps": 4, "rate": 0.01}),
]


def episode(way, counts, queries, dim, seed):
    """Clustered embeddings of different lengths; labels in no order, the classes of different sizes."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(way), counts[:way]))
    centers = generator.normal(size=(way, dim))
    support = centers[labels] + generator.normal(size=(len(labels), dim))
    asked = centers[generator.integers(0, way, queries)] + generator.normal(size=(queries, dim)) + 0.3
    lengths = generator.uniform(0.2, 5, (len(labels) + queries, 1))
    return support * lengths[: len(labels)], labels, asked * lengths[len(labels) :]


def scores(head, support, labels, queries, way):
    support, labels, queries = (torch.from_numpy(each) for each in (support, labels, queries))
    return head.scores(support, labels, queries, way).numpy()


episodes = st.builds(
    lambda way, counts, queries, dim, seed: (*episode(way, counts, queries, dim, seed), way),
    way=st.integers(2, 4),
    counts=st.lists(st.integers(2, 4), min_size=4, max_size=4),
    queries=st.integers(2, 9),
    dim=st.sampled_from([3, 8, 30]),
    seed=st.integers(0, 1000),
)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
@settings(deadline=None, max_examples=12)
@given(given_=episodes)
def test_scores_are_those_of_the_formula(name, options, given_):
    support, labels, queries, way = given_

    found = scores(make_head(name, **options), support, labels, queries, way)

    np.testing.assert_allclose(found, ORACLES[name](support, labels, queries, way, **options), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in ORACLES if name != "lda"])
def test_one_image_of_each_class(name):
    support, labels, queries = episode(4, [1] * 4, 6, 8, seed=1)

    found = scores(make_head(name, **QUICK.get(name, {})), support, labels, queries, 4)

    np.testing.assert_allclose(found, ORACLES[name](support, labels, queries, 4), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=5)
@given(given_=episodes, seed=st.integers(0, 100))
def test_what_all_heads_have_in_common(name, given_, seed):
    support, labels, queries, way = given_
    head = make_head(name, **QUICK.get(name, {}))
    generator = np.random.default_rng(seed)
    whole = scores(head, support, labels, queries, way)

    order = generator.permutation(len(labels))
    np.testing.assert_allclose(scores(head, support[order], labels[order], queries, way), whole, atol=1e-6)
    renamed = generator.permutation(way)
    np.testing.assert_allclose(scores(head, support, renamed[labels], queries, way)[:, renamed], whole, atol=1e-6)
    order = generator.permutation(len(queries))
    np.testing.assert_allclose(scores(head, support, labels, queries[order], way), whole[order], atol=1e-6)
    if name != "alpha_tim":  # its steps follow the axes
        turn = np.linalg.qr(generator.normal(size=(support.shape[1],) * 2))[0]
        np.testing.assert_allclose(scores(head, support @ turn, labels, queries @ turn, way), whole, atol=1e-6)
    twice = [torch.from_numpy(np.stack([each, each])) for each in (support, queries)]
    both = head.scores(twice[0], torch.from_numpy(labels), twice[1], way).numpy()
    np.testing.assert_allclose(both, np.stack([whole, whole]), atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_only_heads_that_say_so_see_the_queries_together(name):
    support, labels, queries = episode(3, [3] * 3, 8, 10, seed=5)
    head = make_head(name, **QUICK.get(name, {}))

    alone = scores(head, support, labels, queries[:3], 3)

    differs = np.abs(alone - scores(head, support, labels, queries, 3)[:3]).max() > 1e-3
    assert differs == head.together == HEADS.find(name).together


@pytest.mark.parametrize("name", NAMES)
def test_zero_embeddings_give_numbers(name):
    support, labels, queries = episode(3, [2] * 3, 4, 6, seed=2)
    support[0] = queries[1] = 0

    assert np.isfinite(scores(make_head(name, **QUICK.get(name, {})), support, labels, queries, 3)).all()


@settings(deadline=None, max_examples=15)
@given(given_=episodes, penalty=st.sampled_from([0.01, 0.1, 2.0]))
def test_ridge_scores_of_images_left_out_are_those_of_fitting_without_them(given_, penalty):
    support, labels, _, way = given_
    X = unit(support)

    found = leave_one_out_scores(torch.from_numpy(X @ X.T), torch.from_numpy(labels), way, penalty).numpy()

    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        expected = ridge(X[kept], labels[kept], X[i : i + 1], way, penalty)
        np.testing.assert_allclose(found[i], expected[0] / 12, atol=1e-9)


@settings(deadline=None, max_examples=15)
@given(given_=episodes, penalty=st.sampled_from([0.01, 0.1, 2.0]))
def test_fitting_ridge_once_for_all_queries_is_the_same_in_either_space(given_, penalty):
    support, labels, queries, way = given_
    X = unit(support)
    found, left_out = fit_ridge(torch.from_numpy(X), torch.from_numpy(labels), penalty)

    np.testing.assert_allclose(12 * unit(queries) @ found.numpy(), ridge(X, labels, queries, way, penalty), atol=1e-8)
    closed_form = leave_one_out_scores(torch.from_numpy(X @ X.T), torch.from_numpy(labels), way, penalty)
    np.testing.assert_allclose(left_out.numpy(), closed_form.numpy(), atol=1e-8)


@pytest.mark.parametrize("name", [name for name in NAMES if not HEADS.find(name).together])
def test_linear_heads_are_known_by_their_scores_of_the_axes(name):
    support, labels, queries = episode(3, [3] * 3, 8, 10, seed=6)
    head = make_head(name)
    offsets = scores(head, support, labels, np.zeros((1, 10)), 3)
    weights = scores(head, support, labels, np.eye(10), 3) - offsets

    same = np.abs(unit(queries) @ weights + offsets - scores(head, support, labels, queries, 3)).max() < 1e-8

    assert same == (head.linear or name == "auto")  # auto settles on a linear one for each support set


def test_ridge_answers_as_scikit_learns():
    support, labels, queries = episode(4, [5] * 4, 30, 50, seed=3)

    found = scores(Ridge(penalty=0.5), support, labels, queries, 4).argmax(axis=1)

    theirs = RidgeClassifier(alpha=0.5, fit_intercept=False, solver="cholesky").fit(unit(support), labels)
    np.testing.assert_array_equal(found, theirs.predict(unit(queries)))


def test_ledoit_and_wolfs_shrinkage_is_scikit_learns():
    rows = np.random.default_rng(0).normal(size=(2, 12, 30)) * np.linspace(0.1, 2, 30)

    found = ledoit_wolf_shrinkage(torch.from_numpy(rows @ rows.transpose(0, 2, 1)), 30)

    np.testing.assert_allclose(found, [scikit_learns_shrinkage(each, assume_centered=True) for each in rows])


def test_a_class_without_queries_keeps_its_bd_cspn_prototype():
    support = np.array([[1.0, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0.1, 0.9, 0], [0, 0, 1], [0.5, 0, 0.9]])
    labels, queries = np.array([0, 0, 1, 1, 2, 2]), np.array([[1.0, 0.05, 0], [0.95, 0.1, 0], [0.05, 1, 0]])

    expected = bd_cspn(support, labels, queries, 3)

    assert set(expected.argmax(axis=1)) < {0, 1, 2}
    np.testing.assert_allclose(scores(make_head("bd_cspn"), support, labels, queries, 3), expected, atol=1e-9)


def test_an_estimated_prior_helps_where_the_queries_are_uneven():
    generator = np.random.default_rng(0)
    centers, truth = generator.normal(size=(5, 20)), np.repeat(np.arange(5), [40, 20, 9, 4, 2])
    right = {"em": [], "flat": []}
    for _ in range(20):
        support = centers + 1.3 * generator.normal(size=(5, 20))
        queries = centers[truth] + 1.3 * generator.normal(size=(75, 20))
        for name, head in (("em", make_head("em", gamma=1.0)), ("flat", make_head("em", gamma=0.0))):
            right[name].append((scores(head, support, np.arange(5), queries, 5).argmax(axis=1) == truth).mean())

    assert np.mean(right["em"]) > np.mean(right["flat"])


def test_unknown_heads_and_options_are_refused():
    with pytest.raises(InputError, match="there is no head 'protoypes': did you mean 'prototypes'"):
        make_head("protoypes")
    with pytest.raises(InputError, match="the head ridge has an unknown setting 'penalti': did you mean 'penalty'"):
        make_head("ridge", penalti=1)
    with pytest.raises(InputError, match="penalty"):
        Ridge(penalty=0.0)
    with pytest.raises(InputError, match="kind"):
        make_head("prototypes", kind="median")
    with pytest.raises(InputError, match="option 'penalty' is incomplete: give name=value"):
        make_head("ridge:penalty")
    with pytest.raises(InputError, match="the head em has an unknown setting 'gama': did you mean 'gamma'"):
        make_head("em:iterations=3,gama=1")
    with pytest.raises(InputError, match="the head em: gamma is 2: give a number of at most 1"):
        make_head("em:gamma=2")
    with pytest.raises(InputError, match="the head em: center is 'middle': give 'queries' or 'classes'"):
        make_head("em:center=middle")


def test_with_one_image_of_each_class_lda_is_the_nearest_mean():
    support, labels, queries = episode(4, [1] * 4, 9, 6, seed=0)
    answers = [scores(make_head(name), support, labels, queries, 4).argmax(axis=1) for name in ("lda", "prototypes")]
    np.testing.assert_array_equal(*answers)


def test_products_of_unit_vectors_are_cosines():
    support, labels, queries = episode(2, [2] * 2, 3, 5, seed=0)

    task = Task(*map(torch.from_numpy, (support, labels, queries)), 2)
    products = Products.of(task, together=True).unit()

    rows = unit(np.concatenate([support, queries]))
    np.testing.assert_allclose(products.inner, rows @ rows.T, atol=1e-12)
    np.testing.assert_allclose(products.squares, 1)
