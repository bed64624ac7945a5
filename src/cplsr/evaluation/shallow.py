"""What a practitioner would try first on frozen embeddings: logistic regression and nearest neighbors.

Both are given embeddings of length one and answer the same episodes as the prototypes. Thousands of small problems are
solved at once: a logistic regression needs nothing but the cosines between its support images, so that an episode of
25 images is a 25 x 25 matrix whatever the embedding's dimension is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float32, Float64
from numpy import ndarray
from torch import Tensor

from cplsr.episodes.prototypes import normalize
from cplsr.episodes.sampling import Episodes
from cplsr.errors import InputError
from cplsr.evaluation.benchmark import EpisodeLogits

KINDS = ("logistic", "knn")
"""Names of the classifiers in this file."""

NEIGHBORS = 5
"""Most neighbors that vote; never more than the shot, since a class could not win them all."""

TOLERANCE = 1e-9
"""Largest entry of the residual at which a logistic regression counts as solved."""

MAX_STEPS = 10_000
GATHERED_BYTES = 1 << 25
"""Embeddings held at a time, in float64."""


@final
@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Multinomial logistic regressions, one per episode, written in the support set: W = dualᵀ X, logits = X Wᵀ + b."""

    dual: Float64[Tensor, "episodes support way"]
    intercept: Float64[Tensor, "episodes way"]


def logistic_logits(
    vectors: Float32[ndarray, "images dim"], episodes: Episodes, *, C: float = 1.0
) -> Iterator[EpisodeLogits]:
    """Decision values of scikit-learn's `LogisticRegression(C)` on embeddings of length one, chunk by chunk.

    Equal values go to the class that stands first in the episode.
    """

    def score(gram: Tensor, cosines: Tensor) -> Tensor:
        fit = fit_logistic(gram, episodes.way, C=C)
        return cosines @ fit.dual + fit.intercept[:, None]

    return _by_chunks(vectors, episodes, score)


def knn_votes(
    vectors: Float32[ndarray, "images dim"], episodes: Episodes, *, neighbors: int = NEIGHBORS
) -> Iterator[EpisodeLogits]:
    """Votes of the k = min(shot, `neighbors`) support images with the highest cosines, chunk by chunk.

    A tie between classes goes to the one whose nearest image is nearer: it has up to half a vote more, and no two
    classes have the same. Of equal cosines the image that stands first in the episode counts as nearer. These are no
    logits, so no confidence can be made of them.
    """
    if neighbors < 1:
        raise InputError(f"{neighbors} neighbors were asked for: give at least 1")
    k = min(episodes.shot, neighbors)

    def score(gram: Tensor, cosines: Tensor) -> Tensor:
        order = cosines.sort(dim=2, descending=True, stable=True).indices[:, :, :k]
        voters = order // episodes.shot  # support images stand class by class
        votes = torch.zeros(*cosines.shape[:2], episodes.way, dtype=cosines.dtype)
        votes.scatter_add_(2, voters, torch.ones_like(voters, dtype=cosines.dtype))
        nearness = torch.arange(k, 0, -1, dtype=cosines.dtype).div(2 * k).expand(voters.shape)
        return votes + torch.zeros_like(votes).scatter_reduce(2, voters, nearness, "amax")

    return _by_chunks(vectors, episodes, score)


def fit_logistic(gram: Float64[Tensor, "episodes support support"], way: int, *, C: float = 1.0) -> LogisticFit:
    """Minimize C · Σ cross-entropy + ½‖W‖² with a free intercept, for many episodes at once.

    gram: inner products of the support embeddings, which stand class by class, equally many of each class.

    The solution lies in the span of the support set, W = Aᵀ X, and is where λA = Y − P with λ = 1/C, one-hot labels Y
    and probabilities P. The curvature of the cross-entropy is at most ½ (Böhning's bound), so steps with the fixed
    matrix ½K + λI never overshoot; Nesterov's momentum, dropped in an episode whenever it points uphill, makes them
    few. With two classes scikit-learn charges one weight vector, here two opposite ones of half its size: λ is 2/C.
    """
    support = gram.shape[1]
    penalty = (2.0 if way == 2 else 1.0) / C
    labels = torch.eye(way, dtype=gram.dtype).repeat_interleave(support // way, dim=0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(0.5 * gram + penalty * torch.eye(support, dtype=gram.dtype)))
    sums = inverse.sum(dim=2, keepdim=True)
    share = sums / sums.sum(dim=1, keepdim=True)
    step = inverse - sums @ share.transpose(1, 2)  # keeps the dual's columns at sum 0, as the free intercept demands

    dual = ahead = torch.zeros(len(gram), support, way, dtype=gram.dtype)
    logits = logits_ahead = dual
    intercept = intercept_ahead = torch.zeros(len(gram), 1, way, dtype=gram.dtype)
    age = torch.ones(len(gram), 1, 1, dtype=gram.dtype)
    for _ in range(MAX_STEPS):
        residual = labels - logits_ahead.softmax(dim=2) - penalty * ahead
        if residual.abs().amax() < TOLERANCE:
            return LogisticFit(ahead, intercept_ahead[:, 0])
        change, shift = step @ residual, 2 * share.transpose(1, 2) @ residual
        new = (ahead + change, intercept_ahead + shift, logits_ahead + gram @ change + shift)
        uphill = (residual * (new[2] - logits)).sum(dim=(1, 2), keepdim=True) < 0
        age = torch.where(uphill, 1.0, age)
        older = (1 + (1 + 4 * age**2).sqrt()) / 2
        momentum = (age - 1) / older
        ahead, intercept_ahead, logits_ahead = (
            value + momentum * (value - old) for value, old in zip(new, (dual, intercept, logits), strict=True)
        )
        (dual, intercept, logits), age = new, older
    raise InputError(f"a logistic regression did not settle in {MAX_STEPS:,} steps: lower C, which is {C}")


def _by_chunks(
    vectors: Float32[ndarray, "images dim"], episodes: Episodes, score: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[EpisodeLogits]:
    """Scores (episodes, queries, way) from the cosines among the support images, and of queries with them."""
    way, shot, query = episodes.way, episodes.shot, episodes.queries_per_class
    table = torch.from_numpy(vectors)
    step = max(1, GATHERED_BYTES // (8 * way * (shot + query) * vectors.shape[1]))
    for first in range(0, len(episodes), step):
        part = episodes[first : first + step]
        support, queries = (
            normalize(table[torch.from_numpy(images.reshape(len(part), -1))].double())
            for images in (part.support, part.query)
        )
        across = support.transpose(1, 2)
        scores = score(support @ across, queries @ across)
        logits = scores.float().transpose(1, 2).reshape(len(part), way, way, query)
        yield EpisodeLogits(first, logits.numpy())
