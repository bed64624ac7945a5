"""What of a classifier goes into an ONNX graph, beside its backbone."""

from __future__ import annotations

import torch

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.errors import InputError
from cplsr.export.to_onnx import LinearHead


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
