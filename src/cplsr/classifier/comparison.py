"""Other heads beside the classifier's own on the same support images, each image judged by the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Bool
from numpy import ndarray

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.leave_one_out import LEAVE_ONE_OUT_IMAGES
from cplsr.classifier.support_report import Share, judge_support
from cplsr.episodes.heads import Head
from cplsr.episodes.heads.knn import Knn
from cplsr.episodes.heads.logistic import Logistic
from cplsr.episodes.heads.prototypes import Prototypes

if TYPE_CHECKING:
    from cplsr.classifier.few_shot_classifier import FewShotClassifier

PEERS: dict[str, Head] = {
    # Vectors of length one differ little, so the usual C = 1 would hardly fit them at all.
    "logistic regression": Logistic(C=100.0),
    "nearest neighbors": Knn(),
}


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How well one way to classify recognizes support images that it has not learned.

    Attributes:
        method: Its name.
        right: For each image whose class has another one, whether it was recognized; the same images for all methods.
    """

    method: str
    right: Bool[ndarray, "images"]

    @property
    def accuracy(self) -> Share:
        """How many images were recognized, of those that could be left out."""
        return Share(int(self.right.sum()), len(self.right))


def compare_methods(classifier: FewShotClassifier) -> tuple[MethodScore, ...]:
    """Score the classifier's own head, the same without the adapter, the paper's head, and two that are well known.

    The paper's head reads the last class token, the others what the classifier reads.
    """
    own, frozen = classifier.head_, classifier.frozen_head()
    if classifier.tuned_ is not None and frozen is not None:  # tuned embeddings have seen the image that is left out
        own, frozen = frozen, None
    model = "adapter" if classifier.adapter_kind_ else "frozen"
    scores = [MethodScore(f"{own.choice_.head.name}, {model} (in use)", judge_support(own).right)]
    if frozen is not None:
        scores.append(MethodScore(f"{frozen.choice_.head.name}, frozen", judge_support(frozen).right))
    if len(own.classes_) < 2 or not len(scores[0].right):
        return tuple(scores)
    if not (isinstance(own.choice_.head, Prototypes) and own.choice_.reading.decay is None):
        scores.append(MethodScore("prototypes of the last class token", _right(own, Prototypes(), None)))
    return (*scores, *(MethodScore(name, _right(own, head, own.choice_.reading.decay)) for name, head in PEERS.items()))


def how_left_out(images: int) -> str:
    """Say how images were left out where a head has to be fitted again for it."""
    each = "each image left out in turn"
    return each if images <= LEAVE_ONE_OUT_IMAGES else f"{each}; logistic and nearest neighbors: stratified folds"


def _right(own: EmbeddingClassifier, head: Head, decay: float | None) -> Bool[ndarray, "images"]:
    """Which images another head recognizes."""
    other = EmbeddingClassifier(head, parts=own.parts, decay=decay)
    other.fit(own.support_, own.classes_[own.support_labels_])
    return judge_support(other).right
