"""Accuracy after 10, 20, … 50 labels of pictures that `suggest` chose, against as many chosen at random.

    CPLSR_REAL_DATA=FOLDER python benchmarks/suggest.py [--quick] [--json FILE]

The classifier is what `cplsr classify` uses on the embedded backbone. A draw is eight classes (all, where there are
fewer), one example of each, half of the other pictures to choose from and half to be tested on; labels come ten at a
time, and the classifier learns them before it chooses again. Both sides share the draws, so the difference is paired.
The goal is half the labels: ten chosen ones teach what twenty at random do, and twenty what forty do.

Measured are two domains made by code, or with CPLSR_REAL_DATA the folders in its data/targets, which had no part in
the choice of the method.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from claims import Claim, arguments, report

from cplsr.classifier.backbone_choice import prepared_backbone
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.suggest import suggest
from cplsr.data.open import open_domain
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import embed_domain

WAY, BATCH, BATCHES, DRAWS = 8, 10, 5, 30
Choose = Callable[[EmbeddingClassifier, np.ndarray, int], np.ndarray]


def sources(quick: bool) -> dict[str, str | Path]:
    """What to measure on."""
    if quick:
        return {"radiograph": "procedural:radiograph"}
    if folder := os.environ.get("CPLSR_REAL_DATA"):
        return {path.name: path for path in sorted((Path(folder) / "data" / "targets").iterdir())}
    return {name: f"procedural:{name}" for name in ("radiograph", "dermoscopy")}


def draw(labels: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the examples, of the pictures to choose from, and of those to be tested on."""
    classes = generator.permutation(np.unique(labels))[:WAY]
    shuffled = [generator.permutation(np.flatnonzero(labels == number)) for number in classes]
    examples = np.array([rows[0] for rows in shuffled])
    pool = np.concatenate([rows[1 : len(rows) // 2] for rows in shuffled])
    return examples, pool, np.concatenate([rows[len(rows) // 2 :] for rows in shuffled])


def curve(vectors: np.ndarray, labels: np.ndarray, rows: tuple[np.ndarray, ...], parts: int, choose: Choose) -> list:
    """Accuracy of one draw before the first label and after every ten."""
    examples, pool, test = rows
    classifier = EmbeddingClassifier("auto", parts=parts).fit(vectors[examples], labels[examples])
    accuracies = [classifier.score(vectors[test], labels[test])]
    for _ in range(BATCHES):
        chosen = choose(classifier, vectors[pool], BATCH)
        classifier.partial_fit(vectors[pool[chosen]], labels[pool[chosen]])
        pool = np.delete(pool, chosen)
        accuracies.append(classifier.score(vectors[test], labels[test]))
    return accuracies


def curves(vectors: np.ndarray, labels: np.ndarray, parts: int, draws: int) -> dict[str, np.ndarray]:
    """Both sides, one row for each draw."""
    found: dict[str, list] = {"suggested": [], "random": []}
    for number in range(draws):
        rows = draw(labels, np.random.default_rng((1, number)))
        luck = np.random.default_rng((2, number))
        sides: dict[str, Choose] = {
            "suggested": suggest,
            "random": lambda _, pool, count, luck=luck: luck.permutation(len(pool))[:count],
        }
        for side, choose in sides.items():
            found[side].append(curve(vectors, labels, rows, parts, choose))
    return {side: 100 * np.array(rows) for side, rows in found.items()}


def told(values: np.ndarray) -> list[str]:
    """Means over the draws with 95 % intervals."""
    half = 1.96 * values.std(axis=0, ddof=1) / len(values) ** 0.5
    return [f"{mean:.1f} ±{width:.1f}" for mean, width in zip(values.mean(axis=0), half, strict=True)]


def main() -> None:
    """All domains: the curves, and whether half the labels are enough."""
    options = arguments(__doc__ or "")
    draws = 4 if options.quick else DRAWS
    backbone, claims, tables = prepared_backbone("embedded"), [], {}
    for name, source in sources(options.quick).items():
        embedded = embed_domain(backbone, open_domain(source), cache=EmbeddingCache())
        found = curves(embedded.vectors.astype(np.float64), embedded.labels, backbone.embedding_parts, draws)
        chosen, by_chance = found["suggested"], found["random"]
        rows = {"suggested": told(chosen), "random": told(by_chance), "difference": told(chosen - by_chance)}
        print(f"\n{name}, {draws} draws; accuracy in % after 0, 10, … {BATCH * BATCHES} labels", flush=True)
        for side, cells in rows.items():
            print(f"  {side:<10} {'  '.join(f'{cell:>11}' for cell in cells)}", flush=True)
        tables[name] = {"draws": draws, **{side: values.tolist() for side, values in found.items()}}
        for few in (1, 2):
            text = f"{name}: accuracy, {BATCH * few} labels against {2 * BATCH * few} at random"
            claims.append(Claim(text, float(chosen[:, few].mean()), float(by_chance[:, 2 * few].mean()), "higher", 1))
    report(claims, options.json, curves=tables)


if __name__ == "__main__":
    main()
