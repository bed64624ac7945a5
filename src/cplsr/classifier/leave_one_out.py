"""Each support image judged by the others, in closed form where there is one; and the temperature that follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from cplsr.classifier.even_sample import even_rows
from cplsr.episodes.heads.head import Head
from cplsr.episodes.heads.ridge import Ridge, fit_ridge
from cplsr.episodes.prototypes import TEMPERATURE, unit

LOWEST, HIGHEST = 0.1, 1000.0
"""Between these the temperature is sought."""

PRIOR_IMAGES = 2.0
"""How many images the belief in the usual temperature counts for; see `calibrated_temperature`."""

CALIBRATION_ENTRIES = 1 << 20
"""How many cosines the calibration looks at: with thousands of classes an even sample of the images has to do."""

CHUNK_ENTRIES = 1 << 22

LEAVE_ONE_OUT_IMAGES, FOLDS = 60, 10
"""Up to so many images are left out one by one where each takes a fit of its own; of more, so many folds."""

LEAST_SIGNAL = 0.05
"""Of a prototype's squared length at least this share is taken for the class's and not for the noise of its images."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Some support images, by position, scored by what was learned without them; prototypes give cosines."""

    rows: Int64[ndarray, "images"]
    scores: Float64[ndarray, "images classes"]


def judgeable(labels: Int64[ndarray, "images"], classes: int) -> Int64[ndarray, "rows"]:
    """Find the images that can be left out, because their class has another one; gives their positions."""
    counts = np.bincount(labels, minlength=classes)
    return np.flatnonzero(counts[labels] >= 2)


