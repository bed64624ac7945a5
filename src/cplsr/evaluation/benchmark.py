"""Thousands of episodes over one matrix of embeddings: gathers and small matrix products, chunk by chunk.

Nothing adapts on a target domain, so an episode is index arithmetic. The work is bound by memory, not by arithmetic:
embeddings are left as they are (the cosine's division by the query's length comes after the product), a chunk's
query rows fit into the processor's second-level cache, and threads work on chunks of their own without waiting for
each other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from cplsr.episodes.prototypes import TEMPERATURE, PrototypeKind
from cplsr.episodes.sampling import Episodes
from cplsr.errors import InputError

EPISODES_PER_CHUNK = 250
"""Episodes whose logits are handed out together, and the unit of work of a thread."""

GATHERED_BYTES = 1 << 19
"""Embeddings gathered at a time."""


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
        """Whether the highest score is that of the true class."""
        return self.predictions() == np.arange(self.logits.shape[1])[:, None]


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
    scorer = _Scorer(vectors, episodes, temperature, prototype)
    yield from _in_order(scorer, range(0, len(episodes), EPISODES_PER_CHUNK), threads)


def episode_accuracies(
    vectors: Float32[ndarray, "images dim"],
    episodes: Episodes,
    *,
    prototype: PrototypeKind = "mean",
    threads: int | None = None,
) -> Float64[ndarray, "episodes"]:
    """Share of right answers in each episode, between 0 and 1."""
    accuracies = np.empty(len(episodes))
    for part in episode_logits(vectors, episodes, prototype=prototype, threads=threads):
        accuracies[part.first : part.first + len(part.logits)] = part.correct().mean(axis=(1, 2))
    return accuracies


class _Scorer:
    """Turns the number of a chunk's first episode into the chunk's logits."""

    def __init__(
        self, vectors: Float32[ndarray, "images dim"], episodes: Episodes, temperature: float, prototype: PrototypeKind
    ) -> None:
        _check_indices(episodes, len(vectors))
        self._episodes = episodes
        self._vectors = np.ascontiguousarray(vectors)
        lengths = np.sqrt(np.einsum("id,id->i", self._vectors, self._vectors))
        inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        self._query_factors = np.float32(temperature) * inverse
        self._support = self._vectors * inverse[:, None] if prototype == "mean_of_normalized" else self._vectors

    def __call__(self, first: int) -> EpisodeLogits:
        episodes = self._episodes[first : first + EPISODES_PER_CHUNK]
        count, way, query = episodes.query.shape
        dim = self._vectors.shape[1]
        logits = np.empty((count, way, way * query), dtype=np.float32)
        directions = self._directions(episodes.support)
        step = _episodes_at_a_time(way * query * dim)
        rows = np.empty((min(step, count), way * query, dim), dtype=np.float32)
        for begin in range(0, count, step):
            part = slice(begin, min(begin + step, count))
            queries = rows[: part.stop - begin]
            # Indices were checked, so nothing is clipped; only then does numpy write to `out` without a copy.
            self._vectors.take(episodes.query[part].reshape(len(queries), -1), axis=0, out=queries, mode="clip")
            np.matmul(directions[part], queries.transpose(0, 2, 1), out=logits[part])
        logits *= self._query_factors[episodes.query].reshape(count, 1, -1)
        return EpisodeLogits(first, logits.reshape(count, way, way, query))

    def _directions(self, support: Int64[ndarray, "episodes way shot"]) -> Float32[ndarray, "episodes way dim"]:
        """Prototypes scaled to length one. The mean's division by the shot falls out, so they are sums."""
        count, way, shot = support.shape
        if shot == 1:
            sums = self._support.take(support[:, :, 0], axis=0)
        else:
            sums = np.empty((count, way, self._support.shape[1]), dtype=np.float32)
            step = _episodes_at_a_time(way * shot * sums.shape[2])
            for begin in range(0, count, step):
                part = slice(begin, begin + step)
                self._support.take(support[part], axis=0).sum(axis=2, out=sums[part])
        lengths = np.sqrt(np.einsum("ewd,ewd->ew", sums, sums))[:, :, None]
        sums /= np.where(lengths > 0, lengths, 1)
        return sums


def _episodes_at_a_time(numbers: int) -> int:
    """How many episodes' embeddings are gathered at once, where one episode has this many numbers."""
    return max(1, GATHERED_BYTES // (4 * numbers))


def _in_order(scorer: _Scorer, firsts: range, threads: int | None) -> Iterator[EpisodeLogits]:
    threads = min(threads or os.cpu_count() or 1, max(1, len(firsts)))
    # The products are too small to split; without the limit BLAS would start threads of its own in each of ours.
    with _blas().limit(limits=1, user_api="blas"):
        if threads == 1:
            yield from map(scorer, firsts)
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[EpisodeLogits]] = deque()
            try:
                for first in firsts:
                    waiting.append(pool.submit(scorer, first))
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
