"""Which classes are taken for which: counts over all queries of all episodes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray


def confusion_counts(
    classes: Int64[ndarray, "episodes way"], predictions: Int64[ndarray, "episodes way query"], count: int
) -> Int64[ndarray, "count count"]:
    """How often a query of class i (row) was taken for class j (column), out of `count` classes.

    classes: the class at each place of an episode.
    predictions: the place that each query was given, queries standing by their true place.

    A query can only be taken for a class of its own episode, so a count of 0 may also mean that the two rarely met.
    """
    predicted = classes[np.arange(len(classes))[:, None, None], predictions]
    pairs = classes[:, :, None] * count + predicted
    return np.bincount(pairs.reshape(-1), minlength=count * count).reshape(count, count)


def recall(counts: Int64[ndarray, "classes classes"]) -> Float64[ndarray, "classes"]:
    """Share of each class's queries that were recognized; 0 for a class without queries."""
    asked = counts.sum(axis=1)
    return np.diagonal(counts) / np.maximum(asked, 1)
