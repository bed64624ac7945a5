"""How deep a classifier reads its embeddings, and with which head: as asked for, or as the support images like it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from cplsr.classifier.even_sample import even_rows_by_class
from cplsr.episodes.heads.auto import (
    LAST_TOKEN,
    USUAL,
    Auto,
    Reading,
    choose,
    left_out_errors,
    part_products,
    spreads_of_classes,
    weights_of,
)
from cplsr.episodes.heads.head import Head
from cplsr.episodes.heads.ridge import Ridge

MOST_IMAGES = 500
"""From more support images than this an even sample is asked: it is enough to choose, and so many choices take time."""


@final
@dataclass(frozen=True)
class Choice:
    """What turns embeddings into scores.

    Attributes:
        head: The head.
        reading: Which blocks of the backbone it sees.
        reason: Why, in words; empty where it was asked for.
    """

    head: Head
    reading: Reading
    reason: str = ""

    def sentence(self) -> str:
        """Say it in one sentence; empty where it was asked for."""
        if not self.reason:
            return ""
        penalty = f" (penalty {self.head.penalty:g})" if isinstance(self.head, Ridge) else ""
        return f"Head: {self.head.name}{penalty}, reading {_blocks(self.reading)}: {self.reason}."


def _blocks(reading: Reading) -> str:
    """Which blocks a reading sees, in words."""
    if reading.decay is None:
        return "the last class token alone"
    if reading.decay == 0:
        return "the last block alone"
    differently = []
    if reading.decay < 1:
        differently.append(f"each counting {reading.decay:g} of the one above")
    if reading.tilt > 0:
        differently.append(f"the upper ones more the better the network knows such images (tilt {reading.tilt:g})")
    if reading.favor > 0:
        differently.append(f"more where they tell the classes apart (favor {reading.favor:g})")
    return f"all blocks, {' and '.join(differently)}" if differently else "all blocks alike"


def fixed_choice(head: Head, decay: Any) -> Choice:
    """A head that was asked for, on the reading that was, or on the usual one where none was.

    Args:
        head: The head.
        decay: A `Reading`, or `auto` for the usual one, or the decay of one without favor and tilt.
    """
    if isinstance(decay, Reading):
        return Choice(head, decay)
    return Choice(head, USUAL if decay == "auto" else replace(LAST_TOKEN, decay=decay))


def choose_reading(head: Auto, support: Float64[ndarray, "images dim"], labels: Int64[ndarray, "images"]) -> Choice:
    """Choose by leaving out each support image in turn; see `choose`.

    Args:
        head: What to choose from.
        support: Embeddings of the support images.
        labels: The class of each.
    """
    rows = even_rows_by_class(labels, MOST_IMAGES)
    vectors, classes = torch.from_numpy(support[rows]), torch.from_numpy(labels[rows])
    readings, way = head.readings(), int(labels.max()) + 1
    weights = weights_of(readings, spreads_of_classes(vectors, classes, way, head.parts))
    errors = left_out_errors(part_products(vectors, vectors, head.parts), classes, way, readings, weights)
    number = int(choose(errors, classes, head.usual))
    asked = classes.bincount()[classes] > 1
    if not asked.any():
        reason = "the usual choice, because no class has two images to choose by"
    elif number == head.usual:
        reason = "the usual choice, because no other is clearly better on the images left out in turn"
    else:
        of_usual, best = (float(errors[row, asked].mean()) for row in (head.usual, number))
        reason = (
            f"its squared error on the images left out in turn is {best:.3f}, that of the usual choice {of_usual:.3f}"
        )
    return Choice(Ridge(readings[number].penalty), readings[number], reason)
