"""Prototypes beside the usual classifiers on the same embeddings, each support image predicted without itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from cplsr.classifier.leave_one_out import judgeable
from cplsr.classifier.prototype_classifier import PrototypeClassifier
from cplsr.classifier.support_report import Share, judge_support
from cplsr.episodes.prototypes import unit

if TYPE_CHECKING:
    from cplsr.classifier.few_shot_classifier import FewShotClassifier

LEAVE_ONE_OUT_IMAGES = 60
"""Up to so many images are left out one by one; refitting for each of thousands would take hours, so folds follow."""
FOLDS = 10
LEFT_OUT = "each image left out in turn"
NEIGHBORS = 5


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How well one way to classify recognizes support images that it has not learned.

    Attributes:
        method: Its name.
        right: For each image whose class has another one, whether it was recognized; the same images for all methods.
        how: How the images were left out, in words.
    """

    method: str
    right: Bool[ndarray, "images"]
    how: str

    @property
    def accuracy(self) -> Share:
        """How many images were recognized, of those that could be left out."""
        return Share(int(self.right.sum()), len(self.right))


def compare_methods(classifier: FewShotClassifier) -> tuple[MethodScore, ...]:
    """Score prototypes on the frozen backbone and with the adapter, then logistic regression and nearest neighbors.

    The last two see the embeddings that the classifier itself uses, scaled to length one.
    """
    head, frozen = classifier.head_, classifier.frozen_head()
    scores = []
    if frozen is not None:
        scores.append(MethodScore("prototypes, frozen", judge_support(frozen).right, LEFT_OUT))
    own = "prototypes, adapter" if classifier.adapter_kind_ else "prototypes, frozen"
    scores.append(MethodScore(own, judge_support(head).right, LEFT_OUT))
    if len(head.classes_) > 1 and len(scores[0].right):
        scores.extend(_peers(head))
    return tuple(scores)


def _peers(head: PrototypeClassifier) -> list[MethodScore]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    vectors, labels = unit(head.support_), head.support_labels_
    splits = list(held_out_splits(labels, len(head.classes_)))
    rows = judgeable(labels, len(head.classes_))
    how = LEFT_OUT if len(splits) == len(rows) else f"{len(splits)} stratified folds"
    neighbors = min(NEIGHBORS, *(len(train) for train, _ in splits))
    methods: dict[str, Any] = {
        # Vectors of length one differ little, so the usual C=1 would hardly fit them at all.
        "logistic regression": LogisticRegression(C=100.0, max_iter=1000),
        f"{neighbors} nearest neighbors": KNeighborsClassifier(neighbors, weights="distance", metric="cosine"),
    }
    return [MethodScore(name, _held_out_right(model, vectors, labels, splits), how) for name, model in methods.items()]


def held_out_splits(
    labels: Int64[ndarray, "images"], classes: int
) -> Iterator[tuple[Int64[ndarray, "train"], Int64[ndarray, "test"]]]:
    """Split the support images so that each whose class has another one is held out once.

    Where there are few, each is held out alone, else in stratified folds. The only image of a class is always in
    training: without it the class would not exist.

    Yields:
        Positions of the images to train on, and of those held out.
    """
    from sklearn.model_selection import LeaveOneOut, StratifiedKFold

    rows = judgeable(labels, classes)
    single = np.setdiff1d(np.arange(len(labels)), rows)
    if len(rows) <= LEAVE_ONE_OUT_IMAGES:
        folds = LeaveOneOut().split(rows)
    else:
        smallest = int(np.bincount(labels[rows], minlength=classes)[np.unique(labels[rows])].min())
        folds = StratifiedKFold(min(FOLDS, smallest), shuffle=True, random_state=0).split(rows, labels[rows])
    for train, test in folds:
        yield np.concatenate((rows[train], single)), rows[test]


def _held_out_right(
    model: Any, vectors: ndarray, labels: ndarray, splits: list[tuple[ndarray, ndarray]]
) -> Bool[ndarray, "images"]:
    from sklearn.base import clone

    right = np.zeros(len(labels), dtype=bool)
    held_out = np.zeros(len(labels), dtype=bool)
    for train, test in splits:
        right[test] = clone(model).fit(vectors[train], labels[train]).predict(vectors[test]) == labels[test]
        held_out[test] = True
    return right[held_out]
