"""The classifier's own head beside others."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cplsr import load_backbone, open_domain
from cplsr.classifier import leave_one_out
from cplsr.classifier.comparison import MethodScore, compare_embeddings, compare_methods, suggestions
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.leave_one_out import held_out_splits
from cplsr.classifier.support_report import judge_support


def test_all_methods_are_judged_on_the_same_images(backbone, support, adapter_folder):
    (support / "red" / "0.png").rename(support / "blue" / "moved.png")
    classifier = FewShotClassifier(backbone, adapter_folder, head="prototypes", workers=0).fit(support)

    scores = compare_methods(classifier)

    assert [score.method for score in scores] == [
        "prototypes, adapter (in use)", "prototypes, frozen", "ridge, penalty chosen", "logistic regression",
        "nearest neighbors"
    ]  # fmt: skip
    assert {len(score.right) for score in scores} == {12}
    vectors = classifier.head_.support_ / np.linalg.norm(classifier.head_.support_, axis=1, keepdims=True)
    labels = classifier.head_.support_labels_
    for row in range(12):
        others = np.arange(12) != row
        answer = LogisticRegression(C=100.0, max_iter=1000).fit(vectors[others], labels[others]).predict(vectors[[row]])
        assert scores[3].right[row] == (answer[0] == labels[row])
    assert not all(score.right.all() for score in scores)
    frozen = compare_methods(FewShotClassifier(backbone, workers=0).fit(support))
    assert [score.method for score in frozen][:2] == ["ridge, frozen (in use)", "prototypes of the last class token"]
    np.testing.assert_array_equal(frozen[1].right, scores[1].right)


@pytest.mark.parametrize("limit", [60, 5])
def test_each_image_is_held_out_once_and_single_ones_never(monkeypatch, limit):
    monkeypatch.setattr(leave_one_out, "LEAVE_ONE_OUT_IMAGES", limit)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 3, 3, 3])

    splits = list(held_out_splits(labels, 4))

    assert len(splits) == (9 if limit == 60 else 3)
    assert sorted(np.concatenate([test for _, test in splits])) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    for train, test in splits:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 10
        assert 6 in train


def test_without_anything_to_leave_out_there_is_nothing_to_compare(backbone, support):
    paths = [support / name / "0.png" for name in ("red", "blue")]

    scores = compare_methods(FewShotClassifier(backbone, workers=0).fit(paths, ["red", "blue"]))

    assert [(score.method, score.accuracy.of) for score in scores] == [("ridge, frozen (in use)", 0)]


def test_what_is_clearly_better_is_named_with_its_option():
    used = MethodScore("ridge, frozen (in use)", np.arange(30) < 15)
    better = MethodScore("nearest neighbors", np.arange(30) < 27, "--head knn")
    hardly = MethodScore("logistic regression", np.arange(30) < 17, "--head logistic:C=100")

    (sentence,) = suggestions((used, hardly, better))

    assert "nearest neighbors, 27 of 30 instead of 15" in sentence
    assert sentence.endswith("give classify --head knn.")
    assert "Nothing in the table is clearly better" in suggestions((used, hardly))[0]
    assert suggestions((used,)) == []


def test_more_views_and_other_backbones_are_judged_on_the_same_images(backbone, checkpoint_file, support):
    examples = open_domain(support)
    classifier = FewShotClassifier(backbone, workers=0).fit(examples)
    scores = compare_embeddings(classifier, examples, [str(checkpoint_file)])
    assert [(score.method, score.options) for score in scores] == [
        ("with mirrored views", "--views mirrored"), ("with turned views", "--views turned"),
        (f"on {checkpoint_file}", f"--backbone {checkpoint_file}"),
    ]  # fmt: skip
    turned = load_backbone(checkpoint_file, heads=2, views="turned")
    again = FewShotClassifier(turned, workers=0).fit(examples)
    np.testing.assert_array_equal(scores[1].right, judge_support(again.head_).right)
    assert classifier.backbone_.views == "plain"
    assert [score.method for score in compare_embeddings(again, examples)] == []
