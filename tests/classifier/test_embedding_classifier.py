"""The classifier over vectors: scikit-learn's own checks, the definition, and what changes without refitting."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.even_sample import even_rows_by_class
from cplsr.episodes.heads import make_head
from cplsr.episodes.heads.auto import USUAL, Auto
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.errors import InputError


def slow_probabilities(x, support, labels, classes, temperature, kind):
    def scaled(vector):
        return vector / np.linalg.norm(vector)

    logits = []
    for name in classes:
        members = [
            scaled(v) if kind == "mean_of_normalized" else v for v, y in zip(support, labels, strict=True) if y == name
        ]
        logits.append(temperature * float(scaled(x) @ scaled(np.mean(members, axis=0))))
    odds = np.exp(logits)
    return odds / odds.sum()


def blobs(seed=0, classes=("ash", "birch", "cedar"), counts=(3, 1, 4), dim=6, spread=0.5):
    generator = np.random.default_rng(seed)
    centers = generator.normal(size=(len(classes), dim)) * 2
    y = np.repeat(np.array(classes), counts)
    X = np.repeat(centers, counts, axis=0) + spread * generator.normal(size=(len(y), dim))
    order = generator.permutation(len(y))
    return X[order], y[order]


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_it():
    outcomes = check_estimator(EmbeddingClassifier(), on_skip=None)

    assert {outcome["status"] for outcome in outcomes} <= {"passed", "skipped"}
    assert sum(outcome["status"] == "passed" for outcome in outcomes) > 40


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(1, 4), min_size=3, max_size=3))
@settings(deadline=None, max_examples=20)
def test_probabilities_are_the_definition(kind, seed, counts):
    X, y = blobs(seed, counts=counts)
    queries = np.random.default_rng(seed + 1).normal(size=(4, 6))

    model = EmbeddingClassifier(Prototypes(kind), temperature=7.5).fit(X, y)

    for x, found in zip(queries, model.predict_proba(queries), strict=True):
        expected = slow_probabilities(x, X, y, ["ash", "birch", "cedar"], 7.5, kind)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert model.predict(x[None])[0] == ["ash", "birch", "cedar"][int(np.argmax(expected))]


@given(seed=st.integers(0, 10**6), cut=st.integers(1, 7))
@settings(deadline=None, max_examples=20)
def test_learning_in_parts_and_forgetting_a_class_is_fitting_the_rest(seed, cut):
    X, y = blobs(seed)
    queries = np.random.default_rng(seed + 1).normal(size=(5, 6))
    whole = EmbeddingClassifier().fit(X, y)

    parts = EmbeddingClassifier().partial_fit(X[:cut], y[:cut]).partial_fit(X[cut:], y[cut:])
    np.testing.assert_allclose(parts.predict_proba(queries), whole.predict_proba(queries), atol=1e-5)
    assert parts.classes_.tolist() == whole.classes_.tolist()

    fewer = EmbeddingClassifier().fit(X[y != "birch"], y[y != "birch"])
    whole.remove_class("birch")
    np.testing.assert_array_equal(whole.predict_proba(queries), fewer.predict_proba(queries))
    np.testing.assert_array_equal(whole.support_labels_, fewer.support_labels_)


def test_a_new_class_leaves_the_others_alone():
    X, y = blobs()
    model = EmbeddingClassifier().fit(X, y)
    before = dict(zip(model.classes_.tolist(), model.prototypes_.copy(), strict=True))

    model.partial_fit(X[:2] + 9, ["beech", "beech"])

    assert model.classes_.tolist() == ["ash", "beech", "birch", "cedar"]
    for name, prototype in before.items():
        np.testing.assert_array_equal(model.prototypes_[model.classes_.tolist().index(name)], prototype)


def test_a_class_without_vectors_is_never_the_answer():
    X, y = blobs()
    model = EmbeddingClassifier().partial_fit(X, y, classes=["ash", "birch", "cedar", "zelkova"])

    probabilities = model.predict_proba(-X)

    assert (probabilities[:, 3] == 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def count_calls(function, *arguments):
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return calls


def test_predicting_takes_as_many_steps_for_ten_thousand_classes_as_for_ten():
    queries = np.random.default_rng(1).normal(size=(3, 8))
    steps = []
    for classes in (10, 10_000):
        X = np.random.default_rng(0).normal(size=(2 * classes, 8))
        model = EmbeddingClassifier().fit(X, np.repeat(np.arange(classes), 2))
        model.predict(queries)
        steps.append(count_calls(model.predict, queries))
        expected = [slow_probabilities(x, X[:20], np.repeat(np.arange(10), 2), range(10), 1.0, "mean") for x in queries]
        ten = model.cosines(queries)[:, :10]
        np.testing.assert_allclose(ten - ten[:, :1], np.log(expected) - np.log(expected)[:, :1], atol=1e-10)

    assert steps[0] == steps[1]


def test_rejection():
    X, y = blobs(spread=0.1)
    model = EmbeddingClassifier(temperature=2.0).fit(X, y)
    likelihoods = model.predict_proba(X).max(axis=1)
    threshold = float(np.median(likelihoods))

    answers = model.predict(X, reject_below=threshold)

    assert set(answers[likelihoods < threshold]) == {"unknown"}
    assert (answers[likelihoods >= threshold] == model.predict(X)[likelihoods >= threshold]).all()
    numbers = EmbeddingClassifier().fit(X, np.arange(len(X)) % 3)
    assert set(numbers.predict(X, reject_below=1.0).tolist()) <= {"unknown", 0, 1, 2}
    assert isinstance(numbers.predict(X, reject_below=0.0).tolist()[0], int)
    with pytest.raises(InputError, match="no probability"):
        model.predict(X, reject_below=50.0)
    with pytest.raises(InputError, match="rename the class"):
        EmbeddingClassifier().fit(X, ["unknown", *y[1:]]).predict(X, reject_below=0.5)


def test_the_out_of_domain_score_is_the_share_of_closer_support_images():
    X, y = blobs(counts=(5, 5, 5), spread=0.3)
    model = EmbeddingClassifier().fit(X, y)
    queries = np.concatenate((model.prototypes_, np.random.default_rng(5).normal(size=(20, 6))))

    scores = model.out_of_domain_score(queries)

    for x, score in zip(queries, scores, strict=True):
        best = model.cosines(x[None]).max()
        closer = sum(b > best for b in model.support_best_)
        assert score == pytest.approx(closer / 16)
    assert (scores[:3] < 0.1).all()
    assert scores.max() > 0.9
    assert len(model.support_best_) == 15
    single = EmbeddingClassifier().fit(X[:2], ["a", "b"])
    assert np.isnan(single.out_of_domain_score(X)).all()
    assert single.temperature_ == 20.0


def test_bad_settings_and_requests():
    X, y = blobs()
    with pytest.raises(InputError, match="temperature='warm'"):
        EmbeddingClassifier(temperature="warm").fit(X, y)
    with pytest.raises(InputError, match="temperature=0"):
        EmbeddingClassifier(temperature=0).fit(X, y)
    with pytest.raises(InputError, match="there is no head 'rigde': did you mean 'ridge'"):
        EmbeddingClassifier("rigde").fit(X, y)
    with pytest.raises(InputError, match="the head em answers images together"):
        EmbeddingClassifier("em").fit(X, y)
    model = EmbeddingClassifier().fit(X, y)
    with pytest.raises(InputError, match="no class 'oak'"):
        model.remove_class("oak")
    with pytest.raises(InputError, match="text and numbers"):
        model.partial_fit(X[:2], [1, 2])
    model.remove_class("ash").remove_class("birch")
    with pytest.raises(InputError, match="only class"):
        model.remove_class("cedar")


@pytest.mark.parametrize("head", ["auto", "ridge", "lda", "logistic", "knn"])
def test_other_heads_answer_as_in_an_episode(head):
    X, y = blobs(counts=(4, 3, 4), dim=12)
    queries = np.random.default_rng(3).normal(size=(6, 12))
    model = EmbeddingClassifier(head, parts=4, decay=1.0).fit(X, y)
    parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in np.split(X, 4, axis=1)]
    asked = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in np.split(queries, 4, axis=1)]
    if head == "auto":  # chooses the penalty, and scales every part to length one
        episode = Auto(parts=4, decay=1.0)
        X, queries = np.concatenate(parts, axis=1), np.concatenate(asked, axis=1)
        model = EmbeddingClassifier(head, parts=4, decay=1.0).fit(X, y)
    else:
        episode = make_head(head)

    labels = torch.from_numpy(np.searchsorted(model.classes_, y))
    expected = episode.scores(torch.from_numpy(X), labels, torch.from_numpy(queries), 3)

    np.testing.assert_allclose(model.scores(queries), expected / (episode.temperature or 1.0), atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(queries).sum(axis=1), 1)


@pytest.mark.parametrize("head", ["ridge", "lda", "knn", "prototypes"])
def test_left_out_scores_are_those_of_fitting_without_the_vector(head):
    X, y = blobs(counts=(3, 1, 4))
    model = EmbeddingClassifier(head).fit(X, y)

    (judged,) = model.left_out()

    assert sorted(judged.rows) == np.flatnonzero(y != "birch").tolist()
    for row, scores in zip(judged.rows, judged.scores, strict=True):
        others = np.arange(len(y)) != row
        expected = EmbeddingClassifier(head).fit(X[others], y[others]).scores(X[[row]])[0]
        np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_the_choice_is_explained_and_kept_when_restored():
    generator = np.random.default_rng(0)
    y = np.repeat(["ash", "birch", "cedar"], 6)
    early, late = np.repeat(np.eye(3, 8), 6, axis=0), np.zeros((18, 24))
    X = np.concatenate((early, late), axis=1) + 0.3 * generator.normal(size=(18, 32))

    model = EmbeddingClassifier("auto", parts=4).fit(X, y)

    assert model.choice_.reading.decay == 1.0, "only the first block knows the classes"
    favored = "all blocks, more where they tell the classes apart (favor 2): its squared error"
    assert favored in model.choice_.sentence()
    single = EmbeddingClassifier("auto", parts=4).fit(X[::6], y[::6])
    assert single.choice_.reading == USUAL
    assert single.choice_.sentence() == (
        "Head: ridge (penalty 0.03), reading all blocks, the upper ones more the better the network knows such images "
        "(tilt 2) and more where they tell the classes apart (favor 2): the usual choice, because no class has two "
        "images to choose by."
    )
    again = EmbeddingClassifier("auto", parts=4).restore(
        model.classes_, X, model.support_labels_, single.choice_, temperature=3.0
    )
    assert (again.choice_, again.temperature_) == (single.choice_, 3.0)


def test_many_images_choose_by_an_even_sample():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [900, 3, 200, 400]))

    rows = even_rows_by_class(labels, 500)

    assert np.bincount(labels[rows]).tolist() == [125, 3, 125, 125]
    assert (np.diff(rows) > 0).all()


def test_images_that_come_together_are_answered_as_bd_cspn_answers_them():
    generator = np.random.default_rng(4)
    X, y = generator.normal(size=(3, 12)), ["ash", "birch", "cedar"]
    queries = X[generator.integers(0, 3, 30)] + generator.normal(size=(30, 12)) + 1
    model = EmbeddingClassifier().fit(X, y)

    found = model.seeing_together(queries).scores(queries)

    tensors = (torch.from_numpy(X), torch.arange(3), torch.from_numpy(queries))
    np.testing.assert_allclose(found, make_head("bd_cspn").scores(*tensors, 3) / 10, atol=1e-9)
    assert not np.allclose(found, model.scores(queries), atol=1e-2), "the classifier itself is as before"
    with pytest.raises(InputError, match="1 image was given to be answered together: give two at least"):
        model.seeing_together(queries[:1])
    with pytest.raises(InputError, match="every class has a single example"):
        EmbeddingClassifier().fit(*blobs()).seeing_together(queries)


def test_the_closer_the_examples_the_higher_the_temperature_of_images_that_come_together_unless_it_was_given():
    X = np.random.default_rng(5).normal(size=(3, 8)) + 1
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    spread = 1 - np.mean([unit[0] @ unit[1], unit[0] @ unit[2], unit[1] @ unit[2]])

    model = EmbeddingClassifier().fit(X, ["ash", "birch", "cedar"])
    assert model.seeing_together(X + 0.1).temperature_ == pytest.approx(10 / spread)
    alike = EmbeddingClassifier().fit(np.ones((3, 8)), ["ash", "birch", "cedar"])
    assert alike.seeing_together(X).temperature_ == 1000
    given = EmbeddingClassifier(temperature=3.0).fit(X, ["ash", "birch", "cedar"])
    assert given.seeing_together(X + 0.1).temperature_ == 3
