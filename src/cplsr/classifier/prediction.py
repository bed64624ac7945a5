"""One image's answer, and a table of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.no_class import UNKNOWN
from cplsr.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("path", "label", "confidence", "runner_up", "runner_up_confidence", "known", "error")
"""What a table of answers shows of each, in a file and in pandas."""

ROWS_SHOWN = 20


@dataclass(frozen=True)
class Prediction:
    """The classifier's answer for one image.

    Attributes:
        name: The image.
        label: A class, or `unknown` where no class was likely enough.
        confidence: The probability of the likeliest class.
        runner_up: The second likeliest class; of an `unknown` image, the class it would have got.
        runner_up_confidence: The probability of that class.
        known: Whether the label is a class.
        out_of_domain: How unlike the support images it is; see `EmbeddingClassifier.out_of_domain_score`.
        error: Why the image could not be read; all else is then empty.
    """

    name: str
    label: str = ""
    confidence: float | None = None
    runner_up: str = ""
    runner_up_confidence: float | None = None
    known: bool | None = None
    out_of_domain: float | None = None
    error: str = ""

    def rejected(self) -> Prediction:
        """The same answer as `unknown`, because no class is likely enough."""
        return replace(self, label=UNKNOWN, runner_up=self.label, runner_up_confidence=self.confidence, known=False)


@dataclass(frozen=True)
class PredictionTable:
    """Answers for some images, one row each, in the order of the images.

    Example:
        >>> table = PredictionTable((Prediction("a.png", "rust", 0.9), Prediction("b.png", error="0 bytes")))
        >>> [(row.name, row.label) for row in table], table.confidences
        ([('a.png', 'rust'), ('b.png', '')], [0.9, None])
        >>> print(table)
        path   label      confidence  runner up
        a.png  rust       0.90
        b.png  (0 bytes)
    """

    rows: tuple[Prediction, ...]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Prediction]:
        """Go through the rows."""
        return iter(self.rows)

    def __getitem__(self, index: int) -> Prediction:
        """One row."""
        return self.rows[index]

    def __str__(self) -> str:
        """A small table, the first rows of many."""
        shown = [("path", "label", "confidence", "runner up")]
        for row in self.rows[:ROWS_SHOWN]:
            sure = "" if row.confidence is None else f"{row.confidence:.2f}"
            shown.append((row.name, row.label or f"({row.error})", sure, row.runner_up))
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in shown]
        if len(self) > ROWS_SHOWN:
            lines.append(f"and {len(self) - ROWS_SHOWN:,} more")
        return "\n".join(lines)

    @property
    def paths(self) -> list[str]:
        """What the images are called: the path of a file, else `image` and a number."""
        return [row.name for row in self.rows]

    @property
    def labels(self) -> list[str]:
        """A class, `unknown`, or nothing where the image could not be read."""
        return [row.label for row in self.rows]

    @property
    def confidences(self) -> list[float | None]:
        """The probability of the likeliest class; `None` where the image could not be read."""
        return [row.confidence for row in self.rows]

    def to_pandas(self) -> DataFrame:
        """The same as a `DataFrame`, with the columns of the file that `cplsr classify` writes.

        Raises:
            InputError: If pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise InputError(
                "pandas is not installed: pip install pandas, or go through the rows as they are"
            ) from error
        fields = ("name", *COLUMNS[1:])
        return DataFrame([[getattr(row, field) for field in fields] for row in self.rows], columns=list(COLUMNS))


def predictions_of(
    head: EmbeddingClassifier, names: list[str], vectors: Float[ndarray, "images dim"], reject_below: float | None
) -> list[Prediction]:
    """Label embedded images by a fitted classifier; the names are what they are called."""
    if len(names) == 0:
        return []
    probabilities = head.predict_proba(vectors)
    likeliest = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
    unusual = head.out_of_domain_score(vectors)
    classes = [str(name) for name in head.classes_.tolist()]
    answers = []
    for row, name in enumerate(names):
        ranked = [(classes[k], float(probabilities[row, k])) for k in likeliest[row]]
        first, second = (*ranked, ("", None))[:2]  # with a single class there is no second
        out_of_domain = None if np.isnan(unusual[row]) else float(unusual[row])
        answer = Prediction(name, *first, *second, known=True, out_of_domain=out_of_domain)
        rejected = reject_below is not None and ranked[0][1] < reject_below
        answers.append(answer.rejected() if rejected else answer)
    return answers
