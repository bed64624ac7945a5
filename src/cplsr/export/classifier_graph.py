"""A saved classifier as one ONNX graph: image tensor in, probabilities of its classes out."""

from __future__ import annotations

from pathlib import Path

import torch

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.errors import InputError
from cplsr.export.exported import Exported
from cplsr.export.to_onnx import LinearHead, export_onnx


def export_classifier(
    folder: str | Path, path: str | Path, *, backbone: str | None = None, raw_pixels: bool = False
) -> Exported:
    """Write a saved classifier as one `.onnx` file that gives class probabilities; see `export_onnx`.

    Args:
        folder: where the classifier is saved.
        path: the file to write; nothing is overwritten.
        backbone: where its backbone is now, if it has moved.
        raw_pixels: the input is `uint8`, and the graph normalizes it; otherwise it is normalized floats.
    """
    classifier = FewShotClassifier.load(folder, backbone=backbone, device="cpu")
    return export_onnx(classifier.backbone_, path, raw_pixels=raw_pixels, head=head_of(classifier.head_))


def head_of(classifier: EmbeddingClassifier) -> LinearHead:
    """Take weights and temperature from a fitted classifier; classes without images are left out.

    Raises:
        InputError: The scores of its head are no linear function of the embedding.
    """
    if classifier.linear_ is None:
        name = classifier.choice_.head.name
        raise InputError(f"a classifier with the head {name} has no weights to export: fit it with ridge or prototypes")
    weights, offsets = classifier.linear_
    return LinearHead(
        classes=tuple(str(name) for name in classifier.classes_[classifier.counts_ > 0].tolist()),
        scale=torch.from_numpy(classifier.scale_).float(),
        weights=torch.from_numpy(weights).float(),
        offsets=torch.from_numpy(offsets).float(),
        temperature=float(classifier.temperature_),
    )
