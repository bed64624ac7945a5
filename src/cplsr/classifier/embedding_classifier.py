"""The classifier in feature space: support vectors in, probabilities of the classes out, by any head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cplsr.classifier.leave_one_out import (
    as_if_whole,
    calibrated_temperature,
    calibration_rows,
    class_sums,
    head_scores,
    judge,
    leave_one_out,
)
from cplsr.classifier.reading_choice import Choice, choose_reading, fixed_choice
from cplsr.classifier.vector_answers import VectorAnswers
from cplsr.episodes.heads import Head, make_head
from cplsr.episodes.heads.auto import Auto
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge, fit_ridge
from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError


class EmbeddingClassifier(VectorAnswers):
    """Classify vectors by any head that answers each of them alone; a scikit-learn estimator.

    The probability of a class is softmax(temperature · score of the class); scores of prototypes are cosines.

    Args:
        head: A head or its name (see `cplsr.episodes.heads`). `auto` is ridge regression whose penalty, and how deep it
            reads, are found by leaving out the support vectors in turn.
        temperature: A number, or `auto`: the one under which the support vectors, each left out in turn, are most
            likely (see `calibrated_temperature`); without two vectors in any class, that of the head.
        parts: Of how many equal parts the vectors consist: with `depth` pooling, two for each block.
        decay: How much a block counts, compared with the block above it, 0 to 1; `None` is the last class token
            alone. `auto`: the head's choice, or 0.6.
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
        self.choice_, self.shift_ = choice or self._chosen(), None
        weights = np.sqrt(self.choice_.reading.weights(self.parts).numpy())
        self.scale_ = np.repeat(weights, self.n_features_in_ // self.parts)
        head, vectors, labels = self.choice_.head, self._averaged, self.support_labels_
        sums = class_sums(vectors, labels, len(self.classes_))
        self.prototypes_ = sums / np.maximum(self.counts_, 1)[:, None]
        self.unit_prototypes_ = unit(sums)
        judged = leave_one_out(vectors, labels, sums, calibration_rows(labels, len(self.classes_)))
        scores = as_if_whole(judged, vectors, labels, sums)[:, self.counts_ > 0]
        self.support_best_ = np.sort(scores.max(axis=1)) if scores.size else np.zeros(0)
        self.linear_ = self._linear(head)
        if self.temperature != "auto":
            self.temperature_ = float(self.temperature)
            return
        usual = head.temperature or 1.0
        if isinstance(head, Prototypes):
            usual = self.trained_temperature or usual
        else:
            judged = judge(head, self.read(self.support_), self._known_labels)
            scores = judged.scores
        self.temperature_ = calibrated_temperature(scores, self._known_labels[judged.rows], usual=usual)

    def _chosen(self) -> Choice:
        head = self._made_head()
        if isinstance(head, Auto):
            return choose_reading(head, self.support_, self._known_labels)
        return fixed_choice(head, self.decay if self.parts > 1 else None)

    def _linear(self, head: Head) -> tuple[Float64[ndarray, "dim known"], Float64[ndarray, "known"]] | None:
        """Weights and offsets with which a unit vector's scores are v · weights + offsets; `None` if none are."""
        vectors, known = self.read(self.support_), self.counts_ > 0
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


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(0 < value < np.inf)


def named(classes: ndarray, most: int = 8) -> str:
    """List a few class names for a message, and how many more there are."""
    names = [str(name) for name in classes[:most].tolist()]
    return ", ".join(names) + (f" and {len(classes) - most:,} more" if len(classes) > most else "")
