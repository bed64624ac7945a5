"""What accuracy to expect on new pictures, from the support set alone, with an interval that means what it says.

Leaving out one picture at a time is not enough: its class alone loses an example and the others win, and even if all
classes lose one, a classifier that learned from n − 1 examples per class is judged, not the one that learned from n.
So pictures of every class are held out at once, the classifier is fitted again without them, and the accuracy found is
carried from the smaller training sets to the whole one along a learning curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from scipy.special import ndtr

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.leave_one_out import judgeable
from cplsr.evaluation.intervals import wilson_interval

FITS = 12
"""About so many times the classifier is fitted again."""
MOST_FOLDS = 10
CHOSEN_AGAIN = 60
"""Up to so many images the head chooses its reading anew in every fit; of more, its choice hardly depends on a few."""
FITTED_IMAGES = 10_000
"""Where there are more than a thousand images, fits are spared so that all of them together see about so many."""

GROWTH = 3.0
"""The k of the learning curve d(m) ∝ 1 / √(1 + k/m); found on validation domains, see `benchmarks/estimates.py`."""
SPREAD = 0.6
"""The squared error of the estimate is 1 + s/n times the variance of a counted share: the examples that were drawn
matter too, the more the fewer they are. s was found on the same domains."""

_SIGNALS = np.linspace(-3.0, 9.0, 1201)


@dataclass(frozen=True)
class Expectation:
    """The accuracy to expect on new pictures of the same kind, 0 to 1, and the ends of its 95 % interval.

    Classes are taken to be as frequent as among the support images.
    """

    accuracy: float
    low: float
    high: float

    def sentence(self) -> str:
        """Say in plain words what it means."""
        low, high = int(100 * self.low), int(np.ceil(100 * self.high))
        return (
            f"Of 100 new pictures like these, expect {low} to {high} to be labeled correctly "
            f"(best guess {100 * self.accuracy:.0f})."
        )


def expected_accuracy(head: EmbeddingClassifier) -> Expectation | None:
    """Estimate the accuracy of a fitted classifier on new pictures; `None` if no class has two images."""
    labels, classes = head.support_labels_, int((head.counts_ > 0).sum())
    if len(judgeable(labels, len(head.classes_))) == 0:
        return None
    parts = [*held_out_parts(labels, len(head.classes_))]
    rows = np.concatenate([test for _, test in parts])
    right = [_fitted_again(head, train).predict(head.support_[test]) == labels[test] for train, test in parts]
    trained_on = [np.bincount(labels[train], minlength=len(head.classes_))[labels[test]] for train, test in parts]
    fewer, whole = (float((1 / counts).mean()) for counts in (np.concatenate(trained_on), head.counts_[labels[rows]]))
    share = float(np.concatenate(right).mean())
    low, high = wilson_interval(share, len(np.unique(rows)) / (1 + SPREAD * whole))
    return Expectation(*(grown(value, classes, fewer, whole) for value in (share, low, high)))


def held_out_parts(
    labels: Int64[ndarray, "images"], classes: int
) -> Iterator[tuple[Int64[ndarray, "train"], Int64[ndarray, "test"]]]:
    """Split the images several times so that about as many of every class are held out, and some of each are left.

    With n images of each class, at most ten, one of each is held out; with more, a tenth. The only image of a class is
    never held out.
    """
    counts = np.bincount(labels, minlength=classes)
    folds = int(np.clip(np.median(counts[counts > 1]), 2, MOST_FOLDS))
    fits = min(folds * max(1, round(FITS / folds)), max(1, FITTED_IMAGES // len(labels)))
    generator = np.random.default_rng(0)
    for fit in range(fits):
        if fit % folds == 0:
            fold = _dealt(labels, counts, folds, generator)
        held = fold == fit % folds
        if held.any():
            yield np.flatnonzero(~held), np.flatnonzero(held)


def _dealt(
    labels: Int64[ndarray, "images"], counts: Int64[ndarray, "classes"], folds: int, generator: np.random.Generator
) -> Int64[ndarray, "images"]:
    """The fold of each image, those of a class dealt out in random order; −1 where a class has no other image."""
    order = np.lexsort((generator.random(len(labels)), labels))
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels[order]]
    start = generator.integers(folds, size=len(counts))
    return np.where(counts[labels] > 1, (place + start[labels]) % folds, -1)


def _fitted_again(head: EmbeddingClassifier, train: Int64[ndarray, "train"]) -> EmbeddingClassifier:
    """The same classifier, fitted to some of its images; temperatures do not change answers, so none is sought."""
    again = len(head.support_) <= CHOSEN_AGAIN
    chosen, decay = (head.head, head.decay) if again else (head.choice_.head, head.choice_.reading)
    return EmbeddingClassifier(chosen, 1.0, head.parts, decay).fit(head.support_[train], head.support_labels_[train])


def grown(accuracy: float, classes: int, fewer: float, whole: float) -> float:
    """Carry an accuracy from smaller training sets to the whole one.

    The scores of an image are taken for normal variables of variance one, that of its own class larger by d. A class
    mean of m examples carries the variance between pictures, divided by m, so d(m) ∝ 1 / √(1 + k/m). `fewer` and
    `whole` are one over the number of examples per class, in the smaller sets and in the whole one.
    """
    accuracies = _accuracies(classes)
    signal = np.interp(accuracy, accuracies, _SIGNALS) * np.sqrt((1 + GROWTH * fewer) / (1 + GROWTH * whole))
    # Where nothing or everything is right the signal has no end, but the table has.
    return accuracy if accuracy in (0.0, 1.0) else float(np.interp(signal, _SIGNALS, accuracies))


@cache
def _accuracies(classes: int) -> Float64[ndarray, "signals"]:
    """How often a normal variable with mean d is larger than `classes` − 1 with mean 0, for each d of the table."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(81)
    return ndtr(nodes + _SIGNALS[:, None]) ** (classes - 1) @ (weights / weights.sum())
