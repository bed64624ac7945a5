"""The classifier in feature space: class means, cosines, one matrix product, whatever the number of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cplsr.classifier.leave_one_out import as_if_whole, calibrated_temperature, calibration_rows, leave_one_out
from cplsr.declared import fit
from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError
from cplsr.settings.episodes import PrototypeKind

UNKNOWN = "unknown"
"""What `predict` answers instead of a class when no class is likely enough."""


class PrototypeClassifier(ClassifierMixin, BaseEstimator):
    """Classify vectors by the nearest class mean; a scikit-learn estimator.

    The probability of a class is softmax(temperature · cosine of the vector and the class's prototype).

    Args:
        temperature: A number, or `auto`: the one under which the support vectors, each left out in turn, are most
            likely (see `calibrated_temperature`); without two vectors in any class, 20.
        prototype: `mean` of the vectors of a class, or `mean_of_normalized` vectors.

    Attributes:
        classes_: The classes, sorted.
        counts_: How many support vectors each class has.
        sums_: The sum of each class's support vectors (classes, dim).
        prototypes_: Their mean (classes, dim).
        unit_prototypes_: The prototypes scaled to length one.
        temperature_: The temperature, calibrated or given.
        support_: All support vectors (images, dim).
        support_labels_: Their classes, as positions in `classes_`.
        support_best_: The best cosines of the support vectors when left out, ascending (see `as_if_whole`).

    Example:
        >>> from cplsr.classifier.prototype_classifier import PrototypeClassifier
        >>> head = PrototypeClassifier().fit([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]], ["east", "east", "north"])
        >>> head.predict([[2.0, 0.5], [0.0, 3.0]]).tolist()
        ['east', 'north']
    """

    classes_: ndarray
    counts_: Int64[ndarray, "classes"]
    sums_: Float64[ndarray, "classes dim"]
    support_: Float64[ndarray, "images dim"]
    support_labels_: Int64[ndarray, "images"]

    def __init__(self, temperature: Any = "auto", prototype: Any = "mean") -> None:
        self.temperature = temperature
        self.prototype = prototype

    def fit(self, X: Any, y: Any) -> PrototypeClassifier:
        """Learn from vectors (images, dim) and the class of each; anything learned before is forgotten."""
        X, y = self._checked(X, y, reset=True)
        self._forget(y)
        self._add(X, y)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> PrototypeClassifier:
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

    @classmethod
    def restored(
        cls,
        *,
        temperature: Any,
        prototype: Any,
        classes: ndarray,
        sums: Float64[ndarray, "classes dim"],
        support: Float64[ndarray, "images dim"],
        support_labels: Int64[ndarray, "images"],
        fitted_temperature: float,
    ) -> PrototypeClassifier:
        """Make a fitted classifier of its stored parts; `fitted_temperature` is kept to the last digit."""
        head = cls(temperature=temperature, prototype=prototype)
        head.n_features_in_ = sums.shape[1]
        head.classes_, head.sums_ = classes, sums
        head.counts_ = np.bincount(support_labels, minlength=len(classes))
        head.support_, head.support_labels_ = support, support_labels
        head._recompute()
        head.temperature_ = fitted_temperature  # exactly, wherever it was found
        return head

    def remove_class(self, name: Any) -> PrototypeClassifier:
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
        self.counts_ = np.delete(self.counts_, position)
        self.sums_ = np.delete(self.sums_, position, axis=0)
        self.support_ = self.support_[kept]
        labels = self.support_labels_[kept]
        self.support_labels_ = labels - (labels > position)
        self._recompute()
        return self

    def cosines(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Compute each vector's cosine with the prototype of every class; −1 for classes without vectors."""
        check_is_fitted(self)
        vectors = validate_data(self, X, reset=False, dtype=np.float64)
        cosines = unit(vectors) @ self.unit_prototypes_.T
        cosines[:, self.counts_ == 0] = -1.0
        return cosines

    def predict_proba(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Give each vector the probabilities of the classes, in the order of `classes_`."""
        check_is_fitted(self)
        logits = self.temperature_ * self.cosines(X)
        logits[:, self.counts_ == 0] = -np.inf
        likelihoods = np.exp(logits - logits.max(axis=1, keepdims=True))
        return likelihoods / likelihoods.sum(axis=1, keepdims=True)

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
        return rejected(labels, probabilities.max(axis=1) < reject_below)

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

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Float64[ndarray, "images dim"], ndarray]:
        fit(self.prototype, PrototypeKind, "prototype")
        if self.temperature != "auto" and not _is_positive(self.temperature):
            raise InputError(f"temperature={self.temperature!r} is not usable: give a number above 0, or 'auto'")
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64)
        check_classification_targets(y)
        return X, y

    def _forget(self, y: ndarray) -> None:
        self.classes_ = np.unique(y)[:0]
        self.counts_ = np.zeros(0, dtype=np.int64)
        self.sums_ = np.zeros((0, self.n_features_in_))
        self.support_ = np.zeros((0, self.n_features_in_))
        self.support_labels_ = np.zeros(0, dtype=np.int64)

    def _make_room(self, names: ndarray) -> None:
        """Insert new names among the sorted classes; what is known of the others moves with them, unchanged."""
        if len({isinstance(group.tolist()[0], str) for group in (self.classes_, names) if len(group)}) > 1:
            raise InputError(
                f"classes {named(names)} and {named(self.classes_)} are of different kinds, text and numbers: "
                "name all of them the same way"
            )
        classes = np.union1d(self.classes_, names) if len(self.classes_) else np.unique(names)
        moved_to = np.searchsorted(classes, self.classes_)
        counts, sums = np.zeros(len(classes), dtype=np.int64), np.zeros((len(classes), self.n_features_in_))
        counts[moved_to], sums[moved_to] = self.counts_, self.sums_
        self.classes_, self.counts_, self.sums_ = classes, counts, sums
        self.support_labels_ = moved_to[self.support_labels_]

    def _add(self, X: Float64[ndarray, "images dim"], y: ndarray) -> None:
        self._make_room(np.unique(y))
        labels = np.searchsorted(self.classes_, y)
        np.add.at(self.sums_, labels, unit(X) if self.prototype == "mean_of_normalized" else X)
        self.counts_ += np.bincount(labels, minlength=len(self.classes_))
        self.support_ = np.concatenate((self.support_, X))
        self.support_labels_ = np.concatenate((self.support_labels_, labels))
        self._recompute()

    def _recompute(self) -> None:
        """Compute what follows from the sums and the support: prototypes, best cosines, temperature."""
        self.prototypes_ = self.sums_ / np.maximum(self.counts_, 1)[:, None]
        self.unit_prototypes_ = unit(self.sums_)
        rows = calibration_rows(self.support_labels_, len(self.classes_))
        normalized = self.prototype == "mean_of_normalized"
        judged = leave_one_out(self.support_, self.support_labels_, self.sums_, rows, normalized=normalized)
        cosines = as_if_whole(judged, self.support_, self.support_labels_, self.sums_, normalized=normalized)
        seen = cosines[:, self.counts_ > 0]
        self.support_best_ = np.sort(seen.max(axis=1)) if seen.size else np.zeros(0)
        own = (np.cumsum(self.counts_ > 0) - 1)[judged.labels]
        self.temperature_ = calibrated_temperature(seen, own) if self.temperature == "auto" else float(self.temperature)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(0 < value < np.inf)


def rejected(labels: ndarray, rejects: Bool[ndarray, "images"]) -> ndarray:
    """Replace the labels of rejected images by `unknown`; numbers stay numbers beside it."""
    if labels.dtype.kind == "U":
        return np.where(rejects, UNKNOWN, labels)
    mixed = labels.astype(object)
    mixed[rejects] = UNKNOWN
    return mixed


def check_rejection(reject_below: float | None, classes: ndarray) -> None:
    """Raise `InputError` for a threshold that is no probability, or a class that is itself called `unknown`."""
    if reject_below is None:
        return
    if not 0 <= reject_below <= 1:
        raise InputError(f"reject_below={reject_below} is no probability: give a number from 0 to 1")
    if UNKNOWN in classes.tolist():
        raise InputError(
            f"a class is called {UNKNOWN!r}, which is also the answer for rejected images: rename the class, or do not "
            "reject"
        )


def named(classes: ndarray, most: int = 8) -> str:
    """List a few class names for a message, and how many more there are."""
    names = [str(name) for name in classes[:most].tolist()]
    return ", ".join(names) + (f" and {len(classes) - most:,} more" if len(classes) > most else "")
