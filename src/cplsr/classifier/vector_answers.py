"""What a fitted classifier can be asked about vectors: scores, probabilities, labels, and how unlike the support."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cplsr.classifier.leave_one_out import Judged, head_scores, judge, leave_one_out_in_chunks
from cplsr.classifier.no_class import UNKNOWN, check_rejection, labels_or
from cplsr.classifier.reading_choice import Choice
from cplsr.episodes.heads.bd_cspn import SHARPNESS, rectified
from cplsr.episodes.heads.head import Task
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError


class VectorAnswers(ClassifierMixin, BaseEstimator):
    """The answering half of `EmbeddingClassifier`, which says what the attributes are and computes them.

    Attributes:
        shift_: What is added to vectors that are answered together.
        scale_: The factors by which the head reads a vector of several parts.
        linear_: Weights and offsets with which a unit vector's scores are v · weights + offsets; `None` if none are.
    """

    parts: Any
    temperature: Any
    classes_: ndarray
    counts_: Int64[ndarray, "classes"]
    support_: Float64[ndarray, "images dim"]
    support_labels_: Int64[ndarray, "images"]
    shift_: Float64[ndarray, "dim"] | None
    choice_: Choice
    unit_prototypes_: Float64[ndarray, "classes dim"]
    temperature_: float
    support_best_: Float64[ndarray, "images"]
    scale_: Float64[ndarray, "dim"]
    linear_: tuple[Float64[ndarray, "dim known"], Float64[ndarray, "known"]] | None

    def cosines(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Compute each vector's cosine with the prototype of every class; −1 for classes without vectors."""
        cosines = unit(self.read(self._validated(X))) @ self.unit_prototypes_.T
        cosines[:, self.counts_ == 0] = -1.0
        return cosines

    def scores(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Score each vector for every class by the head; −∞ for classes without vectors."""
        vectors = unit(self.read(self._validated(X)))
        if self.shift_ is not None:
            vectors = unit(vectors + self.shift_)
        scores = np.full((len(vectors), len(self.classes_)), -np.inf)
        known = self.counts_ > 0
        if self.linear_ is not None:
            weights, offsets = self.linear_
            scores[:, known] = vectors @ weights + offsets
        else:
            scores[:, known] = head_scores(self.choice_.head, self.read(self.support_), self._known_labels, vectors)
        return scores

    def predict_proba(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Give each vector the probabilities of the classes, in the order of `classes_`."""
        scores = self.scores(X)
        return softmax(self.temperature_ * scores, axis=1)

    def predict(self, X: Any, reject_below: float | None = None) -> ndarray:
        """Label each vector with its likeliest class.

        Args:
            X: Vectors (images, dim).
            reject_below: Answer `unknown` where the likeliest class is less likely than this.

        Raises:
            InputError: If the threshold is no probability, or a class is itself called `unknown`.
        """
        probabilities = self.predict_proba(X)
        labels = self.classes_[probabilities.argmax(axis=1)]
        if reject_below is None:
            return labels
        check_rejection(reject_below, self.classes_)
        likely = probabilities.max(axis=1) >= reject_below
        return labels_or(UNKNOWN, labels[likely], likely)

    def out_of_domain_score(self, X: Any) -> Float64[ndarray, "images"]:
        """Say how unlike the support vectors each vector is, from 0 (nothing odd) to 1.

        The score is the share of the support vectors that, left out, come closer to some prototype than x does to its
        closest: 1 − (1 + #{b ≤ best}) / (n + 1). It is one minus a conformal p-value: new images like the support score
        above 1 − α about α of the time, so from 0.95 on an image deserves a look. With n support images it never
        exceeds n / (n + 1).

        Returns:
            A score for each vector; nan where no support vector could be left out.
        """
        best = self.cosines(X).max(axis=1)
        images = len(self.support_best_)
        if images == 0:
            return np.full(len(best), np.nan)
        at_most = np.searchsorted(self.support_best_, best, side="right")
        return 1.0 - (1.0 + at_most) / (images + 1.0)

    def read(self, vectors: Float64[ndarray, "images dim"]) -> Float64[ndarray, "images dim"]:
        """The vectors as the head sees them: each part by the root of its weight."""
        return vectors * self.scale_ if self.parts > 1 else vectors

    def seeing_together(self, queries: Float[ndarray, "queries dim"]) -> VectorAnswers:
        """The same classifier for images that come together: `queries`, or many of which these are a sample.

        Its classes are found with the help of the queries, by BD-CSPN. That is worth points with one support vector per
        class, and costs points with more.

        Raises:
            InputError: If a class has more than one support vector, or there are less than two queries.
        """
        self.check_together(len(queries))
        arrays = (self.read(self.support_), self._known_labels, self.read(self._validated(queries)))
        support, labels, asked = map(torch.from_numpy, arrays)
        shift, prototypes = rectified(Task(support, labels, asked, int((self.counts_ > 0).sum())))
        other = copy(self)
        other.shift_ = shift.numpy()
        other.temperature_ = SHARPNESS if self.temperature == "auto" else self.temperature_
        other.linear_ = unit(prototypes.numpy()).T, np.zeros(len(prototypes))
        return other

    def check_together(self, queries: int) -> None:
        """Raise `InputError` if so many queries cannot be answered together, or should not."""
        check_is_fitted(self)
        if self.counts_.max() > 1:
            raise InputError(
                "images are answered together only where every class has a single example: with more of them, answers "
                "to each image alone are more accurate (leave out --together)"
            )
        if queries < 2:
            raise InputError(f"{queries} image was given to be answered together: give two at least")

    def left_out(self) -> Iterator[Judged]:
        """Score every support vector whose class has another one as if it had been left out, some at a time."""
        check_is_fitted(self)
        head, classes = self.choice_.head, len(self.classes_)
        if isinstance(head, Prototypes):
            yield from leave_one_out_in_chunks(self._averaged, self.support_labels_, classes)
        else:
            judged = judge(head, self.read(self.support_), self._known_labels)
            scores = np.full((len(judged.rows), classes), -np.inf)
            scores[:, self.counts_ > 0] = judged.scores
            yield Judged(judged.rows, scores)

    def _validated(self, X: Any) -> Float64[ndarray, "images dim"]:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    @property
    def _known_labels(self) -> Int64[ndarray, "images"]:
        """The classes of the support vectors, as positions among the classes that have any."""
        return (np.cumsum(self.counts_ > 0) - 1)[self.support_labels_]

    @property
    def _averaged(self) -> Float64[ndarray, "images dim"]:
        """The support vectors of which prototypes are means: of length one, unless the head takes them as they are."""
        vectors, head = self.read(self.support_), self.choice_.head
        return vectors if isinstance(head, Prototypes) and head.kind == "mean" else unit(vectors)
