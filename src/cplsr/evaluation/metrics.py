"""What the answers to episodes come to: accuracy, confusion of classes, and calibration, in one pass over the scores.

The confidence of an answer is the highest probability of the softmax over an episode's classes. Answers are sorted into
15 bins of equal width, (0, 1/15] to (14/15, 1]; a well-calibrated classifier is right in a bin as often as it is
confident there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from cplsr.episodes.sampling import Episodes
from cplsr.evaluation.scoring import ScoredEpisodes

BINS = 15
"""Bins of equal width between 0 and 1."""


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """What the answers to all queries came to.

    Attributes:
        accuracies: Share of right answers in each episode, between 0 and 1.
        confusion: Queries of each class (row) by the class they were taken for (column), where they were counted.
        calibration: Answers, confidences and right answers of each bin (see `bin_sums`), where scores are known.
    """

    accuracies: Float64[ndarray, "episodes"]
    confusion: Int64[ndarray, "classes classes"] | None = None
    calibration: Float64[ndarray, "3 bins"] | None = None


def score_episodes(
    parts: Iterable[ScoredEpisodes], episodes: Episodes, classes: int, sharper: float = 1.0
) -> EpisodeScores:
    """Sum up the scores of `episodes`, whose labels are the numbers below `classes`, chunk by chunk.

    Confidences are those of `sharper` times the scores.
    """
    accuracies = np.empty(len(episodes))
    confusion = np.zeros((classes, classes), dtype=np.int64)
    calibration = np.zeros((3, BINS))
    for part in parts:
        numbers = slice(part.first, part.first + len(part.scores))
        truth, predictions = episodes.truth[numbers], part.predictions()
        correct = predictions == truth
        accuracies[numbers] = correct.mean(axis=1)
        confusion += confusion_counts(episodes.classes[numbers], truth, predictions, classes)
        calibration += bin_sums(part.scores if sharper == 1 else sharper * part.scores, correct)
    return EpisodeScores(accuracies, confusion, calibration)


def confusion_counts(
    classes: Int64[ndarray, "episodes way"],
    truth: Int64[ndarray, "episodes queries"],
    predictions: Int64[ndarray, "episodes queries"],
    count: int,
) -> Int64[ndarray, "count count"]:
    """Count how often a query of class i (row) was taken for class j (column), out of `count` classes.

    A query can only be taken for a class of its own episode, so a count of 0 may also mean that the two rarely met.
    `truth` and `predictions` are positions in the episode's `classes`.
    """
    own, predicted = (np.take_along_axis(classes, places, axis=1) for places in (truth, predictions))
    return np.bincount((own * count + predicted).reshape(-1), minlength=count * count).reshape(count, count)


def recall(counts: Int64[ndarray, "classes classes"]) -> Float64[ndarray, "classes"]:
    """Share of each class's queries that were recognized; 0 for a class without queries."""
    asked = counts.sum(axis=1)
    return np.diagonal(counts) / np.maximum(asked, 1)


def bin_sums(
    logits: Float32[ndarray, "episodes way *queries"], correct: Bool[ndarray, "episodes *queries"]
) -> Float64[ndarray, "3 bins"]:
    """For each bin its number of answers, the sum of their confidences, and how many were right.

    Sums of parts of the episodes add up to the sums of all.
    """
    # The highest probability is 1 / Σ exp(z − max z); one class after the other needs no copy of all logits.
    highest = logits.max(axis=1)
    total = np.zeros_like(highest)
    for label in range(logits.shape[1]):
        total += np.exp(logits[:, label] - highest)
    confidence = (1 / total).reshape(-1)
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    weights = (None, confidence, correct.reshape(-1))
    return np.stack([np.bincount(bins, weight, minlength=BINS).astype(np.float64) for weight in weights])


def bin_means(sums: Float64[ndarray, "3 bins"]) -> Float64[ndarray, "occupied 3"]:
    """Mean confidence, accuracy and share of the answers of each bin that has any, least confident first."""
    answers, confidence, right = sums[:, sums[0] > 0]
    return np.stack([confidence / answers, right / answers, answers / sums[0].sum()], axis=1)


def expected_calibration_error(sums: Float64[ndarray, "3 bins"]) -> float:
    """Σ over the bins of share · |accuracy − confidence|, between 0 and 1."""
    confidence, accuracy, share = bin_means(sums).T
    return float((share * np.abs(accuracy - confidence)).sum())