def calibration_rows(labels: Int64[ndarray, "images"], classes: int) -> Int64[ndarray, "rows"]:
    """Choose the images that calibrate: all that can be left out, or an even sample where there are too many."""
    rows = judgeable(labels, classes)
    return rows[even_rows(len(rows), max(1, CALIBRATION_ENTRIES // max(classes, 1)))]


@dataclass(frozen=True, eq=False)
class Examples:
    """Support vectors as prototypes are means of them, and the class of each."""

    vectors: Float64[ndarray, "images dim"]
    labels: Int64[ndarray, "images"]
    classes: int

    @cached_property
    def sums(self) -> Float64[ndarray, "classes dim"]:
        """The sum of each class's vectors, whose cosines are those of the prototype."""
        sums = np.zeros((self.classes, self.vectors.shape[1]))
        np.add.at(sums, self.labels, self.vectors)
        return sums

    @cached_property
    def counts(self) -> Int64[ndarray, "classes"]:
        """How many vectors each class has."""
        return np.bincount(self.labels, minlength=self.classes)

    @cached_property
    def means(self) -> Float64[ndarray, "classes dim"]:
        """The prototypes; 0 for classes without vectors."""
        return self.sums / np.maximum(self.counts, 1)[:, None]

    def left_out(self, rows: Int64[ndarray, "rows"]) -> Judged:
        """Compare images with the prototype of every class, that of their own being (sum − x) / (n − 1).

        `rows` are the positions of the images to compare; the class of each must have another image.
        """
        chosen, own = unit(self.vectors[rows]), self.labels[rows]
        cosines = chosen @ unit(self.sums).T
        cosines[np.arange(len(rows)), own] = (chosen * unit(self.sums[own] - self.vectors[rows])).sum(axis=1)
        return Judged(rows, cosines)

    def all_left_out(self) -> Iterator[Judged]:
        """Compare all images that can be left out, some at a time to save memory; maybe none."""
        rows = judgeable(self.labels, self.classes)
        step = max(1, CHUNK_ENTRIES // max(self.classes, 1))
        for start in range(0, max(1, len(rows)), step):
            yield self.left_out(rows[start : start + step])

    def as_if_whole(self, judged: Judged) -> Float64[ndarray, "rows classes"]:
        """Correct the cosines with the own class, as if its prototype had been made of all n images and not of n − 1.

        A prototype of n − 1 images is noisier than the one of n that new images will meet, and its cosines are lower:
        with two images per class by far. Where m is the class's true mean and s² the variance of its images (pooled
        over the classes), the mean of n images has the squared length |m|² + s²/n, so cosines with it are
        √((|m|² + s²/(n−1)) / (|m|² + s²/n)) times those with the mean of n − 1.

        `judged` is what `left_out` gave.
        """
        freedom = (np.maximum(self.counts, 1) - 1).sum()
        variance = float(((self.vectors - self.means[self.labels]) ** 2).sum()) / max(int(freedom), 1)
        judged_labels = self.labels[judged.rows]
        n = self.counts[judged_labels]
        squared = (self.means[judged_labels] ** 2).sum(axis=1)
        signal = np.maximum(squared - variance / n, LEAST_SIGNAL * squared)
        whole = signal + variance / n
        factors = np.sqrt((signal + variance / np.maximum(n - 1, 1)) / np.where(whole > 0, whole, 1.0))
        raised = judged.scores.copy()
        own = np.arange(len(n)), judged_labels
        raised[own] = np.minimum(raised[own] * np.where(whole > 0, factors, 1.0), 1.0)
        return raised


def judge(head: Head, support: Float64[ndarray, "images dim"], labels: Int64[ndarray, "images"]) -> Judged:
    """Score every image that can be left out by a head that has not seen it; every class has an image.

    Ridge regression has a closed form; other heads are fitted again without the image, or without a fold of the images.
    """
    classes = int(labels.max()) + 1
    rows = judgeable(labels, classes)
    if isinstance(head, Ridge):
        _, left_out = fit_ridge(torch.from_numpy(unit(support)), torch.from_numpy(labels), head.penalty)
        return Judged(rows, left_out.numpy()[rows])
    scores = np.zeros((len(labels), classes))
    for train, test in held_out_splits(labels, classes) if len(rows) else ():
        scores[test] = head_scores(head, support[train], labels[train], support[test])
    return Judged(rows, scores[rows])


def head_scores(
    head: Head,
    support: Float64[ndarray, "images dim"],
    labels: Int64[ndarray, "images"],
    queries: Float64[ndarray, "queries dim"],
) -> Float64[ndarray, "queries classes"]:
    """The scores of a head as they are before its temperature."""
    images, classes, asked = (torch.from_numpy(np.ascontiguousarray(array)) for array in (support, labels, queries))
    return head.scores(images, classes, asked, int(labels.max()) + 1).numpy() / (head.temperature or 1.0)


def held_out_splits(
    labels: Int64[ndarray, "images"], classes: int
) -> Iterator[tuple[Int64[ndarray, "train"], Int64[ndarray, "test"]]]:
    """Split the support images so that each whose class has another one is held out once.

    Where there are few, each is held out alone, else in stratified folds. The only image of a class is always in
    training: without it the class would not exist.
    """
    from sklearn.model_selection import LeaveOneOut, StratifiedKFold

    rows = judgeable(labels, classes)
    single = np.setdiff1d(np.arange(len(labels)), rows)
    if len(rows) <= LEAVE_ONE_OUT_IMAGES:
        folds = LeaveOneOut().split(rows)
    else:
        smallest = int(np.bincount(labels[rows], minlength=classes)[np.unique(labels[rows])].min())
        folds = StratifiedKFold(min(FOLDS, smallest), shuffle=True, random_state=0).split(rows, labels[rows])
    for train, test in folds:
        yield np.concatenate((rows[train], single)), rows[test]


def calibrated_temperature(
    scores: Float64[ndarray, "images classes"],
    labels: Int64[ndarray, "images"],
    prior: float = PRIOR_IMAGES,
    usual: float = TEMPERATURE,
) -> float:
    """Find the temperature t under which the right classes are most likely, probabilities being softmax(t · scores).

    A support set without a single mistake would ask for t = ∞, that is, for certainty after five images. So a belief
    in the usual temperature T is added: `prior` · (t / T − ln t), least at T and convex, worth about as much as
    `prior` images. The whole is convex in t, so the bounded search finds its one minimum. Without images, or with a
    single class, it is T itself.
    """
    if len(scores) == 0 or scores.shape[1] < 2:
        return usual
    from scipy.optimize import minimize_scalar

    own = scores[np.arange(len(labels)), labels]
    highest = scores.max(axis=1)

    def cost(temperature: float) -> float:
        spread = np.exp(temperature * (scores - highest[:, None])).sum(axis=1)
        misfit = float((np.log(spread) + temperature * (highest - own)).sum())
        return misfit + prior * (temperature / usual - float(np.log(temperature)))

    least = minimize_scalar(cost, bounds=(LOWEST, HIGHEST), method="bounded", options={"xatol": 1e-3})
    return float(least.x)
