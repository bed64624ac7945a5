"""The public names as a program with strict type checking uses them."""

from __future__ import annotations

from pathlib import Path

import cplsr


def measure(folder: Path, adapter: Path) -> dict[str, float]:
    """Accuracy of the frozen backbone and of an adapter on a folder of images."""
    backbone: cplsr.Backbone = cplsr.load_backbone("embedded", pooling="depth")
    domain: cplsr.Domain = cplsr.open_domain(folder)
    settings = cplsr.EpisodeSettings(episodes=100, shots=(1, 5))
    results: cplsr.Results = cplsr.evaluate(
        backbone, {domain.name: domain}, adapters=[("mine", adapter)], settings=settings, heads=["ridge"]
    )
    return {row.method: row.accuracy for row in results.rows}


def train(folder: Path, out: Path) -> Path:
    """An adapter of one's own images."""
    settings = cplsr.TrainingSettings(episodes=20, shot=5)
    result: cplsr.TrainingResult = cplsr.train(
        cplsr.load_backbone("embedded"), cplsr.open_domain(folder), out=out, settings=settings
    )
    return result.folder


def classify(examples: Path, others: Path) -> list[str]:
    """Labels of the images in a folder."""
    classifier = cplsr.FewShotClassifier(cplsr.load_backbone("embedded", pooling="depth"))
    try:
        classifier.fit(examples)
    except cplsr.InputError as error:
        raise SystemExit(str(error)) from error
    table: cplsr.PredictionTable = classifier.predict_table(others, reject_below=0.5)
    unread = [row.name for row in table if row.error]
    return [str(label) for label in classifier.predict(others, on_error="skip")] if unread else table.labels
