"""The labeled examples of a classifier, in whatever form they are given."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from cplsr.classifier.embed_pictures import Embedded
from cplsr.classifier.embedding_classifier import named
from cplsr.classifier.pictures import as_pictures, picture_names, told_skipped
from cplsr.data.domain import Domain
from cplsr.data.open import open_domain
from cplsr.errors import InputError


def labeled_pictures(X: Any, y: Any) -> tuple[Any, ndarray]:
    """Images and a label for each; without `y` the images must bring their labels, as a folder of folders does."""
    if y is None:
        if isinstance(X, (str, os.PathLike)):
            X = told_skipped(X, open_domain(X if isinstance(X, str) else Path(X)))
        if not isinstance(X, Domain):
            raise InputError("images were given without labels: give y, or a folder with one folder per class")
        return X, np.array(X.classes)[X.labels]
    pictures = as_pictures(X)
    labels = np.asarray(y)
    if labels.dtype.kind == "O":
        labels = np.array([str(label) for label in labels.tolist()])
    if labels.ndim != 1 or len(labels) != len(pictures):
        raise InputError(f"{len(pictures)} images were given with labels of shape {labels.shape}: give one label each")
    return pictures, labels


def report_failed(pictures: Any, labels: ndarray, support: Embedded) -> None:
    """Warn of support images that cannot be read; raise `InputError` if nothing of some class is left."""
    names = picture_names(pictures)
    index, reason = support.failed[0]
    lost = np.setdiff1d(labels, labels[support.indices])
    if len(lost):
        raise InputError(
            f"no image of the class {named(lost)} can be read ({names[index]}: {reason}): give images that can be "
            "opened, or leave the class out"
        )
    warnings.warn(
        f"{len(support.failed)} of {len(names)} support images cannot be read and are left out, the first is "
        f"{names[index]}: {reason}",
        stacklevel=4,
    )
