"""What a support set says about itself, before anything else is labeled: what to expect, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from cplsr.classifier.embedding_classifier import EmbeddingClassifier, named
from cplsr.classifier.expectation import Expectation, expected_accuracy
from cplsr.evaluation.intervals import wilson_interval

DOUBTFUL_ODDS = 4.0
"""An image is doubtful when another class is this many times likelier than its own."""
CHANCE = 0.05
SHOWN = 5


@dataclass(frozen=True)
class Share:
    """A proportion that was counted, such as 17 images recognized out of 20 (maybe out of 0), and how certain it is."""

    right: int
    of: int

    @classmethod
    def counted(cls, right: Bool[ndarray, "images"]) -> Share:
        """The share of images that were recognized."""
        return cls(int(right.sum()), len(right))

    @property
    def value(self) -> float | None:
        """The proportion, 0 to 1; `None` if nothing was looked at."""
        return self.right / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the proportion (Wilson's); 0 to 1 if nothing was looked at."""
        return wilson_interval(self.value or 0.0, float(self.of))


@dataclass(frozen=True)
class ClassReport:
    """A class, its support images, and how many of them get its label when left out and labeled from the others."""

    name: str
    images: int
    recognized: Share


@dataclass(frozen=True)
class Confusion:
    """How many images of one class (`actual`), when left out, were taken for another (`taken_for`)."""

    actual: str
    taken_for: str
    images: int


@dataclass(frozen=True)
class DoubtfulImage:
    """A support image, by name and position, that looks like another class than it was labeled with.

    `odds` is how many times likelier that class is than its own.
    """

    name: str
    index: int
    label: str
    looks_like: str
    odds: float


@dataclass(frozen=True)
class FrozenComparison:
    """How many of the same support images are recognized without the adapter and with it, and only so.

    `chance` is how probable a difference at least as large is if neither is better (exact McNemar test).
    """

    frozen: Share
    adapter: Share
    only_frozen: int
    only_adapter: int
    chance: float

    @property
    def recommended(self) -> str:
        """The better one, `frozen` or `adapter`, or `no clear difference` where chance explains the difference."""
        if self.chance >= CHANCE:
            return "no clear difference"
        return "adapter" if self.only_adapter > self.only_frozen else "frozen"


@dataclass(frozen=True)
class SupportReport:
    """What to expect from a support set; but for `expected`, found by leaving out each image in turn.

    Attributes:
        images: How many support images there are.
        classes: A report on each class.
        expected: The accuracy on new images of the same kind; `None` if no class has two images.
        recognized: Images recognized when left out, of those whose class has another image. As their class has one
            image less then and the others do not, this is less than new images can expect; it serves to compare.
        confusions: Classes that are taken for others, the most frequent confusion first.
        doubtful: Images whose labels may be wrong, the most doubtful first.
        needs_more: Classes that more pictures would help, the neediest first.
        temperature: The classifier's temperature.
        choice: Which head the classifier chose and why, in a sentence; empty where it was asked for.
        comparison: With the frozen backbone, where an adapter is in use and images (not embeddings) were given.
        tuned: Whether the classifier was then tuned on these images; all that is said here is of before.
    """

    images: int
    classes: tuple[ClassReport, ...]
    expected: Expectation | None
    recognized: Share
    confusions: tuple[Confusion, ...]
    doubtful: tuple[DoubtfulImage, ...]
    needs_more: tuple[str, ...]
    temperature: float
    choice: str
    comparison: FrozenComparison | None = None
    tuned: bool = False

    def sentences(self) -> list[str]:
        """Tell the report in plain sentences, the most important first."""
        confusions = ", ".join(f"{c.actual} taken for {c.taken_for} ({c.images:,})" for c in self.confusions[:SHOWN])
        told = [
            f"Confusions to expect: {confusions}." if confusions else "",
            self._about_doubtful(),
            f"More pictures would help most for: {', '.join(self.needs_more)}." if self.needs_more else "",
            self.choice,
            self._about_adapter(),
        ]
        return [self.expectation(), *filter(None, told)]

    def expectation(self) -> str:
        """Say in one sentence what share of new images of the same kind will be labeled correctly."""
        if self.expected is None:
            return (
                "No class has two images, so nothing can be said about accuracy: give at least one more image of every "
                "class."
            )
        tuned = " Tuning on your examples came after that and is not judged here." if self.tuned else ""
        return self.expected.sentence() + tuned

    def _about_doubtful(self) -> str:
        suspects = [f"{d.name} (labeled {d.label}, looks like {d.looks_like})" for d in self.doubtful]
        return f"Look at the labels of: {named(suspects, SHOWN)}." if suspects else ""

    def _about_adapter(self) -> str:
        if self.comparison is None:
            return ""
        c = self.comparison
        counts = f"frozen recognizes {c.frozen.right:,}, the adapter {c.adapter.right:,} of {c.adapter.of:,}"
        if c.recommended == "no clear difference":
            return f"Frozen or adapter: no clear difference on these images ({counts}; chance {c.chance:.2f})."
        how = "--adapter frozen leaves the adapter out" if c.recommended == "frozen" else "it is in use"
        return f"Recommended: {c.recommended} ({counts}; chance {c.chance:.3f}); {how}."


