"""Other heads beside the classifier's own on the same support images, each image judged by the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from jaxtyping import Bool
from numpy import ndarray

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import sharing_weights
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.leave_one_out import LEAVE_ONE_OUT_IMAGES
from cplsr.classifier.support_report import CHANCE, Share, chance_of_difference, judge_support
from cplsr.data.domain import Domain
from cplsr.episodes.heads.auto import Auto
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.settings.backbone import Views

PEERS: dict[str, str] = {
    "logistic regression": "logistic:C=100",  # vectors of length one differ little: C = 1 would hardly fit them at all
    "nearest neighbors": "knn",
}
"""Heads that are well known, as `--head` takes them."""


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How well one way to classify recognizes support images that it has not learned.

    `right` says of each image whose class has another one, the same for all methods, whether it was recognized;
    `options` what has to be given to use it, nothing where it is in use.
    """

    method: str
    right: Bool[ndarray, "images"]
    options: str = ""

    @property
    def accuracy(self) -> Share:
        """How many images were recognized, of those that could be left out."""
        return Share.counted(self.right)


def compare_methods(classifier: FewShotClassifier) -> tuple[MethodScore, ...]:
    """Score the classifier's own head, the same without the adapter, the paper's head, and two that are well known.

    Each reads the embeddings as it would if its options were given. A head that was asked for is compared with `auto`.
    """
    own, frozen = classifier.head_, classifier.frozen_head()
    if classifier.tuned_ is not None and frozen is not None:  # tuned embeddings have seen the image that is left out
        own, frozen = frozen, None
    model = "adapter" if classifier.adapter_kind_ else "frozen"
    scores = [MethodScore(f"{own.choice_.head.name}, {model} (in use)", judge_support(own).right)]
    if frozen is not None:
        scores.append(
            MethodScore(f"{frozen.choice_.head.name}, frozen", judge_support(frozen).right, "--adapter frozen")
        )
    if len(own.classes_) < 2 or not len(scores[0].right):
        return tuple(scores)
    if own.choice_.reason == "" and own.head != "auto" and not isinstance(own.head, Auto):
        scores.append(MethodScore("ridge, penalty chosen", _right(own, "auto", own.decay), "--head auto"))
    if not (isinstance(own.choice_.head, Prototypes) and own.choice_.reading.decay is None):
        right = _right(own, "prototypes", None)
        scores.append(MethodScore("prototypes of the last class token", right, "--head prototypes --pooling cls"))
    return (
        *scores,
        *(MethodScore(name, _right(own, head, own.decay), f"--head {head}") for name, head in PEERS.items()),
    )


def compare_embeddings(
    classifier: FewShotClassifier, examples: Domain, backbones: Sequence[str] = ()
) -> tuple[MethodScore, ...]:
    """Score the same classifier with more views of every image than it has, and on other backbones.

    The examples it was fitted to are embedded again, which vectors cannot be; one that was tuned on them is compared
    with nothing.
    """
    if classifier.tuned_ is not None or examples.vectors is not None:
        return ()
    scores, kinds = [], get_args(Views)
    for views in kinds[kinds.index(classifier.backbone_.views) + 1 :]:
        seen = sharing_weights(classifier.backbone_)
        seen.views = views
        scores.append(MethodScore(f"with {views} views", _right_on(classifier, seen, examples), f"--views {views}"))
    for source in backbones:
        scores.append(MethodScore(f"on {source}", _right_on(classifier, source, examples), f"--backbone {source}"))
    return tuple(scores)


def suggestions(scores: tuple[MethodScore, ...]) -> list[str]:
    """Say which option does better than what is in use (the first score), or that none clearly does.

    Clear is what chance explains in less than 5 % of the cases, over all comparisons together (exact McNemar tests,
    Bonferroni). Nothing is said where there is nothing to compare.
    """
    if len(scores) < 2:
        return []
    used, *others = scores
    chances = [chance_of_difference(used.right, other.right) for other in others]
    better = [
        (other.accuracy.right, other, chance)
        for other, chance in zip(others, chances, strict=True)
        if other.accuracy.right > used.accuracy.right and chance < CHANCE / len(others)
    ]
    if not better:
        return ["Nothing in the table is clearly better than what is in use: classify as it is."]
    right, best, chance = max(better, key=lambda row: row[0])
    return [
        f"Better on these images: {best.method}, {right:,} of {best.accuracy.of:,} instead of {used.accuracy.right:,} "
        f"(chance {chance:.3f}). To use it, give classify {best.options}."
    ]


def how_left_out(images: int) -> str:
    """Say how images were left out where a head has to be fitted again for it."""
    each = "each image left out in turn"
    return each if images <= LEAVE_ONE_OUT_IMAGES else f"{each}; logistic and nearest neighbors: stratified folds"


def _right(own: EmbeddingClassifier, head: str, decay: Any) -> Bool[ndarray, "images"]:
    """Which images another head recognizes."""
    other = EmbeddingClassifier(head, parts=own.parts, decay=decay)
    other.fit(own.support_, own.classes_[own.support_labels_])
    return judge_support(other).right


def _right_on(classifier: FewShotClassifier, backbone: str | Backbone, examples: Domain) -> Bool[ndarray, "images"]:
    """Which images the same classifier recognizes on another backbone."""
    settings = classifier.get_params() | {"backbone": backbone, "adapter": None, "views": None}
    return judge_support(type(classifier)(**settings).fit(examples).head_).right
