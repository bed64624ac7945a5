"""Which classes are taken for which: counts over all queries of all episodes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray


def confusion_counts(
    classes: Int64[ndarray, "episodes way"],
    truth: Int64[ndarray, "episodes queries"],
    predictions: Int64[ndarray, "episodes queries"],
    count: int,
) -> Int64[ndarray, "count count"]:
    """Count how often a query of class i (row) was taken for class j (column), out of `count` classes.

    A query can only be taken for a class of its own episode, so a count of 0 may also mean that the two rarely met.

    Args:
        classes: The class at each position of an episode.
        truth: The position of each query's own class.
        predictions: The position of the class it was taken for.
        count: The number of classes.
    """
    own, predicted = (np.take_along_axis(classes, places, axis=1) for places in (truth, predictions))
    return np.bincount((own * count + predicted).reshape(-1), minlength=count * count).reshape(count, count)


def recall(counts: Int64[ndarray, "classes classes"]) -> Float64[ndarray, "classes"]:
    """Share of each class's queries that were recognized; 0 for a class without queries."""
    asked = counts.sum(axis=1)
    return np.diagonal(counts) / np.maximum(asked, 1)