@dataclass(frozen=True, eq=False)
class SupportJudgment:
    """How the support images that could be left out, by position and class, are labeled by the others.

    `others` are the likeliest classes besides their own, `log_odds` the logarithms of how many times likelier.
    """

    rows: Int64[ndarray, "images"]
    labels: Int64[ndarray, "images"]
    predicted: Int64[ndarray, "images"]
    others: Int64[ndarray, "images"]
    log_odds: Float64[ndarray, "images"]

    @property
    def right(self) -> ndarray:
        """Which images were recognized."""
        return self.predicted == self.labels


def judge_support(head: EmbeddingClassifier) -> SupportJudgment:
    """Leave out every support image whose class has another one, and label it from the others."""
    parts = []
    for judged in head.left_out():
        scores, labels = judged.scores, head.support_labels_[judged.rows]
        own = np.arange(len(labels)), labels
        scores[:, head.counts_ == 0] = -np.inf
        predicted = scores.argmax(axis=1)
        own_scores = scores[own]
        scores[own] = -np.inf
        others = scores.argmax(axis=1)
        log_odds = head.temperature_ * (scores.max(axis=1) - own_scores)
        parts.append((judged.rows, labels, predicted, others, log_odds))
    return SupportJudgment(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def report_on_support(
    head: EmbeddingClassifier,
    names: tuple[str, ...],
    frozen: EmbeddingClassifier | None = None,
    *,
    tuned: bool = False,
) -> SupportReport:
    """Report on the support set of a fitted classifier, or if it was then `tuned`, of what it was before.

    `frozen` is fitted to the same images without the adapter, to compare with.
    """
    judged = judge_support(head)
    names_of_classes = [str(name) for name in head.classes_.tolist()]
    classes = _class_reports(names_of_classes, head.counts_, judged)
    return SupportReport(
        images=len(head.support_),
        classes=classes,
        expected=expected_accuracy(head),
        recognized=Share.counted(judged.right),
        confusions=_confusions(names_of_classes, judged),
        doubtful=_doubtful(names_of_classes, judged, names),
        needs_more=_needs_more(classes),
        temperature=head.temperature_,
        choice=head.choice_.sentence(),
        comparison=None if frozen is None else compare_with_frozen(judge_support(frozen), judged),
        tuned=tuned,
    )


def compare_with_frozen(frozen: SupportJudgment, adapter: SupportJudgment) -> FrozenComparison:
    """Compare two judgments of the same images, image by image."""
    return FrozenComparison(
        frozen=Share.counted(frozen.right),
        adapter=Share.counted(adapter.right),
        only_frozen=int((frozen.right & ~adapter.right).sum()),
        only_adapter=int((adapter.right & ~frozen.right).sum()),
        chance=chance_of_difference(frozen.right, adapter.right),
    )


def chance_of_difference(one: Bool[ndarray, "images"], other: Bool[ndarray, "images"]) -> float:
    """How probable a difference at least as large is if neither recognizes more (exact McNemar test)."""
    from scipy.stats import binomtest

    differing = int((one != other).sum())
    return float(binomtest(int((one & ~other).sum()), differing, 0.5).pvalue) if differing else 1.0


def _class_reports(names: list[str], counts: ndarray, judged: SupportJudgment) -> tuple[ClassReport, ...]:
    of = np.bincount(judged.labels, minlength=len(names))
    right = np.bincount(judged.labels[judged.right], minlength=len(names))
    return tuple(
        ClassReport(name, int(images), Share(int(r), int(n)))
        for name, images, r, n in zip(names, counts, right, of, strict=True)
    )


def _confusions(names: list[str], judged: SupportJudgment) -> tuple[Confusion, ...]:
    wrong = ~judged.right
    pairs = np.stack((judged.labels[wrong], judged.predicted[wrong]), axis=1)
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(Confusion(names[kinds[k, 0]], names[kinds[k, 1]], int(counts[k])) for k in order)


def _doubtful(classes: list[str], judged: SupportJudgment, names: tuple[str, ...]) -> tuple[DoubtfulImage, ...]:
    suspects = np.flatnonzero(judged.log_odds >= np.log(DOUBTFUL_ODDS))
    order = suspects[np.argsort(-judged.log_odds[suspects], kind="stable")]
    return tuple(
        DoubtfulImage(
            name=names[judged.rows[k]],
            index=int(judged.rows[k]),
            label=classes[judged.labels[k]],
            looks_like=classes[judged.others[k]],
            odds=float(np.exp(min(judged.log_odds[k], 700.0))),
        )
        for k in order
    )


def _needs_more(classes: tuple[ClassReport, ...]) -> tuple[str, ...]:
    """Classes with a single image first, then those recognized less often than the average class, worst first."""
    single = [report.name for report in classes if report.recognized.value is None]
    known = [(report.recognized.value, report.images, report.name) for report in classes if report.recognized.of]
    average = sum(value or 0.0 for value, _, _ in known) / max(len(known), 1)
    below = [name for value, _, name in sorted(known, key=lambda row: row[:2]) if value is not None and value < average]
    return (*single, *below)[:SHOWN]
