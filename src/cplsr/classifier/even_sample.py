"""Some of many images, spread evenly, where all of them would take too long."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64
from numpy import ndarray


def even_rows(count: int, most: int) -> Int64[ndarray, "some"]:
    """Positions of `count` images, or of `most` among them at equal distances."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def even_rows_by_class(labels: Int64[ndarray, "images"], most: int) -> Int64[ndarray, "some"]:
    """Positions of the images, or of the first of every class so that there are at most `most` (two each at least)."""
    if len(labels) <= most:
        return np.arange(len(labels))
    each = max(2, most // (int(labels.max()) + 1))
    order = np.argsort(labels, kind="stable")
    number = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])  # within its class
    return np.sort(order[number < each])
