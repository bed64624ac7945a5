"""Label these next: the unlabeled pictures whose labels would teach a classifier most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from sklearn.utils.validation import check_is_fitted

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.even_sample import even_rows
from cplsr.classifier.prediction import Prediction
from cplsr.episodes.heads.auto import USUAL
from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError

MOST_PICTURES = 3000
"""Of more pictures than this an even sample is looked at, because all pairs of them are."""

NEAR = 0.2
"""Two classes whose probabilities differ by less are told as a doubt between them."""


@dataclass(frozen=True)
class Suggestion:
    """A picture to label next: its position among the pictures given, and the answer at present."""

    index: int
    guess: Prediction

    @property
    def reason(self) -> str:
        """Why its label would teach much, in words."""
        guess = self.guess
        if guess.runner_up and (guess.confidence or 0.0) - (guess.runner_up_confidence or 0.0) < NEAR:
            return f"in doubt between {guess.label} and {guess.runner_up}"
        if (guess.out_of_domain or 0.0) >= 0.95:
            return "unlike the examples"
        return "stands for pictures in doubt"


def suggest(
    classifier: EmbeddingClassifier, vectors: Float[ndarray, "images dim"], count: int = 10
) -> Int64[ndarray, "some"]:
    """Choose the pictures whose labels would teach most: in doubt, unlike the examples, and unlike each other.

    Ridge regression is the mean of a Gaussian process whose covariance c of two unlabeled pictures, given the examples,
    does not depend on labels. A label of picture j takes c_ij² / (c_jj + λ) from the variance of picture i. The picture
    that takes most from all of them, each counting 1 − Σ p² by its probabilities p now, is chosen, c is brought up to
    date as if it had its label, and so on. With heads other than ridge regression, its usual penalty is taken for λ.

    Returns:
        Positions of the pictures, the one that teaches most first; all of them if there are no more than `count`.

    Example:
        >>> import numpy as np
        >>> from cplsr.classifier.embedding_classifier import EmbeddingClassifier
        >>> model = EmbeddingClassifier("ridge").fit([[1.0, 0.0], [0.0, 1.0]], ["east", "north"])
        >>> suggest(model, np.array([[1.0, 0.01], [0.1, 1.0], [-1.0, -1.0]]), count=1).tolist()
        [2]
    """
    check_is_fitted(classifier)
    if count < 1:
        raise InputError(f"{count} pictures to label were asked for: ask for 1 or more")
    rows = even_rows(len(vectors), max(MOST_PICTURES, count))
    if len(rows) == 0:
        return rows
    head = classifier.choice_.head
    penalty = head.penalty if isinstance(head, Ridge) else USUAL.penalty
    pictures = vectors[rows].astype(np.float64)
    doubt = 1.0 - (classifier.predict_proba(pictures) ** 2).sum(axis=1)
    covariance = covariance_given(unit(classifier.read(classifier.support_)), unit(classifier.read(pictures)), penalty)
    return rows[most_explaining(covariance, doubt, penalty, min(count, len(rows)))]


def covariance_given(
    support: Float64[ndarray, "support dim"], pictures: Float64[ndarray, "images dim"], penalty: float
) -> Float64[ndarray, "images images"]:
    """K_qq − K_qs (K_ss + λ I)⁻¹ K_sq, K being inner products: what the support leaves open of the pictures."""
    across = pictures @ support.T
    known = support @ support.T + penalty * np.eye(len(support))
    return pictures @ pictures.T - across @ np.linalg.solve(known, across.T)


def most_explaining(
    covariance: Float64[ndarray, "images images"], weights: Float64[ndarray, "images"], penalty: float, count: int
) -> Int64[ndarray, "count"]:
    """Choose pictures one by one, each the one that takes most from the weighted sum of the variances of all.

    The penalty is the variance λ of a label.
    """
    left, chosen = covariance.copy(), np.zeros(count, dtype=np.int64)
    free = np.ones(len(left), dtype=bool)
    for number in range(count):
        gains = weights @ left**2 / (left.diagonal().clip(min=0.0) + penalty)
        best = int(np.where(free, gains, -np.inf).argmax())
        chosen[number], free[best] = best, False
        column = left[:, best].copy()
        left -= np.outer(column, column) / (column[best] + penalty)
    return chosen
