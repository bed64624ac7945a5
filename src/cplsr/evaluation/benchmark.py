"""Thousands of episodes over one matrix of embeddings: gathers and small matrix products, chunk by chunk.

Nothing adapts on a target domain, so an episode is index arithmetic. The work is bound by memory, not by arithmetic:
embeddings are left as they are (what the cosine divides by comes after the product, on a number per query and class
instead of one per dimension), what a chunk needs stays in the processor's second-level cache, and threads work on
chunks of their own without waiting for each other.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from cplsr.episodes.prototypes import TEMPERATURE
from cplsr.episodes.sampling import Episodes
from cplsr.errors import InputError
from cplsr.settings.episodes import PrototypeKind

EPISODES_PER_CHUNK = 250
"""Episodes whose logits are handed out together, and the unit of work of a thread."""

GATHERED_BYTES = 1 << 19
"""Embeddings gathered at a time."""

CACHE_LINE_BYTES = 64

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class EpisodeLogits:
    """Logits of episodes `first`, `first + 1`, ...: class c's score of query q of the true class t at [e, c, t, q]."""

    first: int
    logits: Float32[ndarray, "episodes way way query"]

    def predictions(self) -> Int64[ndarray, "episodes way query"]:
        """Place of the highest score, the first of equals."""
        highest = self.logits[:, 0].copy()
        places = np.zeros(highest.shape, dtype=np.int64)
        for place in range(1, self.logits.shape[1]):
            np.copyto(places, place, where=self.logits[:, place] > highest)
            np.maximum(highest, self.logits[:, place], out=highest)
        return places

    def correct(self) -> Bool[ndarray, "episodes way query"]:
        """Whether the highest score, the first of equals, is that of the true class."""
        return _true_class_wins(self.logits)


def episode_logits(
    vectors: Float32[ndarray, "images dim"],
    episodes: Episodes,
    *,
    temperature: float = TEMPERATURE,
    prototype: PrototypeKind = "mean",
    threads: int | None = None,
) -> Iterator[EpisodeLogits]:
    """`temperature` · cos(query, prototype) of every episode, a chunk of episodes after the other.

    At most two chunks per thread are held at a time, so memory does not grow with the number of episodes.
    """
    scores = _Scores(vectors, episodes, prototype)
    query_factors = np.float32(temperature) * _inverse_lengths(scores.vectors)

    def chunk(first: int) -> EpisodeLogits:
        logits = scores(first)
        logits *= query_factors[episodes.query[first : first + len(logits)]][:, None]
        return EpisodeLogits(first, logits)

    yield from _in_order(chunk, range(0, len(episodes), EPISODES_PER_CHUNK), threads)


def episode_accuracies(
    vectors: Float32[ndarray, "images dim"],
    episodes: Episodes,
    *,
    prototype: PrototypeKind = "mean",
    threads: int | None = None,
) -> Float64[ndarray, "episodes"]:
    """Share of right answers in each episode, between 0 and 1."""
    scores = _Scores(vectors, episodes, prototype)

    def chunk(first: int) -> Float64[ndarray, "chunk"]:
        return _true_class_wins(scores(first)).mean(axis=(1, 2))

    parts = _in_order(chunk, range(0, len(episodes), EPISODES_PER_CHUNK), threads)
    return np.concatenate([np.empty(0), *parts])


class _Scores:
    """Turns the number of a chunk's first episode into <query, prototype> / ‖prototype‖ of the chunk.

    The cosine's other divisor, the query's length, is the same for all classes and thus no part of who wins.
    """

    def __init__(self, vectors: Float32[ndarray, "images dim"], episodes: Episodes, prototype: PrototypeKind) -> None:
        _check_indices(episodes, len(vectors))
        self.vectors = np.ascontiguousarray(vectors)
        self._episodes = episodes
        # A lone support image is its prototype's direction whatever its length.
        weighted = prototype == "mean_of_normalized" and episodes.shot > 1
        self._support_weights = _inverse_lengths(self.vectors) if weighted else None

    def __call__(self, first: int) -> Float32[ndarray, "chunk way way query"]:
        episodes = self._episodes[first : first + EPISODES_PER_CHUNK]
        count, way, query = episodes.query.shape
        dim = self.vectors.shape[1]
        prototypes = self._prototypes(episodes.support)
        scores = np.empty((count, way, way * query), dtype=np.float32)
        step = _episodes_at_a_time(way * query * dim)
        rows = _scratch(min(step, count), way * query, dim)
        for begin in range(0, count, step):
            part = slice(begin, min(begin + step, count))
            queries = rows[: part.stop - begin]
            self._gather(episodes.query[part].reshape(len(queries), -1), queries)
            np.matmul(prototypes[part], queries.transpose(0, 2, 1), out=scores[part])
        scores *= _inverse_lengths(prototypes)[:, :, None]
        return scores.reshape(count, way, way, query)

    def _prototypes(self, support: Int64[ndarray, "episodes way shot"]) -> Float32[ndarray, "episodes way dim"]:
        """Prototypes times the shot: sums, as their lengths do not matter."""
        count, way, shot = support.shape
        dim = self.vectors.shape[1]
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
            if self._support_weights is not None:
                images *= self._support_weights[part][..., None]
            images.sum(axis=2, out=sums[begin : begin + step])
        return sums

    def _gather(self, images: Int64[ndarray, "..."], out: Float32[ndarray, "... dim"]) -> None:
        # Indices were checked, so nothing is clipped; only then does numpy write to `out` without a copy.
        self.vectors.take(images, axis=0, out=out, mode="clip")


def _true_class_wins(scores: Float32[ndarray, "episodes way way query"]) -> Bool[ndarray, "episodes way query"]:
    """Whether the true class has the highest score and no class before it has the same."""
    way = scores.shape[1]
    highest = scores.max(axis=1)
    wins = np.einsum("ettq->etq", scores) == highest
    for place in range(way - 1):
        wins[:, place + 1 :] &= scores[:, place, place + 1 :] != highest[:, place + 1 :]
    return wins


def _inverse_lengths(vectors: Float32[ndarray, "*batch dim"]) -> Float32[ndarray, "*batch"]:
    """1 / ‖v‖, and 0 for the zero vector."""
    lengths = np.sqrt(np.vecdot(vectors, vectors))
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _scratch(*shape: int) -> Float32[ndarray, "..."]:
    """Memory to gather into that begins at a cache line; numpy's own often does not, which costs some 8 %."""
    numbers = math.prod(shape)
    room = np.empty(numbers + CACHE_LINE_BYTES // 4, dtype=np.float32)
    start = -room.ctypes.data % CACHE_LINE_BYTES // 4
    return room[start : start + numbers].reshape(shape)


def _episodes_at_a_time(numbers: int) -> int:
    """How many episodes' embeddings are gathered at once, where one episode has this many numbers."""
    return max(1, GATHERED_BYTES // (4 * numbers))


def _in_order(chunk: Callable[[int], Result], firsts: range, threads: int | None) -> Iterator[Result]:
    threads = min(threads or os.cpu_count() or 1, max(1, len(firsts)))
    # The products are too small to split; without the limit BLAS would start threads of its own in each of ours.
    with _blas().limit(limits=1, user_api="blas"):
        if threads == 1:
            yield from map(chunk, firsts)
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for first in firsts:
                    waiting.append(pool.submit(chunk, first))
                    if len(waiting) >= 2 * threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
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
