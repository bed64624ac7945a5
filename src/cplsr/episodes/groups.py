"""Keeping groups of images (a patient's, a lesion's) on one side of the line between support and query."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int32, Int64, UInt32
from numpy import ndarray

from cplsr.episodes.streams import distinct_below


def can_split(groups: Int64[ndarray, "members"], shot: int, query: int) -> bool:
    """Whether some `shot` images of a class leave `query` images or more in groups that they do not touch."""
    totals = 1  # bit t says that some set of groups has t images together
    for size in np.unique(groups, return_counts=True)[1].tolist():
        totals |= totals << size
    fewest = next(t for t in range(shot, len(groups) + 1) if totals >> t & 1)
    return len(groups) - fewest >= query


class GroupedClasses:
    """For each class its images' groups, arranged so that the images of any group are found without a search.

    `images[c]` are the images of class c, `groups` the group of each image as a number.
    """

    def __init__(self, images: list[Int64[ndarray, "_"]], groups: Int64[ndarray, "images"]) -> None:
        self._group_count = int(groups.max()) + 1
        self._members = np.concatenate([groups[members] for members in images])
        self._sizes = np.array([len(members) for members in images], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])[:-1]
        of_class = np.repeat(np.arange(len(images)), self._sizes)
        cells = of_class * self._group_count + self._members
        self._positions = (np.argsort(cells, kind="stable") - self._starts[of_class]).astype(np.int64)
        self._cells = np.sort(cells)

    def draw_queries(
        self,
        classes: Int32[ndarray, "episodes way"],
        support: Int32[ndarray, "shot episodes way"],
        words: UInt32[ndarray, "query columns"],
        counts: Int64[ndarray, "episodes way"],
    ) -> tuple[Int32[ndarray, "query episodes way"], Bool[ndarray, "episodes"]]:
        """Query images from outside all support groups of their episode, and which episodes had enough of them.

        Images are places within their class. The draw is made among the allowed images only, so each choice of
        queries is equally likely. Of each class the first `counts` queries are meant; the others, and episodes that did
        not work out, have no meaning.
        """
        episodes, way = classes.shape
        query = len(words)
        forbidden = self._forbidden(classes, self._members[self._starts[classes] + support])
        allowed = self._sizes[classes].reshape(-1) - (forbidden < self._padding).sum(axis=1)
        worked = allowed >= counts.reshape(-1)
        ranks = distinct_below(words, np.where(worked, allowed, query))
        # A rank among the allowed images becomes a place by stepping over the forbidden places below it, in order.
        for column in range(forbidden.shape[1]):
            ranks += ranks >= forbidden[:, column]
        return ranks.reshape(query, episodes, way), worked.reshape(episodes, way).all(axis=1)

    _padding = np.iinfo(np.int32).max

    def _forbidden(
        self, classes: Int32[ndarray, "episodes way"], groups: Int64[ndarray, "shot episodes way"]
    ) -> Int32[ndarray, "rows most"]:
        """For each class of each episode, the places of its images in any support group: ascending, then padding."""
        episodes, way = classes.shape
        touched = np.sort(groups.transpose(1, 0, 2).reshape(episodes, -1), axis=1)
        first_of_kind = np.ones(touched.shape, dtype=bool)
        first_of_kind[:, 1:] = touched[:, 1:] != touched[:, :-1]

        cells = classes[:, :, None] * np.int64(self._group_count) + touched[:, None, :]  # (episodes, way, groups)
        begin = np.searchsorted(self._cells, cells, side="left")
        end = np.searchsorted(self._cells, cells, side="right")
        lengths = np.where(first_of_kind[:, None, :], end - begin, 0).reshape(episodes * way, -1)

        row_lengths = lengths.sum(axis=1)
        flat_lengths = lengths.reshape(-1)
        within = np.arange(flat_lengths.sum()) - np.repeat(np.cumsum(flat_lengths) - flat_lengths, flat_lengths)
        rows = np.repeat(np.arange(episodes * way), row_lengths)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(row_lengths) - row_lengths, row_lengths)
        table = np.full((episodes * way, int(row_lengths.max(initial=0))), self._padding, dtype=np.int32)
        table[rows, columns] = self._positions[np.repeat(begin.reshape(-1), flat_lengths) + within]
        return np.sort(table, axis=1)
