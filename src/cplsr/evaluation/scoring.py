"""Scores of thousands of episodes over one matrix of embeddings, by any head, chunk by chunk.

Nothing adapts on a target domain, so an episode is index arithmetic. Scores need only inner products of pairs of
images: where the target is small enough, all of them are computed once and looked up. Else embeddings are gathered; for
prototypes that is bound by memory, not by arithmetic, so they are left as they are (what the cosine divides by comes
after the product), and what is gathered at a time stays in the processor's second-level cache. Threads work on chunks
of their own without waiting for each other.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from numpy import ndarray
from torch import Tensor

from cplsr.episodes.heads import Head, ProductHead, Products, Task
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.prototypes import TEMPERATURE
from cplsr.episodes.sampling import Episodes
from cplsr.errors import InputError

EPISODES_PER_CHUNK = 250
"""Most episodes whose scores are handed out together, the unit of work of a thread."""

PROTOTYPES_TIMES = 5
"""So many times as many of prototypes, which cost so little that threads would wait for the interpreter as long as they
compute."""

CHUNK_BYTES = 1 << 25
"""Most that a chunk gathers or looks up, in float32."""

GATHERED_BYTES = 1 << 19
"""What is gathered or looked up at a time for prototypes."""

GRAM_BYTES = 1 << 29
"""Most memory that the products of all pairs of images may take: those of 11,585 images."""

GATHERING, LOOKING_UP, SMALL_PRODUCT = 18.0, 250.0, 2.5
"""What it costs to gather a number of an embedding, to look up a product, and to multiply in the small products of an
episode, in multiplications of a large matrix product; measured on an AMD EPYC (Zen 3)."""

CLOSE = 1e-5
"""Cosines that differ by less may be told apart otherwise when rounded otherwise: episodes that have any are gathered,
so that an accuracy does not depend on how the scores were computed."""

CACHE_LINE_BYTES = 64

Result = TypeVar("Result")


@final
@dataclass(frozen=True, eq=False)
class ScoredEpisodes:
    """Scores of episodes `first`, `first + 1`, ...: class c's score of query q at [e, c, q]."""

    first: int
    scores: Float32[ndarray, "episodes way queries"]

    def predictions(self) -> Int64[ndarray, "episodes queries"]:
        """Find the position of the highest score, the first of equals."""
        highest = self.scores[:, 0].copy()
        labels = np.zeros(highest.shape, dtype=np.int64)
        for label in range(1, self.scores.shape[1]):
            np.maximum(labels, (self.scores[:, label] > highest) * label, out=labels)  # a masked copy takes much longer
            np.maximum(highest, self.scores[:, label], out=highest)
        return labels


