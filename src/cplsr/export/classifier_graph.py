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
    """Write the classifier saved in `folder` as the file `path`; see `export_onnx`.

    backbone: where its backbone is now, if it has moved.
    """
    classifier = FewShotClassifier.load(folder, backbone=backbone, device="cpu")
    return export_onnx(classifier.backbone_, path, raw_pixels=raw_pixels, head=head_of(classifier.head_))


def head_of(classifier: PrototypeClassifier) -> PrototypeHead:
    """Unit prototypes and temperature of a fitted classifier; classes without images have no probability, no place."""
    known = classifier.counts_ > 0
    return PrototypeHead(
        classes=tuple(str(name) for name in classifier.classes_[known].tolist()),
        prototypes=torch.from_numpy(classifier.unit_prototypes_[known]).float(),
        temperature=float(classifier.temperature_),
    )
