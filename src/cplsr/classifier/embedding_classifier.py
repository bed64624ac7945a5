"""The classifier in feature space: support vectors in, probabilities of the classes out, by any head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cplsr.classifier.leave_one_out import (
    Examples,
    Judged,
    calibrated_temperature,
    calibration_rows,
    head_scores,
    judge,
)
from cplsr.classifier.no_class import UNKNOWN, check_rejection, labels_or
from cplsr.classifier.reading_choice import Choice, choose_reading, fixed_choice
from cplsr.episodes.heads import Head, make_head
from cplsr.episodes.heads.auto import Auto, spreads_of_classes
from cplsr.episodes.heads.bd_cspn import SHARPNESS, rectified
from cplsr.episodes.heads.head import Task
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge, fit_ridge
from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError

LEAST_SPREAD = 0.01
"""Images that are closer together than this say nothing of how sure to be."""


class EmbeddingClassifier(ClassifierMixin, BaseEstimator):
    """Classify vectors by any head that answers each of them alone; a scikit-learn estimator.

    The probability of a class is softmax(temperature · score of the class); scores of prototypes are cosines.

    Args:
        head: A head or its name (see `cplsr.episodes.heads`). `auto` is ridge regression whose penalty, and how deep it
            reads, are found by leaving out the support vectors in turn.
        temperature: A number, or `auto`: the one under which the support vectors, each left out in turn, are most
            likely (see `calibrated_temperature`); without two vectors in any class, that of the head.
        parts: Of how many equal parts the vectors consist: with `depth` pooling, two for each block.
        decay: How much a block counts, compared with the block above it, 0 to 1; `None` is the last class token
            alone. `auto`: the head's choice, or the usual reading. A `Reading` says all of it.
        trained_temperature: The factor of the cosines that the vectors were trained with, if they were; prototypes
            take it for theirs.

    Attributes:
        classes_: The classes, sorted.
        counts_: How many support vectors each class has.
        support_: All support vectors (images, dim).
        support_labels_: Their classes, as positions in `classes_`.
        choice_: Which head, on what part of the vectors, and why.
        prototypes_: The mean of each class's support vectors, as the head reads them (classes, dim).
        unit_prototypes_: The prototypes scaled to length one.
        temperature_: The temperature, calibrated or given.
        scale_: The factors by which the head reads a vector of several parts.
        linear_: Weights and offsets with which a unit vector's scores are v · weights + offsets; `None` if none are.
        shift_: What is added to vectors that are answered together.
        support_best_: The best cosines of the support vectors when left out, ascending (see `as_if_whole`).

    Example:
        >>> from cplsr.classifier.embedding_classifier import EmbeddingClassifier
        >>> model = EmbeddingClassifier().fit([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]], ["east", "east", "north"])
        >>> model.predict([[2.0, 0.5], [0.0, 3.0]]).tolist()
        ['east', 'north']
    """

    def __init__(
        self,
        head: Any = "prototypes",
        temperature: Any = "auto",
        parts: Any = 1,
        decay: Any = "auto",
        trained_temperature: Any = None,
    ) -> None:
        self.head = head
        self.temperature = temperature
        self.parts = parts
        self.decay = decay
        self.trained_temperature = trained_temperature

    def fit(self, X: Any, y: Any) -> EmbeddingClassifier:
        """Learn from vectors (images, dim) and the class of each; anything learned before is forgotten."""
        X, y = self._checked(X, y, reset=True)
        self._forget(y)
        self._add(X, y)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> EmbeddingClassifier:
        """Learn more vectors, of known or new classes; what was learned before stays.

        Args:
            X: Vectors (images, dim).
            y: The class of each.
            classes: Classes that get a place now, though their vectors may be still to come.
        """
        first = not hasattr(self, "classes_")
        X, y = self._checked(X, y, reset=first)
        if first:
            self._forget(y)
        if classes is not None:
            self._make_room(np.asarray(classes))
        self._add(X, y)
        return self

    def restore(
        self,
        classes: ndarray,
        support: Float64[ndarray, "images dim"],
        support_labels: Int64[ndarray, "images"],
        choice: Choice,
        temperature: float,
    ) -> EmbeddingClassifier:
        """Become what was fitted elsewhere: choice and temperature are kept, wherever they were found."""
        self.n_features_in_ = support.shape[1]
        self.classes_, self.support_, self.support_labels_ = classes, support, support_labels
        self._recompute(choice)
        self.temperature_ = temperature
        return self

    def remove_class(self, name: Any) -> EmbeddingClassifier:
        """Forget a class; the others stay as they are.

        Raises:
            InputError: If there is no such class, or no other.
        """
        check_is_fitted(self)
        positions = np.flatnonzero(self.classes_ == name)
        if len(positions) == 0:
            raise InputError(f"there is no class {name!r} to remove: the classes are {named(self.classes_)}")
        if len(self.classes_) == 1:
            raise InputError(f"{name!r} is the only class and cannot be removed: add another one first")
        position = int(positions[0])
        kept = self.support_labels_ != position
        self.classes_ = np.delete(self.classes_, position)
        self.support_ = self.support_[kept]
        labels = self.support_labels_[kept]
        self.support_labels_ = labels - (labels > position)
        self._recompute()
        return self

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

    def seeing_together(self, queries: Float[ndarray, "queries dim"]) -> EmbeddingClassifier:
        """The same classifier for images that come together: `queries`, or many of which these are a sample.

        Its classes are found with the help of the queries, by BD-CSPN. That is worth points with one support vector per
        class, and costs points with more. Nothing can be left out to calibrate on, so the temperature is BD-CSPN's own
        for cosines that are spread from 0 to 1, and as much higher as they are closer together.

        Raises:
            InputError: If a class has more than one support vector, or there are less than two queries.
        """
        self.check_together(len(queries))
        arrays = (self.read(self.support_), self._known_labels, self.read(self._validated(queries)))
        support, labels, asked = map(torch.from_numpy, arrays)
        way = int((self.counts_ > 0).sum())
        shift, prototypes = rectified(Task(support, labels, asked, way))
        spread = float(spreads_of_classes(support, labels, way, 1))
        other = copy(self)
        other.shift_ = shift.numpy()
        other.temperature_ = SHARPNESS / max(spread, LEAST_SPREAD) if self.temperature == "auto" else self.temperature_
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
        head, vectors, classes = self.choice_.head, self.read(self.support_), len(self.classes_)
        if isinstance(head, Prototypes):
            yield from self._averaged(vectors).all_left_out()
        else:
            judged = judge(head, vectors, self._known_labels)
            scores = np.full((len(judged.rows), classes), -np.inf)
            scores[:, self.counts_ > 0] = judged.scores
            yield Judged(judged.rows, scores)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Float64[ndarray, "images dim"], ndarray]:
        self._made_head()
        if self.temperature != "auto" and not _is_positive(self.temperature):
            raise InputError(f"temperature={self.temperature!r} is not usable: give a number above 0, or 'auto'")
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64)
        check_classification_targets(y)
        return X, y

    def _made_head(self) -> Head:
        head = self.head if isinstance(self.head, Head) else make_head(self.head)
        if head.together:
            raise InputError(
                f"the head {head.name} answers images together: take a head that answers each alone, such as ridge"
            )
        return Auto(self.parts, self.decay) if isinstance(head, Auto) else head

    def _forget(self, y: ndarray) -> None:
        self.classes_ = np.unique(y)[:0]
        self.support_ = np.zeros((0, self.n_features_in_))
        self.support_labels_ = np.zeros(0, dtype=np.int64)

    def _make_room(self, names: ndarray) -> None:
        """Insert new names among the sorted classes; the labels of the others move with them."""
        if len({isinstance(group.tolist()[0], str) for group in (self.classes_, names) if len(group)}) > 1:
            raise InputError(
                f"classes {named(names)} and {named(self.classes_)} are of different kinds, text and numbers: "
                "name all of them the same way"
            )
        classes = np.union1d(self.classes_, names) if len(self.classes_) else np.unique(names)
        self.support_labels_ = np.searchsorted(classes, self.classes_)[self.support_labels_]
        self.classes_ = classes

    def _add(self, X: Float64[ndarray, "images dim"], y: ndarray) -> None:
        self._make_room(np.unique(y))
        self.support_ = np.concatenate((self.support_, X))
        self.support_labels_ = np.concatenate((self.support_labels_, np.searchsorted(self.classes_, y)))
        self._recompute()

    def _recompute(self, choice: Choice | None = None) -> None:
        """Compute what follows from the support: the choice (unless it is given), the weights, the temperature."""
        self.counts_ = np.bincount(self.support_labels_, minlength=len(self.classes_))
        self.choice_ = choice or self._chosen()
        self.shift_: Float64[ndarray, "dim"] | None = None
        known = torch.from_numpy(self.support_), torch.from_numpy(self.support_labels_)
        weights = self.choice_.reading.weights(spreads_of_classes(*known, len(self.classes_), self.parts))
        self.scale_ = np.repeat(np.sqrt(weights.numpy()), self.n_features_in_ // self.parts)
        head, vectors = self.choice_.head, self.read(self.support_)
        averaged = self._averaged(vectors)
        self.prototypes_, self.unit_prototypes_ = averaged.means, unit(averaged.sums)
        judged = averaged.left_out(calibration_rows(averaged.labels, averaged.classes))
        scores = averaged.as_if_whole(judged)[:, self.counts_ > 0]
        self.support_best_ = np.sort(scores.max(axis=1)) if scores.size else np.zeros(0)
        self.linear_ = self._linear(head, vectors)
        if self.temperature != "auto":
            self.temperature_ = float(self.temperature)
            return
        usual = head.temperature or 1.0
        if isinstance(head, Prototypes):
            usual = self.trained_temperature or usual
        else:
            judged = judge(head, vectors, self._known_labels)
            scores = judged.scores
        self.temperature_ = calibrated_temperature(scores, self._known_labels[judged.rows], usual=usual)

    def _chosen(self) -> Choice:
        head = self._made_head()
        if isinstance(head, Auto):
            return choose_reading(head, self.support_, self._known_labels)
        return fixed_choice(head, self.decay if self.parts > 1 else None)

    def _linear(
        self, head: Head, vectors: Float64[ndarray, "images dim"]
    ) -> tuple[Float64[ndarray, "dim known"], Float64[ndarray, "known"]] | None:
        """Weights and offsets with which a unit vector's scores are v · weights + offsets; `None` if none are."""
        known = self.counts_ > 0
        if isinstance(head, Prototypes):
            return self.unit_prototypes_[known].T, np.zeros(int(known.sum()))
        if isinstance(head, Ridge):
            weights, _ = fit_ridge(torch.from_numpy(unit(vectors)), torch.from_numpy(self._known_labels), head.penalty)
            return weights.numpy(), np.zeros(int(known.sum()))
        if not head.linear:
            return None
        at = np.concatenate((np.eye(vectors.shape[1]), np.zeros((1, vectors.shape[1]))))
        scores = head_scores(head, vectors, self._known_labels, at)
        return scores[:-1] - scores[-1], scores[-1]

    def _validated(self, X: Any) -> Float64[ndarray, "images dim"]:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    @property
    def _known_labels(self) -> Int64[ndarray, "images"]:
        """The classes of the support vectors, as positions among the classes that have any."""
        return (np.cumsum(self.counts_ > 0) - 1)[self.support_labels_]

    def _averaged(self, vectors: Float64[ndarray, "images dim"]) -> Examples:
        """Vectors as prototypes are means of them: of length one, unless the head takes them as they are."""
        head = self.choice_.head
        as_they_are = isinstance(head, Prototypes) and head.kind == "mean"
        return Examples(vectors if as_they_are else unit(vectors), self.support_labels_, len(self.classes_))


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(0 < value < np.inf)


def named(classes: Iterable[Any], most: int = 8) -> str:
    """List a few names, of classes for instance, for a message, and how many more there are."""
    names = [str(name) for name in classes]
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