@final
class Scoring:
    """Answers episodes over a matrix of embeddings; what it computed for one head or shot it keeps for the next."""

    def __init__(self, vectors: Float32[ndarray, "images dim"]) -> None:
        self._vectors = np.ascontiguousarray(vectors)
        self._flat_gram = np.empty(0, dtype=np.float32)  # products of all pairs of images, once they were computed

    def scores(
        self, episodes: Episodes, head: Head | None = None, *, threads: int | None = None, by_length: bool = True
    ) -> Iterator[ScoredEpisodes]:
        """Scores by a head, the paper's if none is given, a chunk of episodes after the other.

        At most two chunks per thread are held at a time, so memory does not grow with the number of episodes. Without
        `by_length` the scores of prototypes lack the query's length, which decides nothing.
        """
        head = head or Prototypes()
        _check_indices(episodes, len(self._vectors))
        if isinstance(head, ProductHead) and not len(self._flat_gram) and self._gram_pays(episodes, head):
            self._flat_gram = (self._vectors @ self._vectors.T).reshape(-1)
        score: Callable[[Episodes, Any], ndarray] = self._gathered
        if isinstance(head, Prototypes):
            score = self._prototype_scores
        elif isinstance(head, ProductHead) and len(self._flat_gram):
            score = self._looked_up
        columns = self._vectors.shape[1] if score == self._gathered else _columns(episodes, head)
        threads = threads or os.cpu_count() or 1
        most = EPISODES_PER_CHUNK
        if isinstance(head, Prototypes):  # the scores of some others depend on the chunk in their last bits
            most = min(PROTOTYPES_TIMES * most, math.ceil(len(episodes) / threads))
        step = max(1, min(most, CHUNK_BYTES // (4 * _images(episodes) * columns)))

        def chunk(first: int) -> ScoredEpisodes:
            part = episodes[first : first + step]
            scores = score(part, head)
            if by_length and isinstance(head, Prototypes):
                scores *= self._query_factors[part.asked][:, None]
            return ScoredEpisodes(first, scores)

        return _in_order(chunk, range(0, len(episodes), step), threads)

    def accuracies(
        self, episodes: Episodes, head: Head | None = None, *, threads: int | None = None
    ) -> Float64[ndarray, "episodes"]:
        """Share of right answers in each episode, between 0 and 1."""
        shares = np.empty(len(episodes))
        for part in self.scores(episodes, head, threads=threads, by_length=False):
            numbers = slice(part.first, part.first + len(part.scores))
            shares[numbers] = (part.predictions() == episodes.truth[numbers]).mean(axis=1)
        return shares

    def _gram_pays(self, episodes: Episodes, head: ProductHead) -> bool:
        """Whether computing the products of all pairs, one half of the matrix, and looking them up costs less."""
        images, dim = self._vectors.shape
        pairs = small = _images(episodes) * _columns(episodes, head)
        if isinstance(head, Prototypes):  # products within a class and of its sum with the queries
            pairs = episodes.way * episodes.shot * (episodes.shot + episodes.asked.shape[1])
            small = episodes.way * episodes.asked.shape[1]
        gathering = len(episodes) * dim * (GATHERING * _images(episodes) + SMALL_PRODUCT * small)
        looking_up = images**2 / 2 * dim + len(episodes) * LOOKING_UP * pairs
        return 4 * images**2 <= GRAM_BYTES and looking_up < gathering

    @cached_property
    def _inverse_lengths(self) -> Float32[ndarray, "images"]:
        """1 / ‖v‖ of every image, and 0 for the zero vector."""
        lengths = np.sqrt(np.vecdot(self._vectors, self._vectors))
        return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    @cached_property
    def _query_factors(self) -> Float32[ndarray, "images"]:
        return np.float32(TEMPERATURE) * self._inverse_lengths

    def _looked_up(self, episodes: Episodes, head: ProductHead) -> Float32[ndarray, "episodes way queries"]:
        """Scores from the products of all pairs of images."""
        support = episodes.support.reshape(len(episodes), -1)
        images = np.concatenate([support, episodes.asked], axis=1)
        columns = images if head.together else support
        inner, squares = (
            torch.from_numpy(products).double()
            for products in (self._products(columns[:, :, None], images[:, None]), self._products(images, images))
        )
        products = Products(inner.transpose(1, 2), squares, _labels(episodes), episodes.way, self._vectors.shape[1])
        return _class_first(head.from_products(products))

    def _products(self, rows: Int64[ndarray, "..."], columns: Int64[ndarray, "..."]) -> Float32[ndarray, "..."]:
        # Products of a row lie together: the fewer images should be the rows. torch takes half of numpy's time.
        places = rows.astype(np.int32) * np.int32(len(self._vectors)) + columns.astype(np.int32)
        chosen = torch.from_numpy(self._flat_gram).index_select(0, torch.from_numpy(places.reshape(-1)))
        return chosen.numpy().reshape(places.shape)

    def _gathered(self, episodes: Episodes, head: Head) -> Float32[ndarray, "episodes way queries"]:
        """Scores from the embeddings themselves."""
        table = torch.from_numpy(self._vectors)
        support, queries = (
            table[torch.from_numpy(images.reshape(len(episodes), -1))] for images in (episodes.support, episodes.asked)
        )
        task = Task(support, _labels(episodes), queries, episodes.way)
        if isinstance(head, ProductHead):
            return _class_first(head.from_products(Products.of(task, together=head.together).double()))
        return _class_first(head.answer(task))

    def _prototype_scores(self, episodes: Episodes, head: Prototypes) -> Float32[ndarray, "episodes way queries"]:
        """The query's length times cos(query, prototype); looked up or gathered, the answers are the same."""
        if not len(self._flat_gram):
            return self._cosines(episodes, head, self._sums_gathered)
        scores = self._cosines(episodes, head, self._sums_looked_up)
        close: ndarray = np.any(_margins(scores) * self._inverse_lengths[episodes.asked] < CLOSE, axis=1)
        scores[close] = self._cosines(episodes[close], head, self._sums_gathered)
        return scores

    def _cosines(
        self, episodes: Episodes, head: Prototypes, sums: Callable[..., tuple[ndarray, ndarray]]
    ) -> Float32[ndarray, "episodes way queries"]:
        """Products first, then the lengths of the prototypes, which the cosine divides by."""
        weights = self._inverse_lengths[episodes.support] if head.kind == "mean_of_normalized" else None
        scores, lengths = sums(episodes, weights)
        scores *= np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)[:, :, None]
        return scores

    def _sums_looked_up(
        self, episodes: Episodes, weights: Float32[ndarray, "episodes way shot"] | None
    ) -> tuple[Float32[ndarray, "episodes way queries"], Float32[ndarray, "episodes way"]]:
        """Products of the queries with the sums of each class's support images, and the lengths of these sums."""
        support = episodes.support[..., None]
        among = self._products(support, episodes.support[..., None, :])
        chosen = self._products(support, episodes.asked[:, None, None])
        if weights is not None:
            among *= weights[..., None] * weights[..., None, :]
            chosen *= weights[..., None]
        return chosen.sum(axis=2), np.sqrt(among.sum(axis=(2, 3)).clip(min=0))

    def _sums_gathered(
        self, episodes: Episodes, weights: Float32[ndarray, "episodes way shot"] | None
    ) -> tuple[Float32[ndarray, "episodes way queries"], Float32[ndarray, "episodes way"]]:
        """The same from the embeddings themselves."""
        asked, dim = episodes.asked, self._vectors.shape[1]
        sums = self._class_sums(episodes.support, weights)
        scores = np.empty((*sums.shape[:2], asked.shape[1]), dtype=np.float32)
        step = _episodes_at_a_time(asked.shape[1] * dim)
        rows = _scratch(min(step, len(sums)), asked.shape[1], dim)
        for begin in range(0, len(sums), step):
            part = slice(begin, min(begin + step, len(sums)))
            queries = rows[: part.stop - begin]
            self._gather(asked[part], queries)
            np.matmul(sums[part], queries.transpose(0, 2, 1), out=scores[part])
        return scores, np.sqrt(np.vecdot(sums, sums))

    def _class_sums(
        self,
        support: Int64[ndarray, "episodes way shot"],
        weights: Float32[ndarray, "episodes way shot"] | None,
    ) -> Float32[ndarray, "episodes way dim"]:
        """Prototypes times the shot: cosines do not see their lengths, nor that of a lone support image."""
        count, way, shot = support.shape
        dim = self._vectors.shape[1]
        sums = _scratch(count, way, dim)
        if shot == 1:
            self._gather(support[:, :, 0], sums)
            return sums
        step = _episodes_at_a_time(way * shot * dim)
        rows = _scratch(min(step, count), way, shot, dim)
        for begin in range(0, count, step):
            part = support[begin : begin + step]
            images = rows[: len(part)]
            self._gather(part, images)
            if weights is not None:
                images *= weights[begin : begin + step][..., None]
            images.sum(axis=2, out=sums[begin : begin + step])
        return sums

    def _gather(self, images: Int64[ndarray, "..."], out: Float32[ndarray, "... dim"]) -> None:
        # Indices were checked, so nothing is clipped; only then does numpy write to `out` without a copy.
        self._vectors.take(images, axis=0, out=out, mode="clip")


def _margins(scores: Float32[ndarray, "episodes way queries"]) -> Float32[ndarray, "episodes queries"]:
    """By how much the highest score of each query exceeds the second highest."""
    highest, second = scores[:, 0].copy(), np.full_like(scores[:, 0], -np.inf)
    for place in range(1, scores.shape[1]):
        np.maximum(second, np.minimum(highest, scores[:, place]), out=second)
        np.maximum(highest, scores[:, place], out=highest)
    return highest - second


def _images(episodes: Episodes) -> int:
    """Support and query images of an episode."""
    return episodes.way * episodes.shot + episodes.asked.shape[1]


def _columns(episodes: Episodes, head: Head) -> int:
    """Images whose products with all images of an episode a head needs."""
    return _images(episodes) if head.together else episodes.way * episodes.shot


def _labels(episodes: Episodes) -> Tensor:
    return torch.arange(episodes.way).repeat_interleave(episodes.shot)


def _class_first(scores: Float[Tensor, "episodes queries way"]) -> Float32[ndarray, "episodes way queries"]:
    return scores.transpose(1, 2).contiguous().float().numpy()


def _scratch(*shape: int) -> Float32[ndarray, "..."]:
    """Memory to gather into that begins at a cache line; numpy's own often does not, which costs some 8 %."""
    numbers = math.prod(shape)
    room = np.empty(numbers + CACHE_LINE_BYTES // 4, dtype=np.float32)
    start = -room.ctypes.data % CACHE_LINE_BYTES // 4
    return room[start : start + numbers].reshape(shape)


def _episodes_at_a_time(numbers: int) -> int:
    """How many episodes are gathered or looked up at once, where one episode has this many numbers."""
    return max(1, GATHERED_BYTES // (4 * numbers))


def _in_order(chunk: Callable[[int], Result], firsts: range, threads: int) -> Iterator[Result]:
    threads = min(threads, max(1, len(firsts)))
    torch_threads = torch.get_num_threads()
    waiting: deque[Future[Result]] = deque()
    # The products are too small to split; without the limits BLAS and torch would start threads in each of ours.
    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        torch.set_num_threads(1)
        try:
            if threads == 1:
                yield from map(chunk, firsts)
                return
            for first in firsts:
                waiting.append(pool.submit(chunk, first))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            torch.set_num_threads(torch_threads)
            for future in waiting:
                future.cancel()


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def _check_indices(episodes: Episodes, images: int) -> None:
    highest = max(int(episodes.support.max(initial=-1)), int(episodes.query.max(initial=-1)))
    lowest = min(int(episodes.support.min(initial=0)), int(episodes.query.min(initial=0)))
    if lowest < 0 or highest >= images:
        raise InputError(
            f"the episodes hold images {lowest} to {highest}, but {images} embeddings were given: "
            "draw the episodes from the labels of these embeddings"
        )
