"""What a support set says about itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.support_report import (
    FrozenComparison,
    Share,
    compare_with_frozen,
    judge_support,
    report_on_support,
)
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.evaluation.intervals import wilson_interval


def fitted(seed=0, counts=(6, 6, 6, 1), spread=0.2, **options):
    generator = np.random.default_rng(seed)
    y = np.repeat([f"class {k}" for k in range(len(counts))], counts)
    centers = generator.normal(size=(len(counts), 8))
    X = np.repeat(centers, counts, axis=0) + spread * generator.normal(size=(len(y), 8))
    return EmbeddingClassifier(**options).fit(X, y), X, y


def names_of(y):
    return tuple(f"{name}/{k}" for k, name in enumerate(y))


@given(of=st.integers(1, 300), part=st.floats(0, 1))
@settings(deadline=None, max_examples=50)
def test_wilson(of, part):
    right = round(part * of)

    low, high = wilson_interval(right / of, float(of))

    expected = binomtest(right, of).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert 0 <= low <= right / of <= high <= 1


def test_nothing_counted_is_nothing_known():
    assert Share(0, 0).value is None
    assert Share(0, 0).interval == (0.0, 1.0)


@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
def test_accuracy_and_confusions_are_what_refitting_without_each_image_gives(kind):
    head, X, y = fitted(spread=1.2, head=Prototypes(kind))
    wrong = {}
    right = 0
    for row in range(len(y)):
        if (y == y[row]).sum() < 2:
            continue
        others = np.arange(len(y)) != row
        answer = EmbeddingClassifier(Prototypes(kind)).fit(X[others], y[others]).predict(X[row : row + 1])[0]
        right += answer == y[row]
        if answer != y[row]:
            wrong[y[row], answer] = wrong.get((y[row], answer), 0) + 1

    report = report_on_support(head, names_of(y))

    assert 0 < right < 18
    assert (report.recognized.right, report.recognized.of) == (right, 18)
    assert {(c.actual, c.taken_for): c.images for c in report.confusions} == wrong
    assert [c.images for c in report.confusions] == sorted(wrong.values(), reverse=True)
    assert [(c.name, c.images, c.recognized.of) for c in report.classes] == [
        ("class 0", 6, 6), ("class 1", 6, 6), ("class 2", 6, 6), ("class 3", 1, 0)
    ]  # fmt: skip
    assert report.needs_more[0] == "class 3"  # its only image cannot be judged


def test_a_planted_mistake_is_found():
    _, X, y = fitted(counts=(8, 8, 8))
    y = y.copy()
    y[3] = "class 2"
    head = EmbeddingClassifier().fit(X, y)

    report = report_on_support(head, names_of(y))

    assert [d.index for d in report.doubtful] == [3]
    found = report.doubtful[0]
    assert (found.label, found.looks_like, found.name) == ("class 2", "class 0", "class 2/3")
    assert found.odds >= 4
    assert any("class 2/3 (labeled class 2, looks like class 0)" in text for text in report.sentences())


def test_a_sound_set_has_nothing_doubtful():
    head, _, y = fitted(counts=(8, 8, 8), spread=0.05)

    report = report_on_support(head, names_of(y))

    assert report.recognized.value == 1.0
    assert (report.doubtful, report.confusions, report.needs_more) == ((), (), ())
    assert report.sentences() == [
        "Of 100 new pictures like these, expect 85 to 100 to be labeled correctly (best guess 100)."
    ]


def test_the_comparison_is_paired_and_honest():
    good, X, y = fitted(counts=(8, 8, 8), spread=0.05)
    noise = np.random.default_rng(1).normal(size=X.shape)
    bad = EmbeddingClassifier().fit(noise, y)

    better = compare_with_frozen(judge_support(bad), judge_support(good))
    worse = compare_with_frozen(judge_support(good), judge_support(bad))
    same = compare_with_frozen(judge_support(good), judge_support(good))

    assert (better.recommended, worse.recommended, same.recommended) == ("adapter", "frozen", "no clear difference")
    assert better.only_frozen == 0
    assert better.only_adapter == 24 - better.frozen.right
    assert same.chance == 1.0
    assert better.chance == pytest.approx(2 * 0.5**better.only_adapter)
    assert report_on_support(good, names_of(y), bad).comparison == better
    assert "Recommended: adapter" in report_on_support(good, names_of(y), bad).sentences()[-1]


def test_a_small_lead_is_no_recommendation():
    lead = FrozenComparison(Share(20, 25), Share(24, 25), only_frozen=0, only_adapter=4, chance=0.125)

    assert lead.recommended == "no clear difference"


def test_sets_that_cannot_be_judged():
    single, _, y = fitted(counts=(1, 1, 1))
    report = report_on_support(single, names_of(y))
    assert report.recognized.value is None
    assert report.needs_more == ("class 0", "class 1", "class 2")
    one, _, y = fitted(counts=(3,))
    assert report_on_support(one, names_of(y)).recognized.right == 3
