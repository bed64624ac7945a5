"""Whether a confidence means what it says: the expected calibration error and its bins.

The confidence of an answer is the highest probability of the softmax over an episode's classes. Answers are sorted into
15 bins of equal width, (0, 1/15] to (14/15, 1]; a well-calibrated classifier is right in a bin as often as it is
confident there.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, Float64
from numpy import ndarray

BINS = 15
"""Bins of equal width between 0 and 1."""


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
