"""A saved classifier as one ONNX graph: image tensor in, probabilities of its classes out."""

from __future__ import annotations

from pathlib import Path

import torch

from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.prototype_classifier import PrototypeClassifier
from cplsr.export.exported import Exported
from cplsr.export.to_onnx import PrototypeHead, export_onnx


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


def head_of(classifier: PrototypeClassifier) -> PrototypeHead:
    """Take unit prototypes and temperature from a fitted classifier; classes without images are left out."""
    known = classifier.counts_ > 0
    return PrototypeHead(
        classes=tuple(str(name) for name in classifier.classes_[known].tolist()),
        prototypes=torch.from_numpy(classifier.unit_prototypes_[known]).float(),
        temperature=float(classifier.temperature_),
    )
