"""How deep a classifier reads its embeddings, and with which head: as asked for, or as the support images like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from cplsr.classifier.even_sample import even_rows_by_class
from cplsr.episodes.heads.auto import USUAL, Auto, Reading, choose, left_out_errors, likeness_of_classes, part_products
from cplsr.episodes.heads.head import Head
from cplsr.episodes.heads.ridge import Ridge

MOST_IMAGES = 500
"""From more support images than this an even sample is asked: it is enough to choose, and thirty choices take time."""


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
        decay = self.reading.decay
        blocks = (
            "the last class token alone"
            if decay is None
            else "the last block alone"
            if decay == 0
            else "all blocks alike"
            if decay == 1
            else f"all blocks, each counting {decay:g} of the one above"
        )
        penalty = f" (penalty {self.head.penalty:g})" if isinstance(self.head, Ridge) else ""
        return f"Head: {self.head.name}{penalty}, reading {blocks}: {self.reason}."


def fixed_choice(head: Head, decay: Any) -> Choice:
    """A head that was asked for, on the usual reading where none was; `None` for embeddings without blocks."""
    return Choice(head, Reading(USUAL.decay if decay == "auto" else decay))


def choose_reading(head: Auto, support: Float64[ndarray, "images dim"], labels: Int64[ndarray, "images"]) -> Choice:
    """Choose by leaving out each support image in turn; see `choose`.

    Args:
        head: What to choose from.
        support: Embeddings of the support images.
        labels: The class of each.
    """
    rows = even_rows_by_class(labels, MOST_IMAGES)
    vectors, classes = torch.from_numpy(support[rows]), torch.from_numpy(labels[rows])
    readings, products = head.readings(), part_products(vectors, vectors, head.parts)
    errors = left_out_errors(products, classes, int(labels.max()) + 1, readings)
    likeness = likeness_of_classes(products, classes)
    usual = head.usual(likeness)
    number = int(choose(errors, classes, usual))
    asked = classes.bincount()[classes] > 1
    alike = f"{likeness:.2f}"
    if not asked.any():
        reason = f"the usual choice for classes of mean cosine {alike}, because no class has two images to choose by"
    elif number == usual:
        reason = f"the usual choice for classes of mean cosine {alike}: no other is clearly better on images left out"
    else:
        of_usual, best = (float(errors[row, asked].mean()) for row in (int(usual), number))
        reason = (
            f"its squared error on the images left out in turn is {best:.3f}, that of the usual choice {of_usual:.3f}"
        )
    reading = readings[number]
    return Choice(Ridge(reading.penalty), reading, reason)
