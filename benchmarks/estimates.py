"""Whether the accuracy that a support set announces comes true: coverage of its 95 % interval, and its bias.

Thousands of support sets are drawn: eight classes (five of a set that has fewer than eight), n examples of each. What
`evaluate_support` expects, from the examples alone, is compared with the accuracy on all other images of these classes.
Embedded backbone with the adapter that comes with it, all blocks, head `auto`, as `cplsr classify` has them.

The four procedural domains are for validation, like the photos in `data/base/val` and `data/base_hires/val` of the
folder that CPLSR_REAL_DATA names: on these the two constants of `cplsr.classifier.expectation` were found. The targets
below `data/targets` had no part in it. Without the folder the procedural domains alone are measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from claims import Claim, arguments, report

from cplsr.classifier.backbone_choice import prepared_backbone
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.expectation import expected_accuracy
from cplsr.data.open import open_domain
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import embed_domain

VALIDATION = {name: f"procedural:{name}" for name in ("radiograph", "dermoscopy", "landcover", "leaf")}
PHOTOS = {"photos, 64 px": "base/val", "photos": "base_hires/val"}
TARGETS = ("EuroSAT", "CropDisease", "ISIC", "ChestX")
OTHER_WAYS = {"CropDisease": (3, 20)}
SHOTS = (2, 3, 5, 10)
WAY, FEWER = 8, 5
DRAWS = 200
COVERAGE, BIAS = (0.93, 0.97), 0.02


@dataclass(frozen=True)
class Row:
    """Draws of one kind: for each the true accuracy, what was expected, and the ends of the interval."""

    name: str
    way: int
    shot: int
    truth: np.ndarray
    expected: np.ndarray

    @property
    def coverage(self) -> float:
        """The share of the draws whose truth lies in the interval, ends as they are announced (whole percents)."""
        low, high = np.floor(100 * self.expected[:, 1]) / 100, np.ceil(100 * self.expected[:, 2]) / 100
        return float(((low <= self.truth) & (self.truth <= high)).mean())

    @property
    def bias(self) -> float:
        """The mean of expected − true accuracy."""
        return float((self.expected[:, 0] - self.truth).mean())

    def line(self) -> str:
        """The row of the table."""
        error = self.expected[:, 0] - self.truth
        width = (self.expected[:, 2] - self.expected[:, 1]).mean()
        return (
            f"{self.name:<14} {self.way:>3} {self.shot:>4} {self.truth.mean():>8.1%} {100 * self.bias:>+7.1f} "
            f"± {196 * error.std() / len(error) ** 0.5:<4.1f} {self.coverage:>8.1%} {100 * width:>7.0f}"
        )

    def claims(self) -> list[Claim]:
        """The goals: coverage between 93 and 97 %, bias of at most 2 points either way."""
        name = f"{self.name}, {self.way} classes, {self.shot} examples: "
        least, most = COVERAGE
        return [
            Claim(name + "coverage at least", self.coverage, least, "higher", 1),
            Claim(name + "coverage at most", self.coverage, most, "lower", 1),
            Claim(name + "bias either way", abs(self.bias), BIAS, "lower", 1),
        ]


def sources(quick: bool) -> dict[str, str]:
    """Name and source of every set that is at hand."""
    found = dict(list(VALIDATION.items())[: 1 if quick else None])
    if (place := os.environ.get("CPLSR_REAL_DATA")) and not quick:
        data = Path(place) / "data"
        found |= {name: str(data / part) for name, part in PHOTOS.items()}
        found |= {name: str(data / "targets" / name) for name in TARGETS}
    return found


def draw(
    vectors: np.ndarray, labels: np.ndarray, parts: int, way: int, shot: int, generator: np.random.Generator
) -> tuple[float, tuple[float, float, float]]:
    """One support set: the accuracy on all other images of its classes, and what was expected."""
    support, others, truth = [], [], []
    for label, name in enumerate(generator.permutation(labels.max() + 1)[:way]):
        rows = generator.permutation(np.flatnonzero(labels == name))
        support.append(rows[:shot])
        others.append(rows[shot:])
        truth.append(np.full(len(rows) - shot, label))
    head = EmbeddingClassifier("auto", temperature=1.0, parts=parts)
    head.fit(vectors[np.concatenate(support)], np.repeat(np.arange(way), shot))
    accuracy = float((head.predict(vectors[np.concatenate(others)]) == np.concatenate(truth)).mean())
    expected = expected_accuracy(head)
    if expected is None:
        raise RuntimeError("support sets of one example per class have no estimate")
    return accuracy, (expected.accuracy, expected.low, expected.high)


def rows(quick: bool) -> Iterator[Row]:
    """Measure every set, with every number of examples."""
    backbone = prepared_backbone("embedded")
    for name, source in sources(quick).items():
        embedded = embed_domain(backbone, open_domain(source), cache=EmbeddingCache())
        vectors, labels = embedded.vectors, embedded.labels
        usual = WAY if len(embedded.classes) >= WAY else FEWER
        for way in (usual, *(() if quick else OTHER_WAYS.get(name, ()))):
            for shot in (2, 5) if quick else SHOTS:
                generator = np.random.default_rng([sum(name.encode()), way, shot])
                draws = 30 if quick else DRAWS
                drawn = [draw(vectors, labels, backbone.embedding_parts, way, shot, generator) for _ in range(draws)]
                truth, expected = zip(*drawn, strict=True)
                yield Row(name, way, shot, np.array(truth), np.array(expected))


def main() -> None:
    """Print the table row by row, then the claims."""
    options = arguments(__doc__ or "")
    print("data           way shot     true    bias (95 %)  coverage  width", flush=True)
    claims = []
    for row in rows(options.quick):
        print(row.line(), flush=True)
        claims += row.claims()
    report(claims, options.json)


if __name__ == "__main__":
    main()
