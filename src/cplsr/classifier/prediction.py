"""One image's answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from cplsr.classifier.embedding_classifier import UNKNOWN, EmbeddingClassifier


@dataclass(frozen=True)
class Prediction:
    """The classifier's answer for one image.

    Attributes:
        name: The image.
        label: A class, or `unknown` where no class was likely enough.
        confidence: The probability of the likeliest class.
        runner_up: The second likeliest class; of an `unknown` image, the class it would have got.
        runner_up_confidence: The probability of that class.
        known: Whether the label is a class.
        out_of_domain: How unlike the support images it is; see `EmbeddingClassifier.out_of_domain_score`.
        error: Why the image could not be read; all else is then empty.
    """

    name: str
    label: str = ""
    confidence: float | None = None
    runner_up: str = ""
    runner_up_confidence: float | None = None
    known: bool | None = None
    out_of_domain: float | None = None
    error: str = ""


def predictions_of(
    head: EmbeddingClassifier, names: list[str], vectors: Float64[ndarray, "images dim"], reject_below: float | None
) -> list[Prediction]:
    """Label embedded images.

    Args:
        head: A fitted classifier.
        names: What the images are called.
        vectors: Their embeddings.
        reject_below: Answer `unknown` where the likeliest class is less likely than this.
    """
    if len(names) == 0:
        return []
    probabilities = head.predict_proba(vectors)
    unusual = head.out_of_domain_score(vectors)
    rows = np.arange(len(names))
    best = probabilities.argmax(axis=1)
    confidence = probabilities[rows, best]
    probabilities[rows, best] = -1.0
    second = probabilities.argmax(axis=1)
    second_confidence = probabilities[rows, second]
    classes = [str(name) for name in head.classes_.tolist()]
    return [
        _answer(
            name,
            (classes[best[row]], float(confidence[row])),
            (classes[second[row]], float(second_confidence[row])) if len(classes) > 1 else ("", None),
            None if np.isnan(unusual[row]) else float(unusual[row]),
            reject_below,
        )
        for row, name in enumerate(names)
    ]


def _answer(
    name: str,
    first: tuple[str, float],
    second: tuple[str, float | None],
    unusual: float | None,
    reject_below: float | None,
) -> Prediction:
    known = reject_below is None or first[1] >= reject_below
    label, runner_up = (first, second) if known else ((UNKNOWN, first[1]), first)
    return Prediction(name, *label, *runner_up, known=known, out_of_domain=unusual)
