"""Label these next: against the definition, and on pictures."""

import numpy as np
import pytest

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.prediction import Prediction
from cplsr.classifier.suggest import MOST_PICTURES, Suggestion, covariance_given, most_explaining, suggest
from cplsr.errors import InputError


@pytest.fixture
def vectors():
    found = np.random.default_rng(0).standard_normal((30, 6))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_each_choice_leaves_the_least_weighted_variance(vectors):
    support, pictures, penalty = vectors[:5], vectors[5:], 0.1
    weights = np.random.default_rng(1).random(len(pictures))

    chosen = most_explaining(covariance_given(support, pictures, penalty), weights, penalty, 4).tolist()

    known = support
    for number, picture in enumerate(chosen):
        left = [
            weights @ covariance_given(np.concatenate((known, [other])), pictures, penalty).diagonal()
            if row not in chosen[:number]
            else np.inf
            for row, other in enumerate(pictures)
        ]
        assert picture == int(np.argmin(left))
        known = np.concatenate((known, [pictures[picture]]))


@pytest.mark.parametrize("head", ["auto", "ridge", "prototypes", "logistic", "knn"])
def test_every_head_gives_different_pictures_in_order(head, vectors):
    model = EmbeddingClassifier(head).fit(vectors[:4], ["a", "b", "a", "b"])

    chosen = suggest(model, vectors[4:], 10).tolist()

    assert len(set(chosen)) == 10
    assert suggest(model, vectors[4:], 3).tolist() == chosen[:3]
    assert sorted(suggest(model, vectors[4:], 100).tolist()) == list(range(26))


def test_twins_are_not_both_chosen_and_what_is_known_is_not():
    model = EmbeddingClassifier("ridge").fit(np.eye(4)[:2], ["a", "b"])
    pictures = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0.01], [0, 0, 1, 0], [0, 0, 0, 1]])

    assert set(suggest(model, pictures, 2).tolist()) in ({1, 3}, {2, 3})


def test_of_many_pictures_an_even_sample_is_looked_at(vectors):
    model = EmbeddingClassifier("ridge").fit(vectors[:2], ["a", "b"])
    many = np.random.default_rng(0).standard_normal((2 * MOST_PICTURES, 6))

    assert len(set(suggest(model, many, 3).tolist())) == 3


def test_bad_counts_and_no_pictures(vectors):
    model = EmbeddingClassifier("ridge").fit(vectors[:2], ["a", "b"])
    with pytest.raises(InputError, match="0 pictures to label were asked for: ask for 1 or more"):
        suggest(model, vectors, 0)
    assert len(suggest(model, vectors[:0])) == 0


@pytest.mark.parametrize(
    ("guess", "reason"),
    [
        (Prediction("x", "a", 0.5, "b", 0.4), "in doubt between a and b"),
        (Prediction("x", "a", 0.8, "b", 0.1, out_of_domain=0.97), "unlike the examples"),
        (Prediction("x", "a", 0.8, "b", 0.1, out_of_domain=0.5), "stands for pictures in doubt"),
    ],
)
def test_reasons(guess, reason):
    assert Suggestion(0, guess).reason == reason


def test_images_that_cannot_be_read_are_left_out(support, query, checkpoint_file):
    from cplsr.backbones.load import load_backbone

    classifier = FewShotClassifier(load_backbone(checkpoint_file, heads=2), workers=0).fit(support)

    suggested = classifier.suggest(query, count=100)

    names = [each.guess.name for each in suggested]
    assert len(names) == 9
    assert not any(name.endswith(("bad.jpg", "empty.png")) for name in names)
    assert {each.guess.label for each in suggested} == {"blue", "green", "red"}
    assert [each.index for each in classifier.suggest(query, count=2)] == [each.index for each in suggested[:2]]
