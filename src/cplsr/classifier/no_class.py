"""Answers that are no class: `unknown` where none is likely enough, `unreadable` where there is no picture."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from cplsr.errors import InputError

UNKNOWN = "unknown"
"""What `predict` answers instead of a class when no class is likely enough."""

UNREADABLE = "unreadable"
"""The label of an image that cannot be read."""

OnError = Literal["raise", "skip", "label"]
"""What becomes of an image that cannot be read: an error, nothing, or an answer that says so."""


def check_rejection(reject_below: float | None, classes: ndarray) -> None:
    """Raise `InputError` for a threshold that is no probability, or a class that is itself called `unknown`."""
    if reject_below is None:
        return
    if not 0 <= reject_below <= 1:
        raise InputError(f"reject_below={reject_below} is no probability: give a number from 0 to 1")
    _refuse_class(UNKNOWN, classes, "rejected images", "do not reject")


def check_on_error(on_error: str, classes: ndarray) -> None:
    """Raise `InputError` for a word that is no choice, or a class that is itself called `unreadable`."""
    if on_error not in ("raise", "skip", "label"):
        raise InputError(f"on_error={on_error!r} is not usable: give 'raise', 'skip' or 'label'")
    if on_error == "label":
        _refuse_class(UNREADABLE, classes, "images that cannot be read", "give on_error='skip'")


def _refuse_class(word: str, classes: ndarray, images: str, advice: str) -> None:
    if word in classes.tolist():
        raise InputError(
            f"a class is called {word!r}, which is also the answer for {images}: rename the class, or {advice}"
        )


def labels_or(word: str, labels: ndarray, where: Bool[ndarray, "images"]) -> ndarray:
    """The labels at the places `where` there is one, and a word at the others; numbers stay numbers beside it."""
    kind = np.dtype(f"U{max(len(word), labels.dtype.itemsize // 4)}") if labels.dtype.kind == "U" else object
    answers = np.full(len(where), word, dtype=kind)
    answers[where] = labels
    return answers


def pass_over(on_error: OnError, failed: Sequence[tuple[str, str]], images: int) -> None:
    """Say which of so many images (name, reason) cannot be read: an error, or a warning where they are skipped."""
    if on_error == "label" or not failed:
        return
    name, reason = failed[0]
    if on_error == "raise":
        raise InputError(
            f"{name} cannot be read ({reason}); {len(failed):,} of {images:,} images are like that: leave them out, "
            "give on_error='skip' or 'label' to predict, or use predict_table(), which names them"
        )
    warnings.warn(
        f"{len(failed):,} of {images:,} images cannot be read and are skipped, the first is {name}: {reason}",
        stacklevel=3,
    )
